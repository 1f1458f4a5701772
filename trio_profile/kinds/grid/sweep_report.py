"""The report of a sweep: what to do, the speed-up over retention, and a table; everything else is folded."""

from collections.abc import Iterator

from trio_profile import units
from trio_profile.judge.accuracy import AccuracyKept
from trio_profile.kinds.grid.page import reminders, report_of
from trio_profile.kinds.grid.sweep import SweepDocument
from trio_profile.report import break_even, charts, pareto, recommendation
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Table
from trio_profile.report.table import FURTHER_COLUMNS, IN_SIGHT, by_kind, grid, table

MOST_SHOWN = 16
"""The table of a sweep of several methods with more cells has a switch for the method."""
_EVERYTHING = (
    *("of the layers", "in the last layer", "realised", "tokens kept", "after layers"),
    *("prefill", "prefill of dense", "prefill pruned", "pairs", "total", "total of dense", "total pruned"),
    *("CPU time ratio", "CPU time of dense", "CPU time pruned", "host of dense", "host pruned"),
    *("first token of dense", "first token pruned", "later token of dense", "later token pruned"),
    *("energy of dense", "energy pruned"),
    *("by formula", "counted", "fvcore", "selection of MACs", "overhead factor", "held", "predicted", "peak"),
)
"""The columns of the table of all cells: retention, times, energy, work and memory."""


def report(document: SweepDocument) -> Report:
    """All pages of a sweep's report."""
    pages = [verdict_page(document), charts_page(document), answers_page(document), cells_page(document)]
    return report_of(document, ", ".join(document.study.methods), pages)


def verdict_page(document: SweepDocument) -> Page:
    """The recommendation, the speed-up over retention, each method in a table, and the break-even of every quantity."""
    blocks: list[Block] = [Sentences("", [recommendation.sentence(document.recommendation), *_range(document)])]
    if any(cell.status == "done" for cell in document.cells):
        chart = charts.speedups(document, "prefill", "Speed-up of the prefill", _picked(document))
        blocks += [chart, _summary(document)]
        blocks += [break_even.table(document, _picked(document))] if document.dense is not None else []
    blocks += reminders(document, *recommendation.further(document.recommendation), *_incomplete(document))
    return Page("verdict", "Verdict", "", blocks)


def _range(document: SweepDocument) -> list[str]:
    """The range of retentions at which the recommended method, or the first one, pays."""
    method = _picked(document)
    pays = break_even.pays(document, method, "prefill_ms")
    return [f"By prefill time, {method} {pays}."] if document.cells else []


def _picked(document: SweepDocument) -> str:
    """The recommended method, or the first one."""
    pick = document.recommendation.pick
    return document.study.methods[0] if pick is None else pick.method


def charts_page(document: SweepDocument) -> Page:
    """The speed-up with decoding; of several methods also speed against answers."""
    tokens = units.number_of(document.study.new_tokens, "new token")
    methods = document.study.methods
    blocks: list[Block] = []
    if any(cell.total_speedup for cell in document.cells) and document.study.new_tokens > 1:
        blocks.append(charts.speedups(document, "total", f"Prefill and {tokens}", methods[0]))
    chart = pareto.chart(document.cells, methods, document.dense) if len(methods) > 1 else None
    blocks += [chart] if chart is not None else []
    how = "Each point is the median of paired ratios, dense time over pruned time, with its 95 % interval."
    return Page("charts", "Further charts", f"{how} {pareto.NOTE}" if chart else how, blocks, folded="Show the charts")


def answers_page(document: SweepDocument) -> Page:
    """Right answers by retention and by kind of question, and the cheapest retention that keeps them."""
    cells = grid(document, document.cells)
    return Page(
        "answers",
        "Answers",
        "The same questions are asked at every retention, and answered by generation. A method that draws at random "
        "has several seeds.",
        [charts.accuracy(document), _kept_table(document), *by_kind(cells)] if cells.answered and cells.rows else [],
        empty="No question with a known answer was asked. `--questions FILE` asks them.",
        folded="Show the answers",
    )


def cells_page(document: SweepDocument) -> Page:
    """Every finished cell with all its numbers."""
    caption = "Times are medians. Work and memory are exact, with their ratio to dense"
    cells = grid(document, document.cells)
    return Page(
        "cells",
        "All cells",
        "A speed-up is a median of paired ratios, so its interval is narrower than those of the two times suggest. "
        "Choose a count to see all its digits.",
        [table(cells, caption, _EVERYTHING, ["method", "asked"], with_dense=True, detail=True)] if cells.rows else [],
        folded="Show every number of every cell",
    )


def _summary(document: SweepDocument) -> Table:
    """Every method at every retention: answers, speed-ups, and cost relative to dense."""
    methods = document.study.methods
    cells = grid(document, sorted(document.cells, key=lambda cell: methods.index(cell.method)))
    in_sight = [name for name in IN_SIGHT if name != "total" or document.study.new_tokens > 1]
    columns = [*in_sight, "f(n)", cells.changed, "mean KL, nats", *FURTHER_COLUMNS, "tokens kept"]
    caption = "Speed-up [95 % interval], and cost relative to dense"
    keys = ["method", "reached"][len(methods) == 1 :]
    switch = 0 if len(methods) > 1 and len(document.cells) > MOST_SHOWN else None
    chosen = _picked(document) if switch == 0 else ""
    return table(cells, caption, columns, keys, in_sight="KV", switch=switch, chosen=chosen, most=MOST_SHOWN)


def _incomplete(document: SweepDocument) -> Iterator[str]:
    """The numbers that are missing or too low."""
    cells, planned = document.cells, len(document.study.cells())
    if document.dense is None and any(cell.status == "done" for cell in cells):
        yield "The dense model was not counted, so work and cache cannot be compared with it."
    missed = {name for cell in [*cells, *([document.dense] if document.dense else [])] for name in cell.uncounted}
    if missed:
        yield f"Counted MACs are too low: no formula covers {', '.join(sorted(missed))}."
    if planned > len(cells):
        yield f"Not measured yet: {planned - len(cells)} of {units.number_of(planned, 'cell')}."


def _kept_table(document: SweepDocument) -> Table:
    """The cheapest retention that keeps a share of the dense accuracy."""
    known = {method: kept for method, kept in document.accuracy_kept_by_method.items() if kept}
    rows = [
        [Entry(method, colour=document.study.methods.index(method)), *map(_kept, kept.values())]
        for method, kept in known.items()
    ]
    shares = next(iter(known.values()), {})
    columns = ("Method", *(f"{units.percent(float(share), 0)} kept" for share in shares))
    return Table("The cheapest retention that keeps a share of the dense accuracy", columns, rows, detail=True)


def _kept(kept: AccuracyKept) -> Entry:
    if kept.status == "inconclusive":
        return Entry("not enough questions to say", tone="absent")
    if kept.retention is None or kept.ci95 is None:
        return Entry("at every retention measured" if kept.status == "always" else "at no retention measured")
    return Entry(units.percent_within(kept.retention, kept.ci95))
