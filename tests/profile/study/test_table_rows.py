"""Studies as rows: which columns there are, and what stands in them."""

import csv
import io
import re
from pathlib import Path

import pytest

from tests.profile import examples
from tests.profile.documents import keep
from tests.profile.examples import answered, dense, document, failed, measurement, study
from trio_profile.errors import StudyError
from trio_profile.judge.doubts import Doubt
from trio_profile.judge.planned import Preview
from trio_profile.kinds.grid.compare import compare
from trio_profile.kinds.grid.document import cell_rows, pair_rows
from trio_profile.kinds.grid.sweep import summarise
from trio_profile.records.schema import Cell
from trio_profile.records.store import Store
from trio_profile.study.table_rows import csv_text, rows_of

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "export.md").read_text()
NAMED = set(re.findall(r"`([\w.]+)`", PAGE))
"""The names that the page sets in code."""


def described(column: str) -> bool:
    """Whether docs/how-to/export.md names a column, or the column of which it is an end."""
    base = re.sub(r"_(low|high)$", "", column)
    if column.startswith("dense_") and not base.endswith("_ms"):
        return True  # the page lists some of the dense model's and says "and so on"
    return base in NAMED or re.sub(r"\..*", ".KIND", base) in NAMED


def known() -> list:
    """Two cells with answers, and one that failed."""
    asked = study(retentions=(0.11, 0.55, 0.99))
    unpruned, cells = answered([measurement(retention=0.11), measurement(retention=0.55)])
    return cell_rows(document(asked, [*cells, failed("trio", 0.99)], unpruned=unpruned))


def test_there_is_one_row_for_each_cell_with_the_same_columns():
    rows = known()
    assert [row["status"] for row in rows] == ["done", "done", "failed"]
    assert len({tuple(row) for row in rows}) == 1
    assert rows[2]["reason"].startswith("CUDA out of memory") and rows[2]["prefill_speedup_low"] is None


def test_a_quantity_has_its_value_and_both_ends_unrounded():
    found = document(study(retentions=(0.11,)))
    [row], cell = cell_rows(found), found.cells[0]
    ends = (row["prefill_speedup_low"], row["prefill_speedup_high"])
    assert (row["prefill_speedup"], ends) == (cell.prefill_speedup.value, cell.prefill_speedup.ci95)
    assert row["counted_macs"] == cell.counted_macs and row["dense_counted_macs"] == found.dense.counted_macs
    assert row["retention_realised"] == cell.retention.realised and row["budgets"] == " ".join(map(str, cell.budgets))
    assert (row["pairs"], row["processes"], row["stopped"]) == (30, 1, cell.prefill_speedup.stopped)
    assert (row["model"], row["device_name"]) == ("llava-1.5-7b", "NVIDIA H200")


def test_accuracies_by_kind_have_columns_with_the_kind():
    row = known()[0]
    assert 0 < row["accuracy_by_kind.1 hops_low"] < row["accuracy_by_kind.1 hops"] < row["accuracy"] + 1
    assert row["questions"] == examples.QUESTIONS


def test_no_column_of_the_dense_model_hides_one_of_the_cell():
    from trio_profile.quantities.summary import CellSummary, DenseSummary
    from trio_profile.study.table_rows import flat

    assert not set(flat(CellSummary, None)) & set(flat(DenseSummary, None, "dense_"))


def test_doubts_about_the_cell_and_about_the_study_are_named():
    about = {"sentence": "", "next_step": "", "found": 1.0, "threshold": 0.0}
    kinds = {"threads": None, "busy": Cell(method="trio", retention=0.55)}
    doubts = [Doubt(cell=cell, kind=kind, **about) for kind, cell in kinds.items()]
    found = document(study(retentions=(0.11, 0.55))).model_copy(update={"doubts": doubts})
    assert [row["doubts"] for row in cell_rows(found)] == ["threads", "busy threads"]


def test_a_comparison_and_an_ablation_have_rows_too():
    asked = study(("trio", "random"), verb="compare", retentions=(0.11,))
    cells = [measurement(cell.method, cell.retention) for cell in asked.cells()]
    rows = cell_rows(compare(examples.contents_of(asked, cells, dense())))
    assert {row["method"] for row in rows} == {"trio", "random"} and "reference_difference" in rows[0]
    rows = cell_rows(examples.ablation())
    assert [(row["group"], row["variant"], row["options"]) for row in rows] == [
        ("k_pos", "1", "k_pos = 1"),
        ("k_pos", "2", "k_pos = 2"),
        ("k_pos", "4", ""),
    ]


def test_a_document_without_a_list_is_refused():
    with pytest.raises(StudyError, match="no rows for a table: choose --format json"):
        rows_of(Preview.model_construct(cells=()), "cells")


def test_every_pair_of_a_store_is_a_row(tmp_path):
    cells = [examples.in_processes(measurement(retention=share, pairs=6), 2) for share in (0.11, 0.55)]
    keep(tmp_path, study(retentions=(0.11, 0.55)), cells)
    contents = Store(tmp_path).read()
    rows = pair_rows(summarise(contents))
    assert len(rows) == 2 * 2 * (6 + 2)
    expected = [(2, "prefill", n) for n in range(1, 7)] + [
        (2, "generation", 1),
        (2, "generation", 2),
        (3, "prefill", 1),
    ]
    assert [(row["session"], row["phase"], row["pair"]) for row in rows[:9]] == expected
    timing = contents.measurements[0].timings[0]
    assert rows[0]["prefill_ms"] == timing.pairs[0].pruned.prefill_ms and rows[0]["total_ms"] is None
    assert rows[6]["dense_total_ms"] == timing.generations[0].dense.total_ms
    assert rows[0]["disturbed"] is None


def test_the_guide_names_every_column():
    asked = study(("trio", "random"), verb="compare", retentions=(0.11,))
    compared = compare(examples.contents_of(asked, [measurement(cell.method) for cell in asked.cells()], dense()))
    rows = [known()[0], cell_rows(compared)[0], cell_rows(examples.ablation())[0], pair_rows(examples.document())[0]]
    assert [column for row in rows for column in row if not described(column)] == []


# --- as CSV ----------------------------------------------------------------------------------------------------------

ROWS = [
    {"name": 'a "b", c', "value": 0.1 + 0.2, "count": 2**53 + 1, "first": True, "missing": None},
    {"name": "x\ny", "value": 1.5e-9, "count": 3, "first": False, "missing": None},
]


def test_csv_reads_back_with_every_digit():
    text = csv_text(ROWS)
    assert text.splitlines()[0] == "name,value,count,first,missing"
    found = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in found] == [row["name"] for row in ROWS]
    assert [float(row["value"]) for row in found] == [row["value"] for row in ROWS]
    assert int(found[0]["count"]) == 2**53 + 1 and found[0]["first"] == "true" and found[0]["missing"] == ""
    assert csv_text([]).strip() == ""
