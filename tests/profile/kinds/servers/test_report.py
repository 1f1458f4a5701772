"""The report of a study of servers."""

from tests.profile.kinds.servers.kept import endpoints_document
from tests.profile.reading import rows, table
from trio_profile.kinds.servers.report import report


def test_every_load_has_a_row_lowest_first_and_its_gain_is_drawn():
    document = report(endpoints_document())
    arms = [row[:2] for row in rows(table(document, "Each arm by concurrency"))]
    assert arms[-2:] == [["8", "dense"], ["8", "pruned"]]
    gains = table(document, "Gain of pruning by concurrency")
    assert [row[0].text for row in gains.rows] == ["1", "2", "4", "8"]
    assert [row[1].tone for row in gains.rows] == ["gain", "gain", "gain", "loss"]
    assert gains.drawn["throughput"] == 1.0 and all(row[1].bounds for row in gains.rows)
