from tests.profile.kinds.evaluation.kept import evaluation
from trio_profile.kinds.evaluation.rows import task_rows


def test_an_evaluation_has_a_row_for_each_cell_and_task():
    rows = task_rows(evaluation())
    assert len(rows) == 4 * 3
    assert [row["method"] for row in rows[::3]] == ["dense", "trio", "fastv", "trio"]
    assert rows[4]["benchmark"] == "MME" and rows[4]["score"] == 1789.0 and rows[4]["dense_score"] == 1862.0
    assert rows[4]["score_difference_low"] < -73 < rows[4]["score_difference_high"]
    assert rows[3]["prefill_speedup_low"] < rows[3]["prefill_speedup"] and rows[0]["prefill_speedup"] is None
