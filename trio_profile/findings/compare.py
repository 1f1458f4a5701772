"""The report of a comparison: one table of all methods, with a switch for the retention; everything else is folded."""

from trio_profile import units
from trio_profile.analysis.compare import Comparison, Row
from trio_profile.analysis.recommendation import CONTROL, keeps_answers
from trio_profile.findings import doubts, pareto, recommendation
from trio_profile.findings.blocks import Block, Page, Report, Sentences, Table
from trio_profile.findings.study_page import finished_cells, notes, report_of
from trio_profile.findings.table import FURTHER_COLUMNS, IN_SIGHT, grid, table
from trio_profile.quantities import entries, right_answers
from trio_profile.quantities.entries import NOTHING, Entry
from trio_profile.quantities.quantity import Column
from trio_profile.records.facts import source_of
from trio_profile.text import listed

_LICENCE = Column("licence", lambda row, _: _licence(row.method))
_TRAINED = Column("trained?", lambda row, _: Entry(source["trained"]) if (source := source_of(row.method)) else NOTHING)
_WORK = ("selection", "MACs without selection", "f(n)", "overhead factor of the formula")


def report(document: Comparison) -> Report:
    """All pages of a comparison's report."""
    pages = [verdict_page(document), kinds_page(document), missing_page(document)]
    return report_of(document, f"{len(document.study.methods)} methods", pages)


def verdict_page(document: Comparison) -> Page:
    """What to do, and all methods and retentions in one chart and one table."""
    done = [row for row in document.rows if row.status == "done"]
    blocks: list[Block] = [recommendation.block(document.recommendation)]
    if (speed := pareto.chart(done, document.study.methods, document.reference, document.dense)) is not None:
        blocks.append(speed)
    blocks.append(_table(document))
    lines = [*recommendation.further(document.recommendation), *notes((row.method, row.notes) for row in document.rows)]
    if missing := [row for row in document.rows if row.status != "done"]:
        names = listed(list(dict.fromkeys(row.method for row in missing)))
        lines.append(f"{len(missing)} of {units.number_of(len(document.rows), 'cell')} could not run: {names}.")
    if done and document.doubts:
        lines.append(doubts.summary(document.doubts, finished_cells(done)))
    if lines:
        blocks.append(Sentences("Keep in mind", lines, tone="doubt"))
    return Page("verdict", "Verdict", "", blocks)


def missing_page(document: Comparison) -> Page:
    """The cells that could not run, each reason once."""
    cells: dict[str, list[str]] = {}
    for row in (row for row in document.rows if row.status != "done"):
        name = f"{row.method} at {units.percent(row.nominal_retention)}"
        cells.setdefault(row.reason or "no reason was recorded", []).append(name)
    lines = [f"{listed(names)}: {reason}." for reason, names in cells.items()]
    blocks = [Sentences("What could not run", lines, detail=True)] if lines else []
    return Page("refused", "Refused", "", blocks, folded="Show what could not run")


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
    rows = sorted((row for row in document.rows if row.status == "done"), key=_place)
    shown = grid(document, rows)
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
        shown.changed,
        "mean KL, nats",
        *FURTHER_COLUMNS,
    ]
    known = "Methods that keep the right answers first, the fastest on top" if shown.answered else "The fastest on top"
    pick = document.recommendation.pick
    lowest = min(document.study.retentions)
    return table(
        shown,
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
