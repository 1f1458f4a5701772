"""The table of cells that all reports share: a row for each cell, and a column for each name in a list."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trio_profile import units
from trio_profile.judge.controls import CONTROL
from trio_profile.quantities.entries import NOTHING
from trio_profile.quantities.quantity import Column
from trio_profile.quantities.registry import COLUMNS, FURTHER
from trio_profile.quantities.right_answers import of_kind
from trio_profile.report import doubts
from trio_profile.report.blocks import Entry, Table
from trio_profile.report.palette import number_of

FURTHER_COLUMNS = tuple(column.name for quantity in FURTHER for column in quantity.columns)
"""The columns of quantities that only their file names."""
_NEAR = 2
"""A doubt can turn a conclusion if an interval that is this many times as wide holds 1."""


@dataclass(frozen=True)
class Grid:
    """The cells that a table shows.

    rows: the summary of each cell, in the order of the table: a record with a `cell`, and with what the columns read.
    dense: the summary of the dense model; None if it was not measured.
    marks: why a cell is doubted, by its id. Only cells whose conclusion could be wrong have a mark.
    """

    rows: Sequence[Any]
    dense: Any
    marks: Mapping[str, str]

    @property
    def answered(self) -> bool:
        """Whether right answers are known."""
        return getattr(self.dense, "accuracy", None) is not None

    @property
    def lost(self) -> str:
        """The column of what pruning loses: right answers if they are known, otherwise closeness to dense."""
        return "points lost" if self.answered else "mean KL, nats"

    @property
    def in_sight(self) -> tuple[str, ...]:
        """The columns that a summary of cells always shows. A small screen has room for the first three."""
        return "prefill", self.lost, "KV", "total", "right"

    @property
    def drawn(self) -> dict[str, float]:
        """The columns whose intervals are drawn, each with the value of the dense model."""
        return {"prefill": 1.0, self.lost: 0.0}

    @property
    def changed(self) -> str:
        """The column of what differs from dense: whole answers if they are known, otherwise the next token."""
        return "changed answers" if self.answered else "changed tokens"


@dataclass(frozen=True)
class Key:
    """A column that names the cell of a row. entry: makes its entry from a summary."""

    head: str
    entry: Callable[[Grid, Any], Entry]


def grid(document: Any, summaries: Iterable[Any]) -> Grid:
    """Return some cells of a document as a grid. Cells without numbers are left out.

    document: with `study`, `dense` and perhaps `doubts`.
    """
    rows = [summary for summary in summaries if getattr(summary, "status", "done") == "done"]
    unsure = [summary.cell for summary in rows if _could_turn(summary)]
    return Grid(rows, document.dense, doubts.marks(getattr(document, "doubts", ()), unsure))


def _could_turn(summary: Any) -> bool:
    """Whether a doubt about a cell could turn what is concluded from its prefill speed-up."""
    speedup = summary.prefill_speedup
    if speedup is None:
        return False
    low, high = (speedup.value + _NEAR * (end - speedup.value) for end in speedup.ci95)
    return low <= 1 <= high


def table(
    grid: Grid,
    caption: str,
    columns: Sequence[str | Column],
    keys: Sequence[str | Key] = ("method", "reached"),
    *,
    in_sight: str = "",
    with_dense: bool = False,
    **options: Any,
) -> Table:
    """Return a table of the cells of a grid.

    columns: each by its name, or a column that only this table has.
    keys: the columns that name a cell: names in KEYS, or a key that only this table has. The last one marks doubts,
        unless the table is switched by it.
    in_sight: head of the last column that is always in sight; empty if all are.
    with_dense: whether the first row is the dense model's.
    options: further fields of `blocks.Table`.
    """
    named = [KEYS[key] if isinstance(key, str) else key for key in keys]
    marked = len(named) - 1 - (options.get("switch") == len(named) - 1)
    chosen = [COLUMNS[column] if isinstance(column, str) else column for column in columns]
    chosen = [column for column in chosen if grid.answered or not column.needs_answers]
    heads = [*(key.head for key in named), *(column.name for column in chosen)]
    drawn = options.get("drawn", {})

    def value(column: Column, summary: Any) -> Entry:
        entry = column.entry(summary, grid.dense)
        return replace(entry, colour=number_of(summary.cell.method)) if column.name in drawn else entry

    rows = [
        [*_name(grid, summary, named, marked), *(value(column, summary) for column in chosen)] for summary in grid.rows
    ]
    if with_dense and grid.dense is not None:
        dense = [NOTHING if column.of_dense is None else column.of_dense(grid.dense) for column in chosen]
        rows.insert(0, [Entry("dense"), *[Entry(units.percent(1.0), order=1.0)] * (len(named) - 1), *dense])
    first = heads.index(in_sight) + 1 if in_sight else None
    return Table(caption, heads, rows, keys=len(named), first=first, **options)


def by_kind(grid: Grid) -> list[Table]:
    """The right answers by kind of question. Empty if no kinds are known."""
    kinds = [of_kind(kind) for kind in grid.dense.accuracy_by_kind] if grid.answered else []
    caption = "Questions answered right, by kind of question"
    return [table(grid, caption, kinds, with_dense=True, detail=True)] if kinds else []


def _name(grid: Grid, summary: Any, keys: Sequence[Key], marked: int) -> list[Entry]:
    """Return the entries that name a cell. marked: the number of the one that marks doubts."""
    named = [key.entry(grid, summary) for key in keys]
    named[marked] = replace(named[marked], doubt=grid.marks.get(summary.cell.id, ""))
    return named


def _method(_: Grid, summary: Any) -> Entry:
    """The method, and whether it is a control or its code is non-commercial. The whole remark is its tooltip."""
    cell, remark = summary.cell, summary.remark
    note = CONTROL if remark == CONTROL else "non-commercial" if "non-commercial" in remark else ""
    return Entry(cell.variant, note=note, title=remark, colour=number_of(cell.method))


def _share(retention: float) -> Entry:
    return Entry(units.percent(retention), order=retention)


KEYS = {
    "method": Key("Method", _method),
    "reached": Key("Retention", lambda _, summary: _share(summary.realised)),
    "asked": Key("Retention", lambda _, summary: _share(summary.cell.retention)),
}
"""The keys that several tables have."""
