"""The table of cells that all reports share: a row for each cell, and a column for each name in a list."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trio_profile import units
from trio_profile.analysis.ablate import Ablation
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import doubts
from trio_profile.findings.blocks import Entry, Table
from trio_profile.quantities.entries import NOTHING
from trio_profile.quantities.quantity import Column
from trio_profile.quantities.registry import COLUMNS
from trio_profile.quantities.summary import CellSummary, DenseSummary
from trio_profile.records.schema import Cell

Row = tuple[Cell, CellSummary | None]
"""A cell of a study, and what was measured of it; None if it is not measured yet."""


@dataclass(frozen=True)
class Grid:
    """The cells that a table shows.

    rows: in the order of the table.
    dense: the dense model; None if it was not measured.
    methods: in the study's order, which gives them their colours.
    marks: why each doubted cell is doubted, by its id.
    """

    rows: Sequence[Row]
    dense: DenseSummary | None
    methods: Sequence[str]
    marks: Mapping[str, str]

    @property
    def answered(self) -> bool:
        """Whether right answers are known."""
        return self.dense is not None and self.dense.accuracy is not None

    @property
    def changed(self) -> str:
        """The column of what differs from dense: whole answers if they are known, otherwise the next token."""
        return "changed answers" if self.answered else "changed tokens"


@dataclass(frozen=True)
class Key:
    """A column that names the cell of a row. entry: makes its entry from the cell and from what was measured of it."""

    head: str
    entry: Callable[[Grid, Cell, Any], Entry]


def grid(document: SweepDocument | Comparison | Ablation, summaries: Sequence[CellSummary]) -> Grid:
    """Return some measured cells of a document as a grid."""
    return grid_of(document, [(summary.cell, summary) for summary in summaries])


def grid_of(document: SweepDocument | Comparison | Ablation, rows: Sequence[Row]) -> Grid:
    """Return some cells of a document as a grid."""
    done = [cell for cell, summary in rows if summary is not None and summary.status == "done"]
    return Grid(rows, document.dense, document.study.methods, doubts.marks(document.doubts, done))


def table(
    grid: Grid,
    caption: str,
    columns: Sequence[str | Column],
    keys: Sequence[str | Key] = ("method", "retention"),
    *,
    in_sight: str = "",
    groups: Sequence[tuple[str, int]] = (),
    with_dense: bool = False,
    detail: bool = False,
) -> Table:
    """Return a table of the cells of a grid.

    columns: each by its name, or a column that only this table has.
    keys: the columns that name a cell: names in KEYS, or a key that only this table has. The last one marks doubts.
    in_sight: head of the last column that is always in sight; empty if all are.
    groups: as in `blocks.Table`.
    with_dense: whether the first row is the dense model's.
    """
    named = [KEYS[key] if isinstance(key, str) else key for key in keys]
    chosen = [COLUMNS[column] if isinstance(column, str) else column for column in columns]
    chosen = [column for column in chosen if grid.answered or not column.needs_answers]
    heads = [*(key.head for key in named), *(column.head or column.name for column in chosen)]
    rows = [[*_name(grid, row, named), *_values(grid, row[1], chosen)] for row in grid.rows]
    if with_dense and grid.dense is not None:
        dense = grid.dense
        values = [NOTHING if column.of_dense is None else column.of_dense(dense) for column in chosen]
        rows.insert(0, [Entry("dense"), *[Entry(units.percent(1.0))] * (len(named) - 1), *values])
    first = heads.index(in_sight) + 1 if in_sight else None
    return Table(caption, heads, rows, groups, keys=len(named), first=first, detail=detail)


def _name(grid: Grid, row: Row, keys: Sequence[Key]) -> list[Entry]:
    """Return the entries that name a cell."""
    *first, last = (key.entry(grid, *row) for key in keys)
    return [*first, replace(last, doubt=grid.marks.get(row[0].id, ""))]


def _values(grid: Grid, summary: CellSummary | None, columns: Sequence[Column]) -> list[Entry]:
    """Return the entries of a cell, or one that says why it has none."""
    if summary is None or summary.status != "done":
        return [unmeasured(summary, len(columns))]
    return [column.entry(summary, grid.dense) for column in columns]


def unmeasured(summary: CellSummary | None, span: int) -> Entry:
    """Return why a cell has no numbers, over `span` columns."""
    if summary is None:
        return Entry("not measured yet", tone="absent", span=span)
    return Entry(f"{summary.status}: {summary.reason or 'no reason was recorded'}", tone="absent", span=span)


def _method(grid: Grid, cell: Cell, _: CellSummary | None) -> Entry:
    return Entry(cell.method, colour=grid.methods.index(cell.method))


def _reached(_: Grid, cell: Cell, summary: CellSummary | None) -> Entry:
    """The realised retention; the budgets are its tooltip."""
    retention = summary.realised if summary else cell.retention
    return Entry(units.percent(retention), title=_budgets(summary), order=retention)


def _retention(grid: Grid, cell: Cell, summary: CellSummary | None) -> Entry:
    """The realised retention, and beside it the nominal one if it is another."""
    reached, nominal = _reached(grid, cell, summary), units.percent(cell.retention)
    return reached if reached.text == nominal else replace(reached, note=f"of {nominal}")


def _budgets(summary: CellSummary | None) -> str:
    """The budgets of a cell in words; empty if they are not known."""
    if summary is None or not summary.budgets:
        return ""
    kept, layers = (", ".join(map(str, numbers)) for numbers in (summary.budgets, summary.layers))
    return f"keeps {kept} tokens after layers {layers}"


KEYS = {
    "method": Key("Method", _method),
    "retention": Key("Retention", _retention),
    "reached": Key("Retention", _reached),
    "at": Key("at", _reached),
    "asked": Key("asked", lambda _, cell, __: Entry(units.percent(cell.retention))),
}
"""The keys that several tables have."""
