"""The document of `trio-profile sweep`: every quantity of each cell, with its interval, and the break-even."""

from collections.abc import Mapping, Sequence

from trio_profile import units
from trio_profile.judge.accuracy import SHARES, AccuracyKept, accuracy_kept, by_question, correct_shares
from trio_profile.judge.recommendation import Recommendation, recommend
from trio_profile.judge.times import MEASURED, speedup_centres
from trio_profile.kinds.grid.cells import CellSummary, summarise_cells
from trio_profile.kinds.grid.document import GridDocument, fields_of, in_order
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.quantities.summary import DenseSummary
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Dense, Measurement
from trio_profile.stats.crossing import BreakEven, exact_break_even, measured_break_even
from trio_profile.stats.intervals import machine_spread
from trio_profile.stats.two_way import Centre

COSTS = tuple(quantity for quantity in QUANTITIES.values() if quantity.label and not quantity.phase)
"""The quantities with a break-even that are no times."""


class SweepDocument(GridDocument):
    """The output of `trio-profile sweep --json`.

    cells: the measured cells, in the study's order.
    break_even: the break-even of the study's first method, by quantity.
    break_even_by_method: the same for each method.
    accuracy_kept_by_method: the least retention that keeps 0.99, 0.97 and 0.95 of the dense accuracy.
    recommendation: the cell to deploy, if any.
    """

    cells: list[CellSummary]
    recommendation: Recommendation
    break_even: dict[str, BreakEven]
    break_even_by_method: dict[str, dict[str, BreakEven]]
    accuracy_kept_by_method: dict[str, dict[str, AccuracyKept]]

    @property
    def summaries(self) -> Sequence[CellSummary]:
        """All cells, in the study's order."""
        return self.cells


def summarise(contents: Contents) -> SweepDocument:
    """Derive the document of a study from its records. It has the study's order."""
    study, ordered, shared = contents.study, in_order(contents), fields_of(contents)
    cells, dense = summarise_cells(ordered, study, contents.dense), shared["dense"]
    timed = [measurement for measurement in ordered if measurement.status == "done"]
    centres = {time: speedup_centres(timed, time, machine_spread(study.device)) for time in MEASURED}
    break_even: dict[str, dict[str, BreakEven]] = {}
    for method in study.methods:
        summaries = [cell for cell in cells if cell.method == method and cell.status == "done" and cell.retention]
        break_even[method] = _break_evens(dense, summaries, centres)
    kept = {method: _accuracies_kept(contents.dense, timed, method) for method in study.methods}
    return SweepDocument(
        **shared,
        cells=cells,
        recommendation=recommend(cells, shared["doubts"]),
        break_even=break_even[study.methods[0]],
        break_even_by_method=break_even,
        accuracy_kept_by_method=kept,
    )


def _accuracies_kept(dense: Dense | None, cells: Sequence[Measurement], method: str) -> dict[str, AccuracyKept]:
    """Return the least retention at which one method keeps each of SHARES of the dense accuracy.

    It is empty if fewer than two cells have known answers, or if the dense model gives no right answer.
    """
    answers = {
        cell.retention.realised: shares
        for cell in cells
        if cell.cell.method == method and cell.retention and (shares := correct_shares(cell, dense)) is not None
    }
    if dense is None or not any(dense.correct) or len(answers) < 2:
        return {}
    whole = by_question(dense.correct, len(dense.correct))
    return {
        units.plain(share): accuracy_kept(list(answers), list(answers.values()), whole, share, dense.pictures)
        for share in SHARES
    }


def _break_evens(
    dense: DenseSummary | None,
    cells: Sequence[CellSummary],
    centres: Mapping[str, Mapping[str, Centre]],
) -> dict[str, BreakEven]:
    """Return the break-even of one method for each quantity, over its realised retentions.

    cells: the method's finished cells.
    centres: of the speed-ups, by time and by the id of the cell.
    """
    retentions = [cell.realised for cell in cells]
    by_quantity: dict[str, BreakEven] = {}
    for time in MEASURED:
        timed = {
            cell.realised: centres[time][cell.cell.id].inverse() for cell in cells if cell.cell.id in centres[time]
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
