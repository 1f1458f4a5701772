"""Which columns of a table are drawn. An entry that fills several columns shrinks with them."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from trio_profile.findings.blocks import Entry, Table

MARK = "†"
"""Stands after an entry that is doubted."""
_WITHOUT_VALUE = ("", "–")
_REASONS = 3
"""Below a table stand at most so many different reasons of doubts."""


def without_empty_columns(table: Table) -> Table:
    """The table without the columns in which no entry has a value. Columns that name a row stay."""
    filled, empty, wide = set(range(table.keys)), set[int](), []
    for row in table.rows:
        for start, entry in placed(row):
            if entry.span > 1:
                wide.append(range(start, start + entry.span))
            elif entry.text in _WITHOUT_VALUE and not (entry.note or entry.doubt):
                empty.add(start)
            else:
                filled.add(start)
    dropped = empty - filled
    # What fills several columns needs one to stand in.
    dropped -= {span[0] for span in wide if dropped.issuperset(span)}
    if not dropped:
        return table
    return with_columns(table, [column for column in range(len(table.columns)) if column not in dropped])


def chosen_rows(table: Table) -> Table:
    """The table with the rows that the page shows at first, without the column that chooses; all without a switch."""
    switch = table.switch
    if switch is None or not table.chosen:
        return table
    rows = [row for row in table.rows if row[switch].text == table.chosen]
    caption = f"{table.columns[switch]} {table.chosen}. {table.caption}"
    moved = [[replace(row[0], doubt=row[switch].doubt or row[0].doubt), *row[1:]] for row in rows]
    kept = [column for column in range(len(table.columns)) if column != switch]
    return with_columns(replace(table, rows=moved if switch else rows, caption=caption), kept)


def first_columns(table: Table) -> Table:
    """The table with the columns that are always in sight."""
    return with_columns(table, range(table.first or 0)) if has_others(table) else table


def other_columns(table: Table) -> Table | None:
    """The columns that are not always in sight, after those that name a row. None if all are always in sight."""
    if not has_others(table):
        return None
    return with_columns(table, [*range(table.keys), *range(max(table.first or 0, table.keys), len(table.columns))])


def has_others(table: Table) -> bool:
    """Whether some columns are not always in sight."""
    return table.first is not None and table.first < len(table.columns)


def with_columns(table: Table, kept: Collection[int]) -> Table:
    """The table with some of its columns. kept: their numbers, from 0, ascending."""
    first = None if table.first is None else _within(range(table.first), kept)
    return replace(
        table,
        columns=[table.columns[column] for column in kept],
        rows=[_row(row, kept) for row in table.rows],
        groups=_groups(table.groups, kept),
        switch=None if table.switch is None else _within(range(table.switch), kept),
        keys=_within(range(table.keys), kept),
        first=None if first == len(kept) else first,
    )


def placed(row: Sequence[Entry]) -> Iterator[tuple[int, Entry]]:
    """The entries of a row, each with the number of its first column."""
    column = 0
    for entry in row:
        yield column, entry
        column += entry.span


def doubted(table: Table) -> str:
    """What stands below a table with doubted entries: the mark, and the reasons if they are few."""
    reasons = list(dict.fromkeys(entry.doubt for row in table.rows for entry in row if entry.doubt))
    if not reasons:
        return ""
    return f"{MARK} {'; '.join(reasons) if len(reasons) <= _REASONS else 'doubted: see the doubts'}"


def _row(row: Sequence[Entry], kept: Collection[int]) -> list[Entry]:
    found = []
    for start, entry in placed(row):
        span = _within(range(start, start + entry.span), kept)
        if span:
            found.append(entry if span == entry.span else replace(entry, span=span))
    return found


def _groups(groups: Sequence[tuple[str, int]], kept: Collection[int]) -> list[tuple[str, int]]:
    found, start = [], 0
    for text, span in groups:
        if left := _within(range(start, start + span), kept):
            found.append((text, left))
        start += span
    return found


def _within(columns: range, kept: Collection[int]) -> int:
    """How many of these columns are kept."""
    return sum(column in columns for column in kept)
