"""The document of `trio-profile sweep`: every quantity of each cell, with its interval, and the break-even."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from trio_profile import units
from trio_profile.analysis.accuracy import SHARES, AccuracyKept, accuracy_kept, by_question, correct_shares
from trio_profile.analysis.cells import (
    CellSummary,
    DenseSummary,
    summarise_cells,
    summarise_dense,
    with_counted_gamma,
)
from trio_profile.analysis.doubt import Doubt
from trio_profile.analysis.kept_tokens import TokenMaps, document_of
from trio_profile.analysis.ladders import IdleStage, clamped_above, idle_stages
from trio_profile.analysis.pairs import CellPairs, pairs_of
from trio_profile.analysis.recommendation import Recommendation, recommend
from trio_profile.analysis.stability import doubts
from trio_profile.analysis.times import MEASURED, speedup_centres
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.records.contents import Contents
from trio_profile.records.documents import StudyDocument
from trio_profile.records.schema import Dense, Environment, Measurement, Round, Session, Study
from trio_profile.stats.crossing import BreakEven, exact_break_even, measured_break_even
from trio_profile.stats.intervals import machine_spread
from trio_profile.stats.two_way import Centre

COSTS = tuple(quantity for quantity in QUANTITIES.values() if quantity.label and not quantity.phase)
"""The quantities with a break-even that are no times."""


class SweepDocument(StudyDocument):
    """What `trio-profile sweep --json` prints.

    dense: the dense model; None if it is not measured yet.
    cells: the measured cells, in the study's order.
    break_even: the break-even of the study's first method, by quantity.
    break_even_by_method: the same for each method.
    break_even_counted_gamma: by method, the break-even of `fastv_macs` with the counted γ in place of the assumed one.
        Methods without F_ov are left out, and so are cells whose selection was not counted.
    clamped_above: by method, the retention above which the budgets cannot keep their proportion. Methods without a cell
        above it are left out.
    idle_stages: stages that drop next to no tokens, but score all of them.
    accuracy_kept: for the first method, the least retention that keeps 0.99, 0.97 and 0.95 of the dense accuracy.
    accuracy_kept_by_method: the same for each method.
    recommendation: the cell to deploy, if any.
    doubts: the reasons not to trust numbers of the study, as `trio-profile check` prints them.
    tokens: the tokens that each cell keeps of the picture; None if the study has no picture. `--json` leaves them out,
        because they have hundreds of numbers for each stage; measurements.jsonl has them (docs/reference/format.md).
    pairs: the raw pairs of each cell. `--json` leaves them out; the page's data and `export --pairs` have them.
    report: path of report.html.
    """

    dense: DenseSummary | None
    cells: list[CellSummary]
    recommendation: Recommendation
    break_even: dict[str, BreakEven]
    break_even_by_method: dict[str, dict[str, BreakEven]]
    break_even_counted_gamma: dict[str, BreakEven] = Field(default_factory=dict)
    clamped_above: dict[str, float] = Field(default_factory=dict)
    idle_stages: list[IdleStage] = Field(default_factory=list)
    accuracy_kept: dict[str, AccuracyKept] = Field(default_factory=dict)
    accuracy_kept_by_method: dict[str, dict[str, AccuracyKept]] = Field(default_factory=dict)
    doubts: list[Doubt] = Field(default_factory=list)
    tokens: TokenMaps | None = Field(default=None, exclude=True)
    pairs: list[CellPairs] = Field(default_factory=list, exclude=True)
    report: str | None = None

    @property
    def uncounted_selections(self) -> list[CellSummary]:
        """The cells that `break_even_counted_gamma` leaves out, because the work of their selection was not counted."""
        return [
            cell
            for cell in self.cells
            if cell.method in self.break_even_counted_gamma
            and cell.status == "done"
            and with_counted_gamma(cell) is None
        ]


def summarise(
    study: Study,
    environment: Environment,
    dense: Dense | None,
    measurements: list[Measurement],
    report: str | None = None,
    sessions: Sequence[Session] = (),
    rounds: Sequence[Round] = (),
) -> SweepDocument:
    """Derive the document of a study from its records.

    measurements: in any order. The document has the study's order.
    sessions: in the order in which they began.
    rounds: in the order of measurement.
    """
    by_cell = {measurement.cell.id: measurement for measurement in measurements}
    ordered = [by_cell[cell.id] for cell in study.cells() if cell.id in by_cell]
    done = {method: [m for m in ordered if m.cell.method == method and m.status == "done"] for method in study.methods}
    cells = summarise_cells(ordered, study, dense)
    timed = [measurement for found in done.values() for measurement in found]
    centres = {time: speedup_centres(timed, time, machine_spread(study.device)) for time in MEASURED}
    break_even = {method: _break_evens(dense, found, cells, centres) for method, found in done.items()}
    accuracy_kept = {method: _accuracies_kept(dense, found, centres["prefill_ms"]) for method, found in done.items()}
    found = doubts(study, ordered, dense, sessions, rounds)
    return SweepDocument(
        sessions=tuple(sessions),
        environment=environment,
        study=study,
        dense=summarise_dense(dense) if dense else None,
        cells=cells,
        recommendation=recommend(cells, found),
        break_even=break_even[study.methods[0]],
        break_even_by_method=break_even,
        break_even_counted_gamma=_with_counted_gamma(dense, cells),
        clamped_above=_clamped_above(dense, cells),
        idle_stages=[] if dense is None else idle_stages(cells, dense.shape.visual_tokens),
        accuracy_kept=accuracy_kept[study.methods[0]],
        accuracy_kept_by_method=accuracy_kept,
        doubts=found,
        pairs=pairs_of(ordered, sessions),
        report=report,
    )


def _accuracies_kept(
    dense: Dense | None, done: list[Measurement], speedups: Mapping[str, Centre]
) -> dict[str, AccuracyKept]:
    """Return the least retention at which one method keeps each of SHARES of the dense accuracy.

    It is empty if fewer than two cells have known answers, or if the dense model gives no right answer.

    done: the finished cells of the method.
    speedups: of the prefill, by the id of the cell.
    """
    known = [
        (measurement.retention.realised, shares, speedups[measurement.cell.id].value)
        for measurement in done
        if measurement.retention is not None
        and measurement.cell.id in speedups
        and (shares := correct_shares(measurement, dense)) is not None
    ]
    if dense is None or not any(dense.correct) or len(known) < 2:
        return {}
    retentions, shares, prefill_speedups = zip(*known, strict=True)
    dense_shares = by_question(dense.correct, len(dense.correct))
    return {
        units.plain(share): accuracy_kept(
            retentions, shares, dense_shares, share, prefill_speedups, pictures=dense.pictures
        )
        for share in SHARES
    }


def _break_evens(
    dense: Dense | None,
    done: Sequence[Measurement],
    summaries: Sequence[CellSummary],
    centres: Mapping[str, Mapping[str, Centre]],
) -> dict[str, BreakEven]:
    """Return the break-even of one method for each quantity, over its realised retentions.

    done: the finished cells of the method.
    summaries: those of all cells of the study.
    centres: of the speed-ups, by time and by the id of the cell.
    """
    methods = {measurement.cell.method for measurement in done}
    cells = [cell for cell in summaries if cell.method in methods and cell.status == "done"]
    retentions = [cell.retention.realised for cell in cells if cell.retention is not None]
    found: dict[str, BreakEven] = {}
    for quantity in MEASURED:
        timed = {
            one.retention.realised: centres[quantity][one.cell.id].inverse()
            for one in done
            if one.retention is not None and one.cell.id in centres[quantity]
        }
        found[quantity] = measured_break_even(list(timed), list(timed.values()))
    summary = None if dense is None else summarise_dense(dense)
    for quantity in COSTS:
        costs = [cost for cell in cells if (cost := quantity.cost_of(cell)) is not None]
        whole = None if summary is None else quantity.cost_of(summary)
        known = whole and len(costs) == len(cells)
        if quantity.exact:
            found[quantity.name] = (
                exact_break_even(retentions, costs, whole) if whole and known else BreakEven(status="inconclusive")
            )
        elif whole and known:
            # The noise of what is measured once is not known, so there is no interval.
            once = exact_break_even(retentions, costs, whole)
            found[quantity.name] = once.model_copy(update={"ci95": None})
    return found


def _with_counted_gamma(dense: Dense | None, cells: Sequence[CellSummary]) -> dict[str, BreakEven]:
    """Return each method's break-even of the formula with the counted γ, over the cells that were counted."""
    found: dict[str, BreakEven] = {}
    for method, done in _finished(cells).items():
        if dense is not None and any(cell.fastv_macs_counted_gamma for cell in done):
            costs = {
                cell.retention.realised: macs
                for cell in done
                if cell.retention is not None and (macs := with_counted_gamma(cell)) is not None
            }
            found[method] = exact_break_even(list(costs), list(costs.values()), dense.fastv_macs)
    return found


def _clamped_above(dense: Dense | None, cells: Sequence[CellSummary]) -> dict[str, float]:
    """Return each method's retention above which the budgets cannot keep their proportion."""
    if dense is None:
        return {}
    sizes = dense.shape.visual_tokens, dense.shape.num_layers
    found = {method: clamped_above(done, *sizes) for method, done in _finished(cells).items()}
    return {method: limit for method, limit in found.items() if limit is not None}


def _finished(cells: Sequence[CellSummary]) -> dict[str, list[CellSummary]]:
    """Return the finished cells by method."""
    found: dict[str, list[CellSummary]] = {}
    for cell in cells:
        if cell.status == "done" and cell.retention is not None:
            found.setdefault(cell.method, []).append(cell)
    return found


def from_store(contents: Contents) -> SweepDocument:
    """Make the document from the contents of a store."""
    return document_of(summarise, contents)
