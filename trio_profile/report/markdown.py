"""A report as Markdown, for an issue or a pull request."""

from collections.abc import Sequence

from trio_profile.report.blocks import Report, Table
from trio_profile.report.columns import doubted, with_note
from trio_profile.report.preparing import Form, tables_text, whole_text

_SPECIAL = "\\|`*_[]!#~$"


def markdown(report: Report) -> str:
    """The whole report as Markdown."""
    return whole_text(report, _FORM)


def tables(report: Report) -> str:
    """The tables of a report alone, without headings."""
    return tables_text(report, _FORM)


def _table(block: Table) -> list[str]:
    doubts = doubted(block)
    return [
        *([f"**{_plain(block.caption)}**", ""] if block.caption else []),
        _row(block.columns),
        f"|{'---|' * len(block.columns)}",
        *(_row([with_note(entry) for entry in row]) for row in block.rows),
        *(["", _plain(doubts)] if doubts else []),
    ]


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(map(_plain, texts))} |"


def _plain(text: str) -> str:
    """Text that stays text: no field ends in it, and no markup begins."""
    text = " ".join(text.split("\n")).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)


_FORM = Form(
    _plain,
    _table,
    items=lambda texts: [f"- {text}" for text in texts],
    terms=lambda pairs: [f"- **{term}**: {text}" for term, text in pairs],
    heading="**{}**",
    title="## {}",
    section="### {}",
    banner="> **{}**",
    strong="**{}**",
)
