"""The table of cells that all reports share: a row for each cell, and a column for each name in a list."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from trio_profile import units
from trio_profile.analysis.recommendation import CONTROL
from trio_profile.findings import doubts
from trio_profile.findings.blocks import Entry, Table
from trio_profile.quantities.entries import NOTHING, with_equal_digits
from trio_profile.quantities.quantity import Column
from trio_profile.quantities.registry import COLUMNS, FURTHER
from trio_profile.records.schema import Cell

Item = TypeVar("Item")

IN_SIGHT = ("right", "points lost", "prefill", "total", "MACs", "KV")
"""The columns that a summary of cells always shows."""
FURTHER_COLUMNS = tuple(column.name for quantity in FURTHER for column in quantity.columns)
"""The columns of quantities that only their file names."""
_NEAR = 2
"""A doubt can turn a conclusion if an interval that is this many times as wide holds 1."""


@dataclass(frozen=True)
class Grid:
    """The cells that a table shows.

    rows: each cell with its summary, in the order of the table. The summary is any record that the columns can read;
        None if the cell is not measured yet.
    dense: the summary of the dense model; None if it was not measured.
    methods: in the study's order, which gives them their colours.
    marks: why a cell is doubted, by its id. Only cells whose conclusion could be wrong have a mark.
    """

    rows: Sequence[tuple[Cell, Any]]
    dense: Any
    methods: Sequence[str]
    marks: Mapping[str, str]

    @property
    def answered(self) -> bool:
        """Whether right answers are known."""
        return getattr(self.dense, "accuracy", None) is not None

    @property
    def changed(self) -> str:
        """The column of what differs from dense: whole answers if they are known, otherwise the next token."""
        return "changed answers" if self.answered else "changed tokens"


@dataclass(frozen=True)
class Key:
    """A column that names the cell of a row. entry: makes its entry from the cell and from its summary."""

    head: str
    entry: Callable[[Grid, Cell, Any], Entry]


def tabulate(
    caption: str, columns: Mapping[str, Callable[[Item], Entry]], items: Iterable[Item], **options: Any
) -> Table:
    """Return a table with a row for each item.

    columns: by head, the function that makes the entry of an item.
    options: further fields of the table.
    """
    rows = [[entry(item) for entry in columns.values()] for item in items]
    return Table(caption, tuple(columns), rows, **options)


def grid(document: Any, summaries: Sequence[Any]) -> Grid:
    """Return some measured cells of a document as a grid."""
    return grid_of(document, [(summary.cell, summary) for summary in summaries])


def grid_of(document: Any, rows: Sequence[tuple[Cell, Any]]) -> Grid:
    """Return some cells of a document as a grid. document: with `study`, `dense` and perhaps `doubts`."""
    unsure = [cell for cell, summary in rows if summary is not None and _could_turn(summary)]
    marks = doubts.marks(getattr(document, "doubts", ()), unsure)
    return Grid(rows, document.dense, document.study.methods, marks)


def _could_turn(summary: Any) -> bool:
    """Whether a doubt about a cell could turn what is concluded from its prefill speed-up."""
    speedup = getattr(summary, "prefill_speedup", None)
    if speedup is None:
        return False
    low, high = (speedup.value + _NEAR * (end - speedup.value) for end in speedup.ci95)
    return low <= 1 <= high


def table(
    grid: Grid,
    caption: str,
    columns: Sequence[str | Column],
    keys: Sequence[str | Key] = ("method", "retention"),
    *,
    in_sight: str = "",
    with_dense: bool = False,
    **options: Any,
) -> Table:
    """Return a table of the cells of a grid.

    columns: each by its name, or a column that only this table has.
    keys: the columns that name a cell: names in KEYS, or a key that only this table has. The last one marks doubts.
    in_sight: head of the last column that is always in sight; empty if all are.
    with_dense: whether the first row is the dense model's.
    options: further fields of `blocks.Table`.
    """
    named = [KEYS[key] if isinstance(key, str) else key for key in keys]
    chosen = [COLUMNS[column] if isinstance(column, str) else column for column in columns]
    chosen = [column for column in chosen if grid.answered or not column.needs_answers]
    heads = [*(key.head for key in named), *(column.head or column.name for column in chosen)]
    done = [summary for _, summary in grid.rows if _is_done(summary)]
    by_column = [with_equal_digits([column.entry(summary, grid.dense) for summary in done]) for column in chosen]
    values = iter(zip(*by_column, strict=True))
    rows = [
        [
            *_name(grid, cell, summary, named),
            *(next(values) if _is_done(summary) else [_unmeasured(summary, len(chosen))]),
        ]
        for cell, summary in grid.rows
    ]
    if with_dense and grid.dense is not None:
        dense = [NOTHING if column.of_dense is None else column.of_dense(grid.dense) for column in chosen]
        rows.insert(0, [Entry("dense"), *[Entry(units.percent(1.0), order=1.0)] * (len(named) - 1), *dense])
    first = heads.index(in_sight) + 1 if in_sight else None
    return Table(caption, heads, rows, keys=len(named), first=first, **options)


def _is_done(summary: Any) -> bool:
    return summary is not None and getattr(summary, "status", "done") == "done"


def _name(grid: Grid, cell: Cell, summary: Any, keys: Sequence[Key]) -> list[Entry]:
    """Return the entries that name a cell."""
    *first, last = (key.entry(grid, cell, summary) for key in keys)
    return [*first, replace(last, doubt=grid.marks.get(cell.id, ""))]


def _unmeasured(summary: Any, span: int) -> Entry:
    """Return why a cell has no numbers, over `span` columns."""
    if summary is None:
        return Entry("not measured yet", tone="absent", span=span)
    return Entry(f"{summary.status}: {summary.reason or 'no reason was recorded'}", tone="absent", span=span)


def _method(grid: Grid, cell: Cell, summary: Any) -> Entry:
    """The method, and whether it is a control or its code is non-commercial. The whole remark is its tooltip."""
    remark = getattr(summary, "remark", "")
    note = CONTROL if remark == CONTROL else "non-commercial" if "non-commercial" in remark else ""
    colour = grid.methods.index(cell.method) if cell.method in grid.methods else None
    return Entry(cell.variant, note=note, title=remark, colour=colour)


def _reached(_: Grid, cell: Cell, summary: Any) -> Entry:
    """The realised retention; the budgets are its tooltip."""
    retention = summary.realised if summary else cell.retention
    return Entry(units.percent(retention), title=_budgets(summary), order=retention)


def _retention(grid: Grid, cell: Cell, summary: Any) -> Entry:
    """The realised retention, and beside it the nominal one if it is another."""
    reached, nominal = _reached(grid, cell, summary), units.percent(cell.retention)
    return reached if reached.text == nominal else replace(reached, note=f"of {nominal}")


def _budgets(summary: Any) -> str:
    """The budgets of a cell in words; empty if they are not known."""
    if summary is None or not summary.budgets:
        return ""
    kept, layers = (", ".join(map(str, numbers)) for numbers in (summary.budgets, summary.layers))
    return f"keeps {kept} tokens after layers {layers}"


KEYS = {
    "method": Key("Method", _method),
    "retention": Key("Retention", _retention),
    "reached": Key("Retention", _reached),
    "asked": Key("Retention", lambda _, cell, __: Entry(units.percent(cell.retention), order=cell.retention)),
}
"""The keys that several tables have."""
