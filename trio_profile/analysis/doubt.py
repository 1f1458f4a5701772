"""A doubt: a reason not to trust the numbers of one cell, or of the whole study."""

from collections.abc import Collection, Sequence
from typing import Literal

from trio_profile import units
from trio_profile.records.schema import Cell, Record

Kind = Literal[
    "rounds",
    "clock",
    "strangers",
    "busy",
    "threads",
    "sessions",
    "cached",
    "commits",
    "client saturated",
    "queueing at the client",
    "failed requests",
    "failures left out",
    "overload",
    "unfinished",
    "unequal answers",
    "prompt length",
    "prefix cache",
    "few requests",
    "one piece",
    "unsteady warm-up",
    "no steady gain",
]


class Doubt(Record):
    """A reason not to trust some numbers.

    cell: the cell with these numbers; None for the whole study.
    kind: name of the test that failed.
    sentence: what the test found.
    next_step: what the user can do.
    found: the number that the test computed.
    threshold: the number that it was compared with.
    """

    cell: Cell | None
    kind: Kind
    sentence: str
    next_step: str
    found: float
    threshold: float


def cell_name(cell: Cell | None) -> str:
    """Return a cell's name for a sentence: `trio at 33.0 %`."""
    if cell is None:
        return "the whole study"
    return f"{cell.variant} at {units.percent(cell.retention)}"


def doubted_cells(doubts: Sequence[Doubt], cells: Collection[Cell]) -> dict[str, tuple[Kind, ...]]:
    """Return the kinds of doubt about each doubted cell, by the cell's id. Each kind is named once.

    cells: the cells that are asked about. Doubts about the whole study are left out.
    """
    names, found = {cell.id for cell in cells}, dict[str, dict[Kind, None]]()
    for doubt in doubts:
        if doubt.cell is not None and doubt.cell.id in names:
            found.setdefault(doubt.cell.id, {})[doubt.kind] = None
    return {name: tuple(kinds) for name, kinds in found.items()}
