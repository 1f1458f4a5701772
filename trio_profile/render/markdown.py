"""A report as Markdown, for an issue or a pull request."""

from collections.abc import Iterable, Sequence

from trio_profile.findings.blocks import Entry, Report, Table
from trio_profile.render.columns import MARK, doubted
from trio_profile.render.preparing import Form, tables_text, whole_text

_SPECIAL = "\\|`*_[]!#~$"


def markdown(report: Report) -> str:
    """The whole report as Markdown."""
    return whole_text(report, _FORM)


def tables(report: Report) -> str:
    """The tables of a report alone, without headings."""
    return tables_text(report, _FORM)


def _table(block: Table) -> list[str]:
    groups = [text for text, span in block.groups for _ in range(span)]
    groups += [""] * (len(block.columns) - len(groups))
    names = [": ".join(part for part in pair if part) for pair in zip(groups, block.columns, strict=True)]
    rows = ([field for entry in row for field in _fields(entry)] for row in block.rows)
    doubts = doubted(block)
    return [
        *([f"**{_plain(block.caption)}**", ""] if block.caption else []),
        *_grid(names, rows),
        *(["", _plain(doubts)] if doubts else []),
    ]


def _fields(entry: Entry) -> list[str]:
    """The text of an entry, and an empty field for each further column that it fills."""
    text = f"{entry.text}{MARK}" if entry.doubt else entry.text
    return [f"{text} {entry.note}".strip(), *[""] * (entry.span - 1)]


def _grid(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(map(_plain, names))} |", f"|{'---|' * len(names)}"]
    return [*lines, *(f"| {' | '.join(map(_plain, row))} |" for row in rows)]


def _plain(text: str) -> str:
    """Text that stays text: no field ends in it, and no markup begins."""
    text = " ".join(text.split("\n")).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)


_FORM = Form(
    _plain,
    _table,
    steps=lambda rows: _grid(("step", "adds", "exactly"), rows),
    items=lambda texts: [f"- {text}" for text in texts],
    terms=lambda pairs: [f"- **{term}**: {text}" for term, text in pairs],
    heading="**{}**",
    title="## {}",
    section="### {}",
    banner="> **{}**",
    strong="**{}**",
)
