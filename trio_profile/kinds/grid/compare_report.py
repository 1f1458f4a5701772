"""The report of a comparison: one table of all methods, with a switch for the retention; everything else is folded."""

from trio_profile import units
from trio_profile.judge.recommendation import CONTROL, keeps_answers
from trio_profile.kinds.grid.compare import Comparison, Row
from trio_profile.kinds.grid.page import reminders, report_of
from trio_profile.quantities import entries
from trio_profile.quantities.entries import NOTHING, Entry
from trio_profile.quantities.quantity import Column
from trio_profile.records.facts import source_of
from trio_profile.report import pareto, recommendation
from trio_profile.report.blocks import Block, Page, Report, Sentences, Table
from trio_profile.report.table import FURTHER_COLUMNS, IN_SIGHT, by_kind, grid, table

_LICENCE = Column("licence", lambda row, _: _licence(row.method))
_TRAINED = Column("trained?", lambda row, _: Entry(source["trained"]) if (source := source_of(row.method)) else NOTHING)
_WORK = ("selection", "selection of MACs", "f(n)", "overhead factor")


def report(document: Comparison) -> Report:
    """All pages of a comparison's report."""
    pages = [verdict_page(document), kinds_page(document)]
    return report_of(document, f"{len(document.study.methods)} methods", pages)


def verdict_page(document: Comparison) -> Page:
    """The recommendation, and all methods and retentions in one chart and one table."""
    done = [row for row in document.rows if row.status == "done"]
    blocks: list[Block] = [Sentences("", [recommendation.sentence(document.recommendation)])]
    chart = pareto.chart(done, document.study.methods, document.dense)
    blocks += [chart] if chart is not None else []
    blocks.append(_table(document))
    blocks += reminders(document, *recommendation.further(document.recommendation))
    return Page("verdict", "Verdict", "", blocks)


def kinds_page(document: Comparison) -> Page:
    """Right answers of each method by kind of question."""
    tables = by_kind(grid(document, document.rows))
    return Page("kinds", "Answers by kind", "", tables, folded="Show the right answers by kind of question")


def _table(document: Comparison) -> Table:
    """All methods at all retentions: those that keep the answers first, the fastest of them on top, controls last."""
    cells = grid(document, sorted(document.rows, key=_place))
    apart = Column(
        f"points to {document.reference}", lambda row, _: entries.points(row.reference_difference), needs_answers=True
    )
    columns = [
        *IN_SIGHT,
        _LICENCE,
        _TRAINED,
        apart,
        *_WORK,
        "tokens kept",
        cells.changed,
        "mean KL, nats",
        *FURTHER_COLUMNS,
    ]
    known = "Methods that keep the right answers first, the fastest on top" if cells.answered else "The fastest on top"
    pick = document.recommendation.pick
    lowest = min(document.study.retentions)
    return table(
        cells,
        f"{known}. Controls last",
        columns,
        ["method", "asked"],
        in_sight="trained?",
        most=16,
        switch=1,
        chosen=units.percent(lowest if pick is None else pick.retention),
    )


def _licence(method: str) -> Entry:
    """Whether the code of a method may be used. Its licence is the tooltip."""
    source = source_of(method)
    if source is None:
        return NOTHING
    licence = source["licence"]
    text = "non-commercial" if "NC" in licence else "none stated" if licence.startswith("none") else "open"
    text = {"control": "ours", "description": "no code"}.get(source["kind"], text)
    return Entry(text, title=licence)


def _place(row: Row) -> tuple[float, bool, bool, float]:
    return row.nominal_retention, row.remark == CONTROL, not keeps_answers(row), -row.speed
