"""Which columns of a table are drawn."""

from trio_profile.report.blocks import Entry, Table
from trio_profile.report.columns import (
    doubted,
    first_columns,
    other_columns,
    without_empty_columns,
)

NOTHING = Entry("–")


def table(*rows: list[Entry], **fields) -> Table:
    names = [f"column {number}" for number in range(max(map(len, rows)))]
    return Table("", names, rows, **fields)


def texts(found: Table) -> list[list[str]]:
    return [[entry.text for entry in row] for row in found.rows]


# Columns without a value


def test_a_column_that_names_a_row_stays():
    keys = table([NOTHING, NOTHING], [NOTHING, NOTHING])
    assert without_empty_columns(keys).columns == ["column 0"]


def test_a_note_or_a_doubt_is_a_value():
    for kept in (Entry("–", note="budget"), Entry("–", doubt="busy")):
        assert len(without_empty_columns(table([Entry("a"), kept])).columns) == 2
    assert len(without_empty_columns(table([Entry("a"), Entry("–", title="no meter")])).columns) == 1


def test_a_full_table_stays():
    full = table([Entry("a"), Entry("1")], [Entry("b"), NOTHING])
    assert without_empty_columns(full) is full


def test_the_first_columns_shrink_too():
    row = [Entry("a"), NOTHING, Entry("1"), NOTHING, Entry("2")]
    assert without_empty_columns(table(row, first=3)).first == 2
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


# Doubts


def test_few_reasons_of_doubts_are_told_and_many_are_not():
    def doubting(*reasons: str) -> Table:
        return table(*([Entry("a", doubt=reason)] for reason in reasons))

    assert doubted(doubting("")) == ""
    assert doubted(doubting("busy", "", "busy", "few pairs")) == "† busy; few pairs"
    assert doubted(doubting("a", "b", "c", "d")) == "† doubted: see the doubts"
