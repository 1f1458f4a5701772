"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table.

    header: the titles of the columns.
    rows: the cells, already in Markdown.
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    """Text in a cell: in one line, and without a character that would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")
