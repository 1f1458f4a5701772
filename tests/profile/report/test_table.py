"""The table of cells: a row for each cell, and a column for each name."""

from dataclasses import replace

from tests.profile.examples import document, failed, measurement, study
from trio_profile.quantities.quantity import Column
from trio_profile.records.schema import Cell
from trio_profile.report.blocks import Entry
from trio_profile.report.table import Key, grid, table

ASKED = study(retentions=(0.11, 0.33, 0.55))
SWEPT = document(ASKED, [measurement(retention=0.11), failed(retention=0.33, reason="out of memory")])
CELLS = grid(SWEPT, SWEPT.cells)


def test_a_cell_without_numbers_has_no_row():
    assert [row[1].text for row in table(CELLS, "caption", ["prefill", "KV"]).rows] == ["11.0 %"]


def test_a_column_is_one_name_or_belongs_to_its_table():
    own = Column("own", lambda cell, _: Entry(cell.status))
    found = table(CELLS, "caption", ["MACs", own], [Key("Cell", lambda _, cell: Entry(cell.method))], in_sight="MACs")
    assert list(found.columns) == ["Cell", "MACs", "own"]
    assert (found.keys, found.first) == (1, 2) and found.rows[0][2].text == "done"


def test_columns_of_answers_are_left_out_where_none_are_known():
    found = table(CELLS, "caption", ["right", "points lost", "prefill"], ["reached"])
    assert list(found.columns) == ["Retention", "prefill"]
    assert CELLS.changed == "changed tokens"


def test_the_last_key_marks_a_doubt():
    marked = replace(CELLS, marks={Cell(method="trio", retention=0.11).id: "doubted: busy"})
    first, *_ = table(marked, "caption", ["prefill"]).rows
    assert [entry.doubt for entry in first] == ["", "doubted: busy", ""]


def test_the_dense_model_is_the_first_row_if_asked_for():
    first, *_ = table(CELLS, "caption", ["prefill", "held"], with_dense=True).rows
    assert [entry.text for entry in first[:3]] == ["dense", "100.0 %", "–"] and first[3].text.endswith("MiB")
