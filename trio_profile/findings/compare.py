"""The report of a comparison: one table of all methods, with a switch for the retention; everything else is folded."""

from trio_profile import units
from trio_profile.analysis.compare import Comparison, Row
from trio_profile.analysis.recommendation import CONTROL, keeps_answers
from trio_profile.findings import doubts, pareto, recommendation
from trio_profile.findings.blocks import Block, Page, Report, Sentences, Table
from trio_profile.findings.study_page import budget_notes, finished_cells, notes, report_of
from trio_profile.findings.table import FURTHER_COLUMNS, IN_SIGHT, grid, table
from trio_profile.quantities import entries, right_answers
from trio_profile.quantities.closeness import DIVERGENCE
from trio_profile.quantities.quantity import Column

_WORK = ("selection", "MACs without selection", "f(n)", "overhead factor of the formula", "f(n) with the factor")


def report(document: Comparison) -> Report:
    """All pages of a comparison's report."""
    pages = [verdict_page(document), kinds_page(document)]
    return report_of(document, f"{len(document.study.methods)} methods", pages)


def verdict_page(document: Comparison) -> Page:
    """What to do, and all methods and retentions in one chart and one table."""
    done = [row for row in document.rows if row.status == "done"]
    blocks: list[Block] = [recommendation.block(document.recommendation)]
    if (speed := pareto.chart(done, document.study.methods, document.reference, document.dense)) is not None:
        blocks.append(speed)
    blocks.append(_table(document))
    lines = [*recommendation.further(document.recommendation), *notes((row.method, row.notes) for row in document.rows)]
    lines += budget_notes(document.clamped_above, document.idle_stages)
    if done and document.doubts:
        lines.append(doubts.summary(document.doubts, finished_cells(done)))
    if lines:
        blocks.append(Sentences("Keep in mind", lines, tone="doubt"))
    return Page("verdict", "Verdict", "", blocks)


def kinds_page(document: Comparison) -> Page:
    """Right answers of each method by kind of question."""
    rows = [row for row in document.rows if row.accuracy is not None]
    known = document.dense.accuracy_by_kind if document.dense and rows else {}
    kinds = [right_answers.of_kind(kind, entries.share) for kind in known]
    caption = "Questions answered right, by kind of question"
    blocks = [table(grid(document, rows), caption, kinds, with_dense=True, detail=True)] if kinds else []
    return Page("kinds", "Answers by kind", "", blocks, folded="Show the right answers by kind of question")


def _table(document: Comparison) -> Table:
    """All methods at all retentions: those that keep the answers first, the fastest of them on top, controls last."""
    rows = sorted(document.rows, key=_place)
    shown = grid(document, rows)
    apart = Column(
        f"points to {document.reference}", lambda row, _: entries.points(row.reference_difference), needs_answers=True
    )
    columns = [*IN_SIGHT, apart, *_WORK, "tokens kept", shown.changed, *DIVERGENCE, *FURTHER_COLUMNS]
    known = "Methods that keep the right answers first, the fastest on top" if shown.answered else "The fastest on top"
    pick = document.recommendation.pick
    lowest = min(document.study.retentions)
    return table(
        shown,
        f"{known}. Controls last",
        columns,
        ["method", "asked"],
        in_sight="KV",
        switch=1,
        chosen=units.percent(lowest if pick is None else pick.retention),
    )


def _place(row: Row) -> tuple[bool, float, bool, bool, float]:
    return row.status != "done", row.nominal_retention, row.remark == CONTROL, not keeps_answers(row), -row.speed
