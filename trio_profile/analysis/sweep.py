"""The document of `trio-profile sweep`: every quantity of each cell, with its interval, and the break-even."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from trio_profile import units
from trio_profile.analysis.accuracy import SHARES, AccuracyKept, accuracy_kept, by_question, correct_shares
from trio_profile.analysis.cells import CellSummary, summarise_cells, with_counted_gamma
from trio_profile.analysis.grid import GridDocument, document_of, fields_of, in_order
from trio_profile.analysis.ladders import IdleStage, clamped_above, idle_stages
from trio_profile.analysis.recommendation import Recommendation, recommend
from trio_profile.analysis.times import MEASURED, speedup_centres
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.quantities.summary import DenseSummary
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Dense, Environment, Measurement, Round, Session, Study
from trio_profile.stats.crossing import BreakEven, exact_break_even, measured_break_even
from trio_profile.stats.intervals import machine_spread
from trio_profile.stats.two_way import Centre

COSTS = tuple(quantity for quantity in QUANTITIES.values() if quantity.label and not quantity.phase)
"""The quantities with a break-even that are no times."""


class SweepDocument(GridDocument):
    """What `trio-profile sweep --json` prints.

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
    """

    cells: list[CellSummary]
    recommendation: Recommendation
    break_even: dict[str, BreakEven]
    break_even_by_method: dict[str, dict[str, BreakEven]]
    break_even_counted_gamma: dict[str, BreakEven] = Field(default_factory=dict)
    clamped_above: dict[str, float] = Field(default_factory=dict)
    idle_stages: list[IdleStage] = Field(default_factory=list)
    accuracy_kept: dict[str, AccuracyKept] = Field(default_factory=dict)
    accuracy_kept_by_method: dict[str, dict[str, AccuracyKept]] = Field(default_factory=dict)

    @property
    def summaries(self) -> Sequence[CellSummary]:
        """All cells, in the study's order."""
        return self.cells

    @property
    def uncounted_selections(self) -> list[CellSummary]:
        """The cells that `break_even_counted_gamma` leaves out, because the work of their selection was not counted."""
        counted = (cell for cell in self.cells if cell.method in self.break_even_counted_gamma)
        return [cell for cell in counted if cell.status == "done" and with_counted_gamma(cell) is None]


def summarise(
    study: Study,
    environment: Environment,
    dense: Dense | None,
    measurements: Sequence[Measurement],
    sessions: Sequence[Session] = (),
    rounds: Sequence[Round] = (),
) -> SweepDocument:
    """Derive the document of a study from its records.

    measurements: in any order. The document has the study's order.
    sessions: in the order in which they began.
    rounds: in the order of measurement.
    """
    ordered = in_order(study, measurements)
    shared = fields_of(study, environment, dense, ordered, sessions, rounds)
    cells, whole = summarise_cells(ordered, study, dense), shared["dense"]
    timed = [measurement for measurement in ordered if measurement.status == "done"]
    centres = {time: speedup_centres(timed, time, machine_spread(study.device)) for time in MEASURED}
    done = {method: [one for one in timed if one.cell.method == method] for method in study.methods}
    summaries = {
        method: [cell for cell in cells if cell.method == method and cell.status == "done" and cell.retention]
        for method in study.methods
    }
    break_even = {method: _break_evens(whole, done[method], summaries[method], centres) for method in study.methods}
    kept = {method: _accuracies_kept(dense, done[method], centres["prefill_ms"]) for method in study.methods}
    limits = {
        method: limit
        for method, found in summaries.items()
        if whole and found and (limit := clamped_above(found, whole.visual_tokens, whole.num_layers)) is not None
    }
    return SweepDocument(
        **shared,
        cells=cells,
        recommendation=recommend(cells, shared["doubts"]),
        break_even=break_even[study.methods[0]],
        break_even_by_method=break_even,
        break_even_counted_gamma={
            method: _with_counted_gamma(whole, found)
            for method, found in summaries.items()
            if whole and any(cell.fastv_macs_counted_gamma for cell in found)
        },
        clamped_above=limits,
        idle_stages=idle_stages(cells, whole.visual_tokens) if whole else [],
        accuracy_kept=kept[study.methods[0]],
        accuracy_kept_by_method=kept,
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
    dense: DenseSummary | None,
    done: Sequence[Measurement],
    cells: Sequence[CellSummary],
    centres: Mapping[str, Mapping[str, Centre]],
) -> dict[str, BreakEven]:
    """Return the break-even of one method for each quantity, over its realised retentions.

    done, cells: the records and the summaries of the method's finished cells.
    centres: of the speed-ups, by time and by the id of the cell.
    """
    retentions = [cell.realised for cell in cells]
    by_quantity: dict[str, BreakEven] = {}
    for time in MEASURED:
        timed = {
            one.retention.realised: centres[time][one.cell.id].inverse()
            for one in done
            if one.retention is not None and one.cell.id in centres[time]
        }
        by_quantity[time] = measured_break_even(list(timed), list(timed.values()))
    for quantity in COSTS:
        costs = [cost for cell in cells if (cost := quantity.cost_of(cell)) is not None]
        whole = None if dense is None else quantity.cost_of(dense)
        if whole and len(costs) == len(cells):
            exact = exact_break_even(retentions, costs, whole)
            # The noise of what is measured once is not known, so there is no interval.
            by_quantity[quantity.name] = exact if quantity.exact else exact.model_copy(update={"ci95": None})
        elif quantity.exact:
            by_quantity[quantity.name] = BreakEven(status="inconclusive")
    return by_quantity


def _with_counted_gamma(dense: DenseSummary, cells: Sequence[CellSummary]) -> BreakEven:
    """Return the break-even of the formula with the counted γ, over the cells of one method that were counted."""
    costs = {cell.realised: macs for cell in cells if (macs := with_counted_gamma(cell)) is not None}
    return exact_break_even(list(costs), list(costs.values()), dense.fastv_macs)


def from_store(contents: Contents) -> SweepDocument:
    """Make the document from the contents of a store."""
    return document_of(summarise, contents)
