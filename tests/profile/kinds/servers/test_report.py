"""The report of a study of servers."""

import pytest

from tests.profile.kinds.servers.kept import endpoints_document
from tests.profile.reading import blocks, rows, table
from trio_profile.kinds.servers.document import EndpointsDocument
from trio_profile.kinds.servers.report import report
from trio_profile.records.estimate import Gain, PerSecond
from trio_profile.report.blocks import Chart


def test_every_load_has_a_row_for_each_arm():
    document = report(endpoints_document())
    arms = [row[:2] for row in rows(table(document, "Each arm by concurrency"))]
    assert arms[-2:] == [["8", "dense"], ["8", "pruned"]]
    gains = table(document, "Gain of pruning by concurrency")
    assert [row[0].text for row in gains.rows] == ["1", "2", "4", "8"]
    assert [row[1].tone for row in gains.rows] == ["gain", "gain", "gain", "loss"]


def charts_of(document: EndpointsDocument) -> dict[str, Chart]:
    return {chart.id: chart for chart in blocks(report(document), Chart)}


def test_the_charts_mark_the_loads_and_the_break_even():
    charts = charts_of(endpoints_document())
    assert list(charts) == ["gains-closed", "throughput-closed"]
    gains = charts["gains-closed"]
    assert list(gains.x.ticks) == [1, 2, 4, 8]
    assert 5 < gains.uprights[0].x < 6


def test_an_axis_is_not_stretched_by_the_interval_of_two_rounds():
    document = endpoints_document()
    wide = PerSecond(value=100, ci95=(1, 2e6), samples=2)
    gains = {"throughput": Gain(value=1.5, ci95=(0.001, 5000), samples=2)}
    loads = []
    for one in document.loads:
        dense, pruned = (arm.model_copy(update={"throughput": wide}) for arm in (one.dense, one.pruned))
        loads.append(one.model_copy(update={"dense": dense, "pruned": pruned, "gains": gains}))
    charts = charts_of(document.model_copy(update={"loads": tuple(loads)}))
    assert charts["throughput-closed"].y.high == 200
    assert charts["gains-closed"].y.high == pytest.approx(3.05)
