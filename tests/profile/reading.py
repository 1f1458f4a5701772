"""What a report says, for tests that look at its sentences and tables."""

import io
from collections.abc import Iterator
from typing import TypeVar

from rich.console import Console

from trio_profile.records.conclusion import Conclusion
from trio_profile.report.blocks import Block, Report, Sentences, Table, Terms
from trio_profile.report.terminal import show

B = TypeVar("B", bound=Block)


def blocks(report: Report, kind: type[B]) -> list[B]:
    """All blocks of one kind, in order."""
    return [block for page in report.pages for block in page.blocks if isinstance(block, kind)]


def sentences(report: Report) -> list[str]:
    """Every line of every block of sentences."""
    return [line for block in blocks(report, Sentences) for line in block.lines]


def line_of(conclusion: Conclusion) -> str:
    """The word and the sentence: `Do: trio at 33.0 %. …`."""
    return ": ".join(conclusion.lines[0])


def table(report: Report, caption: str) -> Table:
    """The one table with this caption."""
    (found,) = [block for block in blocks(report, Table) if block.caption == caption]
    return found


def rows(found: Table) -> list[list[str]]:
    """The entries of a table as text, each with its note."""
    return [[f"{entry.text} {entry.note}".strip() for entry in row] for row in found.rows]


def terms(report: Report) -> dict[str, str]:
    """All terms and what they stand for."""
    return dict(item for block in blocks(report, Terms) for item in block.items)


def in_terminal(report: Report, width: int = 80, *, everything: bool = False) -> str:
    """What the terminal shows."""
    file = io.StringIO()
    show(report, everything=everything, console=Console(file=file, width=width, highlight=False))
    return file.getvalue()


def too_wide(report: Report) -> Iterator[str]:
    """Lines of the terminal that 80 columns do not hold."""
    return (line for line in in_terminal(report).splitlines() if len(line) > 80)
