"""The document of `trio-profile compare`: several methods at the same retentions, measured in one process."""

from collections.abc import Sequence

from pydantic import Field

from trio_profile.analysis.accuracy import paired_difference
from trio_profile.analysis.cells import CellSummary, DenseSummary, loss
from trio_profile.analysis.doubt import Doubt
from trio_profile.analysis.kept_tokens import TokenMaps, document_of
from trio_profile.analysis.ladders import IdleStage
from trio_profile.analysis.pairs import CellPairs
from trio_profile.analysis.pareto import front
from trio_profile.analysis.recommendation import Recommendation, judged_cells
from trio_profile.analysis.sweep import summarise
from trio_profile.records.contents import Contents
from trio_profile.records.documents import StudyDocument
from trio_profile.records.estimate import Difference
from trio_profile.records.schema import Cell, Dense, Environment, Measurement, Round, Session, Study


class Row(CellSummary):
    """One method at one retention.

    pareto: whether the method is on the Pareto front: no other method at this retention is both faster in prefill and
        better in its answers. Where no answers are known, closeness to the dense model counts instead (the mean KL).
    reference_difference: the method's accuracy minus the reference method's accuracy on the same questions. The
        difference to the dense model is `accuracy_difference`.
    """

    pareto: bool = False
    reference_difference: Difference | None = None


class Comparison(StudyDocument):
    """What `trio-profile compare --json` prints.

    reference: the method that the other methods are compared with: trio, or the first method if trio is not measured.
    rows: sorted by retention, then by prefill speed-up, the fastest first. Cells that failed or were refused follow.
    recommendation: the cell to deploy, if any.
    clamped_above, idle_stages: what to know of the budgets near full retention, as in a sweep.
    doubts: the reasons not to trust numbers of the study, as `trio-profile check` prints them.
    tokens: the tokens that each cell keeps of the picture; None if the study has no picture. `--json` leaves them out,
        because they have hundreds of numbers for each stage; measurements.jsonl has them (docs/reference/format.md).
    pairs: the raw pairs of each cell. `--json` leaves them out; the page's data and `export --pairs` have them.
    report: path of report.html.
    """

    dense: DenseSummary | None
    reference: str
    rows: list[Row]
    recommendation: Recommendation
    clamped_above: dict[str, float] = Field(default_factory=dict)
    idle_stages: list[IdleStage] = Field(default_factory=list)
    doubts: list[Doubt] = Field(default_factory=list)
    tokens: TokenMaps | None = Field(default=None, exclude=True)
    pairs: list[CellPairs] = Field(default_factory=list, exclude=True)
    report: str | None = None

    def at(self, retention: float) -> list[Row]:
        """The measured rows of one nominal retention."""
        return [row for row in self.rows if row.nominal_retention == retention and row.status == "done"]

    @property
    def answered(self) -> dict[str, dict[float, Row]]:
        """The rows with a known accuracy, by method and nominal retention. The most accurate method is first."""
        found: dict[str, dict[float, Row]] = {}
        for row in self.rows:
            if row.accuracy is not None:
                found.setdefault(row.method, {})[row.nominal_retention] = row
        return dict(sorted(found.items(), key=lambda pair: -_mean_accuracy(pair[1])))

    @property
    def refusals(self) -> list[Row]:
        """The rows that failed or were refused."""
        return [row for row in self.rows if row.status != "done"]


def compare(
    study: Study,
    environment: Environment,
    dense: Dense | None,
    measurements: list[Measurement],
    sessions: Sequence[Session] = (),
    rounds: Sequence[Round] = (),
) -> Comparison:
    """Derive the comparison of a study from its records. The arguments are those of `summarise`."""
    document = summarise(study, environment, dense, measurements, sessions=sessions, rounds=rounds)
    reference = "trio" if "trio" in study.methods else study.methods[0]
    by_cell = {measurement.cell.id: measurement for measurement in measurements}

    def reference_difference(cell: CellSummary) -> Difference | None:
        if cell.method == reference:
            return None
        measurement, other = (
            by_cell.get(Cell(method=method, retention=cell.nominal_retention).id) for method in (cell.method, reference)
        )
        return None if measurement is None else paired_difference(measurement, other, dense)

    rows: list[Row] = []
    for retention in sorted(set(study.retentions)):
        cells = [cell for cell in document.cells if cell.nominal_retention == retention and cell.status == "done"]
        cells.sort(key=lambda cell: cell.speed, reverse=True)
        best = _pareto_methods(cells)
        rows += [
            Row(**dict(cell), pareto=cell.method in best, reference_difference=reference_difference(cell))
            for cell in cells
        ]
    rows += [Row(**dict(cell)) for cell in document.cells if cell.status != "done"]
    return Comparison(
        sessions=document.sessions,
        environment=environment,
        study=study,
        dense=document.dense,
        reference=reference,
        rows=rows,
        recommendation=document.recommendation,
        clamped_above=document.clamped_above,
        idle_stages=document.idle_stages,
        doubts=document.doubts,
        pairs=document.pairs,
    )


def _pareto_methods(cells: Sequence[CellSummary]) -> set[str]:
    """Return the methods on the Pareto front of prefill speed-up and of what is lost. Controls are not on it."""
    points = [(cell.method, cell.speed, lost) for cell in judged_cells(cells) if (lost := loss(cell)) is not None]
    return {points[index][0] for index in front([(gain, lost) for _, gain, lost in points])}


def _mean_accuracy(rows: dict[float, Row]) -> float:
    values = [row.accuracy.value for row in rows.values() if row.accuracy is not None]
    return sum(values) / len(values)


def from_store(contents: Contents) -> Comparison:
    """Make the document from the contents of a store."""
    return document_of(compare, contents)
