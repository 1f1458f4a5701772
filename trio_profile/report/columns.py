"""Which columns and rows of a table are drawn."""

from collections.abc import Sequence
from dataclasses import replace

from trio_profile.report.blocks import Entry, Table

MARK = "†"
"""Stands after an entry that is doubted."""
_REASONS = 3
"""Below a table stand at most so many different reasons of doubts."""


def without_empty_columns(table: Table) -> Table:
    """The table without the columns in which no entry has a value. Columns that name a row stay."""
    columns = range(len(table.columns))
    kept = [at for at in columns if at < table.keys or any(_has_value(row[at]) for row in table.rows)]
    return table if len(kept) == len(columns) or not table.rows else with_columns(table, kept)


def _has_value(entry: Entry) -> bool:
    return bool(entry.text not in ("", "–") or entry.note or entry.doubt)


def chosen_rows(table: Table) -> Table:
    """The table with the rows that the page shows at first, without the column that chooses; all without a switch."""
    switch = table.switch
    if switch is None or not table.chosen:
        return table
    rows = [row for row in table.rows if row[switch].text == table.chosen]
    caption = f"{table.columns[switch]} {table.chosen}. {table.caption}"
    kept = [at for at in range(len(table.columns)) if at != switch]
    return with_columns(replace(table, rows=rows, caption=caption, switch=None), kept)


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


def with_columns(table: Table, kept: Sequence[int]) -> Table:
    """The table with some of its columns. kept: their numbers, from 0, ascending, with that of the switch."""
    first = None if table.first is None else sum(at < table.first for at in kept)
    return replace(
        table,
        columns=[table.columns[at] for at in kept],
        rows=[[row[at] for at in kept] for row in table.rows],
        switch=None if table.switch is None else kept.index(table.switch),
        keys=sum(at < table.keys for at in kept),
        first=None if first == len(kept) else first,
    )


def marked(entry: Entry) -> str:
    """The text of an entry, with the mark if it is doubted."""
    return f"{entry.text}{MARK if entry.doubt else ''}"


def with_note(entry: Entry) -> str:
    """The text of an entry with its mark and its note."""
    return f"{marked(entry)} {entry.note}".strip()


def doubted(table: Table) -> str:
    """The line below a table with doubted entries: the mark, and the reasons if they are few."""
    reasons = list(dict.fromkeys(entry.doubt for row in table.rows for entry in row if entry.doubt))
    if not reasons:
        return ""
    return f"{MARK} {'; '.join(reasons) if len(reasons) <= _REASONS else 'doubted: see the doubts'}"
