"""A report as Markdown, for an issue or a pull request."""

from trio_profile.report.blocks import Report
from trio_profile.report.preparing import text_of

_SPECIAL = "\\|`*_[]!#~$"


def markdown(report: Report, *, only_tables: bool = False) -> str:
    """The whole report as Markdown, or its tables alone, without headings."""
    return text_of(report, "markdown", _plain, only_tables=only_tables)


def _plain(text: str) -> str:
    """Text that stays text: no field ends in it, and no markup begins."""
    text = " ".join(text.split("\n")).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)
