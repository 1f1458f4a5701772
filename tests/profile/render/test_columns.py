"""Which columns of a table are drawn."""

from trio_profile.findings.blocks import Entry, Table
from trio_profile.render.columns import (
    doubted,
    first_columns,
    other_columns,
    with_columns,
    without_empty_columns,
)

NOTHING = Entry("–")


def table(*rows: list[Entry], **fields) -> Table:
    names = [f"column {number}" for number in range(max(sum(entry.span for entry in row) for row in rows))]
    return Table("", names, rows, **fields)


def texts(found: Table) -> list[list[str]]:
    return [[f"{entry.text}/{entry.span}" if entry.span > 1 else entry.text for entry in row] for row in found.rows]


# Columns without a value


def test_a_column_that_names_a_row_stays():
    keys = table([NOTHING, NOTHING], [NOTHING, NOTHING])
    assert without_empty_columns(keys).columns == ["column 0"]


def test_a_note_or_a_doubt_is_a_value():
    for kept in (Entry("–", note="budget"), Entry("–", doubt="busy")):
        assert len(without_empty_columns(table([Entry("a"), kept])).columns) == 2
    assert len(without_empty_columns(table([Entry("a"), Entry("–", title="no meter")])).columns) == 1


def test_an_entry_over_several_columns_shrinks_with_them():
    failed = Entry("failed", span=3)
    found = without_empty_columns(table([Entry("a"), Entry("1"), NOTHING, Entry("2")], [Entry("b"), failed]))
    assert texts(found) == [["a", "1", "2"], ["b", "failed/2"]]


def test_an_entry_over_several_columns_keeps_one_of_them():
    found = without_empty_columns(table([Entry("a"), NOTHING, NOTHING], [Entry("b"), Entry("failed", span=2)]))
    assert found.columns == ["column 0", "column 1"] and texts(found) == [["a", "–"], ["b", "failed"]]


def test_a_full_table_and_columns_that_only_wide_entries_fill_stay():
    full = table([Entry("a"), Entry("1")], [Entry("b"), NOTHING])
    for found in (full, table([Entry("a"), Entry("failed", span=3)])):
        assert without_empty_columns(found) is found


def test_groups_and_the_first_columns_shrink_too():
    row = [Entry("a"), NOTHING, Entry("1"), NOTHING, Entry("2")]
    found = without_empty_columns(table(row, groups=[("", 1), ("Prefill", 2), ("Total", 1), ("Rest", 1)], first=3))
    assert list(found.groups) == [("", 1), ("Prefill", 1), ("Rest", 1)] and found.first == 2
    assert without_empty_columns(table(row, first=4)).first == 2
    assert without_empty_columns(table([Entry("a"), Entry("1"), NOTHING], first=2)).first is None


# First columns, and the others


def test_a_table_is_divided_into_its_first_columns_and_the_others():
    whole = table([Entry(text) for text in "abcd"], keys=2, first=3)
    others = other_columns(whole)
    assert texts(first_columns(whole)) == [["a", "b", "c"]]
    assert others is not None and texts(others) == [["a", "b", "d"]] and others.keys == 2
    for plain in (table([Entry("a"), Entry("b")]), table([Entry("a"), Entry("b")], first=2)):
        assert first_columns(plain) is plain and other_columns(plain) is None


def test_any_columns_can_be_kept():
    found = with_columns(table([Entry("a"), Entry("b"), Entry("c")], keys=2), [1, 2])
    assert texts(found) == [["b", "c"]] and found.keys == 1


# Doubts


def test_few_reasons_of_doubts_are_told_and_many_are_not():
    def doubting(*reasons: str) -> Table:
        return table(*([Entry("a", doubt=reason)] for reason in reasons))

    assert doubted(doubting("")) == ""
    assert doubted(doubting("busy", "", "busy", "few pairs")) == "† busy; few pairs"
    assert doubted(doubting("a", "b", "c", "d")) == "† doubted: see the doubts"
