"""The report of a study of servers."""

import pytest

from tests.profile.kinds.servers.kept import endpoints_document
from tests.profile.reading import rows, table
from trio_profile.kinds.servers.document import LoadBreakEven
from trio_profile.kinds.servers.report import break_even_table, report


def test_every_load_has_a_row_lowest_first_and_its_gain_is_drawn():
    document = report(endpoints_document())
    arms = [row[:2] for row in rows(table(document, "Each arm by concurrency"))]
    assert arms[-2:] == [["8", "dense"], ["8", "pruned"]]
    gains = table(document, "Gain of pruning by concurrency")
    assert [row[0].text for row in gains.rows] == ["1", "2", "4", "8"]
    assert [row[1].tone for row in gains.rows] == ["gain", "gain", "gain", "loss"]
    assert gains.drawn["throughput"] == 1.0 and all(row[1].bounds for row in gains.rows)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": "crossing", "load": 6, "ci95": (5, 7)}, "below 6 [5, 7]"),
        ({"status": "crossing", "pays": "above", "load": 6, "ci95": (5, 7)}, "above 6 [5, 7]"),
        ({"status": "always", "measured": (1, 8)}, "at 1 to 8, by the fit"),
        ({"status": "always", "measured": (3, 3)}, "at 3, by the fit"),
        ({"status": "never", "measured": (1, 8)}, "not at 1 to 8, by the fit"),
        ({"status": "inconclusive", "measured": (1, 8), "ci95": (2, 4)}, "not decided: a crossing may lie in 2 to 4"),
        ({"status": "inconclusive", "measured": (1, 8), "against": (2,)}, "not decided: more than one crossing, by 2"),
    ],
)
def test_a_break_even_says_at_which_loads_pruning_pays(fields, text):
    line = LoadBreakEven.model_validate({"quantity": "throughput", "loop": "closed", **fields})
    (row,) = break_even_table("closed", [line]).rows
    assert [entry.text for entry in row] == ["throughput", text]
