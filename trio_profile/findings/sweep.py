"""The report of a sweep, from top to bottom. To add a page, write a function that returns it and put it into PAGES."""

from collections.abc import Callable

from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import break_even, cell_tables, doubts, pareto, recommendation, sweep_charts, verdict
from trio_profile.findings.answers import answers_page
from trio_profile.findings.blocks import Block, Page, Report, Sentences
from trio_profile.findings.cells import any_finished, finished, finished_cells
from trio_profile.findings.charts import colour_of
from trio_profile.findings.definitions import numbers_page
from trio_profile.findings.study_page import report_of, study_page
from trio_profile.findings.tokens import tokens_page

MOST_CARDS = 4
"""A sweep of more methods has one table of them, instead of sentences and a table for each."""


def report(document: SweepDocument) -> Report:
    """All pages of a sweep's report."""
    pages = [found for page in PAGES if (found := page(document)) is not None]
    return report_of(document, ", ".join(document.study.methods), pages)


def verdict_page(document: SweepDocument) -> Page:
    """What was found: what to do, each method in sentences and in a table, and the break-even of every quantity."""
    blocks: list[Block] = [recommendation.block(document.recommendation)]
    reference = "trio" if "trio" in document.study.methods else document.study.methods[0]
    if (speed := pareto.chart(document.cells, document.study.methods, reference, document.dense)) is not None:
        blocks.append(speed)
    blocks += _many_methods(document) if len(document.study.methods) > MOST_CARDS else _few_methods(document)
    if document.dense is not None and any_finished(document):
        blocks.append(break_even.table(document))
    if reminders := verdict.doubts(document):
        blocks.append(Sentences("Keep in mind", reminders, tone="doubt"))
    return Page(
        "verdict",
        "Verdict",
        "Brackets are 95 % intervals. Break-even is the retention above which pruning costs more than it saves. Each "
        f"quantity has its own: a method may pay by formula where it does not pay by the clock. {pareto.NOTE}",
        blocks,
    )


def _few_methods(document: SweepDocument) -> list[Block]:
    """For each method its findings and a table of its cells."""
    methods, seen = document.study.methods, {cell.method for cell in document.cells}
    told = [
        Sentences(method, lines, colour=colour_of(document, method))
        for method in methods
        if (lines := verdict.findings(document, method))
    ]
    return [*told, *(cell_tables.summary(document, method) for method in methods if method in seen)]


def _many_methods(document: SweepDocument) -> list[Block]:
    """One table of all methods."""
    return [cell_tables.methods_table(document)]


def doubts_page(document: SweepDocument) -> Page:
    """The reasons not to trust numbers of this study."""
    return doubts.page(document.doubts, finished_cells(document.cells), document.pairs, document.study.methods)


def speedup_page(document: SweepDocument) -> Page:
    """Measured speed-ups."""
    return Page(
        "speed-up",
        "Speed-up",
        "Each point is the median of paired ratios, dense time over pruned time, with its 95 % interval. Higher is "
        "better: above the line at 1× pruning is faster. The vertical band is break-even with its interval: to the "
        "right of it pruning no longer pays. A hollow point stopped before its interval was as narrow as asked. Both "
        "charts have the same axis.",
        [sweep_charts.prefill_speedup(document), sweep_charts.total_speedup(document)]
        if any_finished(document)
        else [],
    )


def work_page(document: SweepDocument) -> Page:
    """Work as claimed and as counted beside the time, on one axis, and what selection costs."""
    charts = [sweep_charts.work(document, method) for method in document.study.methods if finished(document, method)]
    return Page(
        "work",
        "Work",
        "Cost as a ratio to dense: lower is better here, and higher is better on the page Speed-up. The dotted line is "
        "what the paper's formula claims, for visual tokens alone. The solid grey line is what the counter saw, with "
        "text, head and selection. The dashed line is the same without selection. The coloured line is the time that "
        "prefill took. The gap between dotted and grey is work that the formula leaves out or counts otherwise. The "
        "gap between grey and coloured is time that does not follow work.",
        [*charts, sweep_charts.selection(document)] if charts else [],
    )


def cache_page(document: SweepDocument) -> Page:
    """The key-value cache."""
    known = document.dense is not None and any(cell.kv_bytes for cell in document.cells)
    return Page(
        "cache",
        "KV cache",
        "Bytes that the cache holds after prefill, over dense. A ring is the prediction from the schedule. Where a "
        "point lies outside its ring, the cache holds other bytes than predicted. Text tokens are never pruned, so the "
        "ratio stays above retention.",
        [sweep_charts.cache(document)] if known else [],
    )


PAGES: tuple[Callable[[SweepDocument], Page | None], ...] = (
    verdict_page,
    speedup_page,
    answers_page,
    tokens_page,
    work_page,
    cache_page,
    cell_tables.cells_page,
    doubts_page,
    study_page,
    lambda _: numbers_page(),
)
