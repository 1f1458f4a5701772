"""The document of `trio-profile compare`: several methods at the same retentions, measured in one process."""

from collections.abc import Sequence

from trio_profile.judge.accuracy import paired_difference
from trio_profile.judge.recommendation import Recommendation, front, judged_cells, loss
from trio_profile.kinds.grid.cells import CellSummary
from trio_profile.kinds.grid.document import GridDocument
from trio_profile.kinds.grid.sweep import summarise
from trio_profile.records.contents import Contents
from trio_profile.records.estimate import Difference
from trio_profile.records.schema import Cell


class Row(CellSummary):
    """One method at one retention.

    pareto: whether the method is on the Pareto front: no other method at this retention is both faster in prefill and
        better in its answers. Where no answers are known, closeness to the dense model counts instead (the mean KL).
    reference_difference: the method's accuracy minus the reference method's accuracy on the same questions. The
        difference to the dense model is `accuracy_difference`.
    """

    pareto: bool = False
    reference_difference: Difference | None = None


class Comparison(GridDocument):
    """The output of `trio-profile compare --json`.

    reference: the method that the other methods are compared with: trio, or the first method if trio is not measured.
    rows: sorted by retention, then by prefill speed-up, the fastest first. Cells that failed or were refused follow.
    recommendation: as in a sweep.
    """

    reference: str
    rows: list[Row]
    recommendation: Recommendation

    @property
    def summaries(self) -> Sequence[Row]:
        """All rows."""
        return self.rows


def compare(contents: Contents) -> Comparison:
    """Derive the comparison of a study from its records."""
    document, study = summarise(contents), contents.study
    reference = "trio" if "trio" in study.methods else study.methods[0]
    by_cell = {measurement.cell.id: measurement for measurement in contents.measurements}

    def to_reference(cell: CellSummary) -> Difference | None:
        if cell.method == reference or cell.status != "done":
            return None
        other = Cell(method=reference, retention=cell.nominal_retention)
        return paired_difference(by_cell[cell.cell.id], by_cell.get(other.id), contents.dense)

    cells = sorted(document.cells, key=lambda cell: (cell.nominal_retention, -cell.speed))
    done = [cell for cell in cells if cell.status == "done"]
    best = {
        retention: _pareto_methods([cell for cell in done if cell.nominal_retention == retention])
        for retention in study.retentions
    }
    ordered = [*done, *(cell for cell in document.cells if cell.status != "done")]
    rows = [
        Row(
            **dict(cell),
            pareto=cell.status == "done" and cell.method in best[cell.nominal_retention],
            reference_difference=to_reference(cell),
        )
        for cell in ordered
    ]
    shared = {name: value for name, value in dict(document).items() if name in Comparison.model_fields}
    return Comparison(**shared, reference=reference, rows=rows)


def _pareto_methods(cells: Sequence[CellSummary]) -> set[str]:
    """Return the methods on the Pareto front of prefill speed-up and of what is lost. Controls are not on it."""
    points = [(cell.method, cell.speed, lost) for cell in judged_cells(cells) if (lost := loss(cell)) is not None]
    return {points[index][0] for index in front([(gain, lost) for _, gain, lost in points])}
