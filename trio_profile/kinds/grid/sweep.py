"""The kind `sweep`: its document, with break-evens, and its report."""

from collections.abc import Iterator, Mapping, Sequence

from trio_profile import units
from trio_profile.judge.accuracy import SHARES, AccuracyKept, accuracy_kept, by_question, correct_shares
from trio_profile.judge.times import MEASURED, speedup_centres
from trio_profile.kinds.grid.document import CellSummary, GridDocument, fields_of, in_order, summarise_cells
from trio_profile.kinds.grid.page import reminders, report_of
from trio_profile.kinds.grid.verdict import conclude
from trio_profile.quantities.registry import COLUMNS, QUANTITIES
from trio_profile.quantities.summary import DenseSummary
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Cell, Dense, Measurement
from trio_profile.report import break_even, charts
from trio_profile.report.blocks import Block, Entry, Page, Report, Table
from trio_profile.report.palette import number_of
from trio_profile.report.table import FURTHER_COLUMNS, by_kind, grid, table
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
    pick: the cell that the conclusion is about; None if it is about none.
    """

    cells: list[CellSummary]
    pick: Cell | None = None
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
    conclusion, pick = conclude(contents, shared["doubts"])
    kept = {method: _accuracies_kept(contents.dense, timed, method) for method in study.methods}
    return SweepDocument(
        **shared,
        cells=cells,
        conclusion=conclusion,
        pick=pick,
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
    common = min(map(len, answers.values()))  # questions of each of these cells
    kept, whole = [shares[:common] for shares in answers.values()], by_question(dense.correct[:common], common)
    return {
        units.plain(share): accuracy_kept(list(answers), kept, whole, share, dense.pictures[:common])
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


MOST_SHOWN = 16
"""The table of a sweep of several methods with more cells has a switch for the method."""


def report(document: SweepDocument) -> Report:
    """All pages of a sweep's report."""
    pages = [verdict_page(document), charts_page(document), answers_page(document), cells_page(document)]
    return report_of(document, ", ".join(document.study.methods), pages)


def verdict_page(document: SweepDocument) -> Page:
    """The speed-up over retention, each method in a table, and the break-even of every quantity."""
    blocks: list[Block] = []
    if any(cell.status == "done" for cell in document.cells):
        chart = charts.speedups(document, "prefill", "Speed-up of the prefill", _picked(document))
        blocks += [_summary(document), chart]
        blocks += [break_even.table(document, _picked(document))] if document.dense is not None else []
    blocks += reminders(document, *_incomplete(document))
    return Page("verdict", "Verdict", "", blocks)


def _picked(document: SweepDocument) -> str:
    """The method of the conclusion, or the first one."""
    return document.study.methods[0] if document.pick is None else document.pick.method


def charts_page(document: SweepDocument) -> Page:
    """The speed-up with decoding."""
    tokens = units.number_of(document.study.new_tokens, "new token")
    methods = document.study.methods
    blocks: list[Block] = []
    if any(cell.total_speedup for cell in document.cells) and document.study.new_tokens > 1:
        blocks.append(charts.speedups(document, "total", f"Prefill and {tokens}", methods[0]))
    how = "Each point is the median of paired ratios, dense time over pruned time, with its 95 % interval."
    return Page("charts", "Speed-up with decoding", how, blocks, folded="Show the chart")


def answers_page(document: SweepDocument) -> Page:
    """Right answers by retention and by kind of question, and the cheapest retention that keeps them."""
    cells = grid(document, document.cells)
    return Page(
        "answers",
        "Answers",
        "More questions are asked at the retentions that may be chosen. All are answered by generation. A method that "
        "draws at random has several seeds.",
        [charts.accuracy(document), _kept_table(document), *by_kind(cells)] if cells.answered and cells.rows else [],
        folded="Show the answers",
    )


def cells_page(document: SweepDocument) -> Page:
    """The numbers of every finished cell that the summary leaves out."""
    caption = "Times are medians. Work and memory are exact, with their ratio to dense"
    cells = grid(document, document.cells)
    columns = [name for name in COLUMNS if name not in _summary(document).columns]
    return Page(
        "cells",
        "All cells",
        "A speed-up is a median of paired ratios, so its interval is narrower than those of the two times suggest. "
        "Choose a count to see all its digits.",
        [table(cells, caption, columns, ["method", "asked"], with_dense=True, detail=True)] if cells.rows else [],
        folded="Show the other numbers of every cell",
    )


def _summary(document: SweepDocument) -> Table:
    """Every method at every retention: answers, speed-ups, and cost relative to dense."""
    methods = document.study.methods
    cells = grid(document, sorted(document.cells, key=lambda cell: (methods.index(cell.method), cell.realised)))
    in_sight = [name for name in cells.in_sight if name != "total" or document.study.new_tokens > 1]
    columns = dict.fromkeys(
        [*in_sight, "MACs", "f(n)", cells.changed, "mean KL, nats", *FURTHER_COLUMNS, "tokens kept"]
    )
    caption = "Speed-up [95 % interval], and cost relative to dense"
    by = "method, then retention" if len(methods) > 1 else "retention"
    keys = ["method", "reached"][len(methods) == 1 :]
    switch = 0 if len(methods) > 1 and len(document.cells) > MOST_SHOWN else None
    chosen = _picked(document) if switch == 0 else ""
    return table(
        cells,
        caption,
        [*columns],
        keys,
        in_sight="MACs",
        switch=switch,
        chosen=chosen,
        most=MOST_SHOWN,
        order=f"Sorted by {by}, the lowest first.",
        drawn=cells.drawn,
    )


def _incomplete(document: SweepDocument) -> Iterator[str]:
    """The numbers that are missing or too low."""
    cells = document.cells
    if document.dense is None and any(cell.status == "done" for cell in cells):
        yield "The dense model was not counted, so work and cache cannot be compared with it."
    missed = {name for cell in [*cells, *([document.dense] if document.dense else [])] for name in cell.uncounted}
    if missed:
        yield f"Counted MACs are too low: no formula covers {', '.join(sorted(missed))}."


def _kept_table(document: SweepDocument) -> Table:
    """The cheapest retention that keeps a share of the dense accuracy."""
    known = {method: kept for method, kept in document.accuracy_kept_by_method.items() if kept}
    rows = [[Entry(method, colour=number_of(method)), *map(_kept, kept.values())] for method, kept in known.items()]
    shares = next(iter(known.values()), {})
    columns = ("Method", *(f"{units.percent(float(share), 0)} kept" for share in shares))
    return Table("The cheapest retention that keeps a share of the dense accuracy", columns, rows, detail=True)


def _kept(kept: AccuracyKept) -> Entry:
    if kept.status == "inconclusive":
        return Entry("not enough questions to say", tone="absent")
    if kept.retention is None or kept.ci95 is None:
        return Entry("at every retention measured" if kept.status == "always" else "at no retention measured")
    return Entry(units.percent_within(kept.retention, kept.ci95))
