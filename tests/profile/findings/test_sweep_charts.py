"""The charts of a sweep: what they draw is what the document says."""

import pytest

from tests.profile.examples import document, failed, measurement, study
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import sweep_charts
from trio_profile.findings.blocks import Series


@pytest.fixture(scope="module")
def several() -> SweepDocument:
    asked = study(methods=("trio", "fastv"), retentions=(0.11, 0.33, 0.55, 0.77, 0.99))
    cells = [measurement(cell.method, cell.retention) for cell in asked.cells() if cell.retention != 0.33]
    return document(asked, [*cells, failed("trio", 0.33, "CUDA out of memory"), failed("fastv", 0.33, "no <keys>")])


def named(series, name: str) -> Series:
    return next(one for one in series if one.name == name)


def test_each_method_has_one_colour_in_every_chart(several: SweepDocument):
    for number, method in enumerate(several.study.methods):
        for chart in (sweep_charts.prefill_speedup(several), sweep_charts.total_speedup(several)):
            assert [one.colour for one in chart.series if one.group == method] == [number]
        held, predicted = [one for one in sweep_charts.cache(several).series if one.group == method]
        assert (held.colour, predicted.colour) == (number, None)


def test_speedups_lie_in_their_intervals(several: SweepDocument):
    for series in sweep_charts.prefill_speedup(several).series:
        assert all(a <= y <= b for a, y, b in zip(series.low, series.y, series.high, strict=True))
        assert series.band and len(series.x) == len(series.text)


def test_a_single_point_has_its_interval():
    found = document(study(retentions=(0.5,)), [measurement(retention=0.5)])
    speedup = found.cells[0].prefill_speedup
    [series] = sweep_charts.prefill_speedup(found).series
    assert speedup is not None and (series.low[0], series.high[0]) == speedup.ci95


def test_prefill_and_total_have_one_axis(several: SweepDocument):
    assert sweep_charts.prefill_speedup(several).y == sweep_charts.total_speedup(several).y


def test_the_break_even_is_marked_with_its_interval(several: SweepDocument):
    found = several.break_even_by_method["trio"]["prefill_ms"]
    assert found.retention is not None and found.ci95 is not None
    [upright] = [one for one in sweep_charts.prefill_speedup(several).uprights if one.group == "trio"]
    assert (upright.low, upright.x, upright.high) == pytest.approx(
        [100 * x for x in (found.ci95[0], found.retention, found.ci95[1])]
    )
    assert upright.text.startswith("trio breaks even at")


def test_the_speedup_chart_tells_where_each_method_pays(several: SweepDocument):
    label = sweep_charts.prefill_speedup(several).label
    assert "trio pays: certainly up to" in label and "fastv pays: certainly up to" in label


def test_work_holds_claim_count_and_time_against_dense(several: SweepDocument):
    dense = several.dense
    assert dense is not None
    cell = next(cell for cell in several.cells if cell.method == "trio")
    assert cell.fastv_macs and cell.counted_macs and cell.selection_macs and cell.prefill_speedup
    chart = sweep_charts.work(several, "trio")
    assert {one.name: one.y[0] for one in chart.series} == {
        "prefill time, measured": pytest.approx(1 / cell.prefill_speedup.value),
        "counted": pytest.approx(cell.counted_macs / dense.counted_macs),
        "counted, no selection": pytest.approx((cell.counted_macs - cell.selection_macs) / dense.counted_macs),
        "claimed by formula": pytest.approx(cell.fastv_macs / dense.fastv_macs),
    }
    time = named(chart.series, "prefill time, measured")
    assert time.low[0] == pytest.approx(1 / cell.prefill_speedup.ci95[1]) and time.low[0] <= time.y[0] <= time.high[0]


def test_points_whose_sampling_stopped_early_are_hollow():
    for precision, hollow in ((0.5, False), (0.0001, True)):
        found = document(study(retentions=(0.11, 0.22), precision=precision))
        [series] = sweep_charts.prefill_speedup(found).series
        assert list(series.hollow) == [hollow] * 2


def test_selection_is_a_share_of_the_counted_work(several: SweepDocument):
    cell = next(cell for cell in several.cells if cell.method == "trio")
    assert cell.selection_macs and cell.counted_macs
    series = named(sweep_charts.selection(several).series, "trio")
    assert series.y[0] == pytest.approx(100 * cell.selection_macs / cell.counted_macs)
    assert series.text[0].endswith("overhead factor 2.00 counted, γ = 1 assumed")
