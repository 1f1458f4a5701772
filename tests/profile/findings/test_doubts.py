"""The report of `show --doubts`: each doubt under its cell with the next step, and the tally."""

from tests.profile.examples import contents_of, in_processes, measurement, rounds_of, study
from tests.profile.reading import blocks, too_wide
from trio_profile.analysis.doubts import Doubt, doubts
from trio_profile.analysis.pairs import CellPairs
from trio_profile.findings import doubts as pages
from trio_profile.findings.blocks import Chart, Sentences
from trio_profile.records.schema import Cell


def test_each_doubt_stands_under_its_cell_with_the_next_step():
    broken = in_processes(measurement()).model_copy(update={"reason": "out of memory"})
    cells = [broken, in_processes(measurement(retention=0.5), 6)]
    report = pages.report(study(), cells, doubts(contents_of(study(), cells, sessions=[], rounds=rounds_of(*cells))))
    tally, cell = blocks(report, Sentences)
    assert tally.lines[0].startswith("2 cells measured. Doubts about single cells: 1 of 2 (sessions 1)")
    assert cell.heading == "trio at 11.0 %" and cell.tone == "doubt"
    assert [line.partition(": ")[0] for line in cell.lines] == ["sessions"]
    assert ". Next step: " in cell.lines[0] and cell.lines[0].endswith(".")
    assert not list(too_wide(report))


def doubt(kind: str, cell: Cell | None = None, found: float = 0.2) -> Doubt:
    return Doubt(cell=cell, kind=kind, sentence=f"{kind} found", next_step="wait", found=found, threshold=0.1)


CELLS = [Cell(method="trio", retention=retention / 10) for retention in range(1, 11)]


def test_the_page_of_a_study_shows_the_strongest_doubt_of_each_kind_and_lists_all():
    found = [doubt("sessions"), doubt("busy", CELLS[0]), doubt("busy", CELLS[3], 0.9), doubt("clock", CELLS[1])]
    found += [doubt("clock", CELLS[1], 0.15), doubt("clock", CELLS[2])]
    page = pages.page(found, CELLS, [], ())
    _, whole, single, table = page.blocks
    assert list(whole.lines) == ["sessions: sessions found. Next step: wait."]
    assert list(single.lines) == [
        "trio at 40.0 % (and 1 more cell): busy: busy found. Next step: wait.",
        "trio at 20.0 % (and 1 more cell): clock: clock found. Next step: wait.",
    ]
    assert len(table.rows) == 5 and table.detail


def pairs_at(retention: float) -> CellPairs:
    return CellPairs(
        method="trio",
        retention=retention,
        session=[1, 1, 2],
        phase=["prefill", "generation", "prefill"],
        disturbed=[False, False, True],
        times={"dense_prefill_ms": [100.0, 80.0, 90.0], "prefill_ms": [50.0, 10.0, 60.0]},
    )


def test_every_pair_stands_in_a_chart_in_the_order_of_measurement():
    chart = pages.page([], CELLS, [pairs_at(0.2)], ("grid", "trio")).blocks[-1]
    assert isinstance(chart, Chart)
    [series] = chart.series
    assert (list(series.x), list(series.y), list(series.hollow)) == ([1, 2], [2.0, 1.5], [False, True])
    assert series.colour == 1 and series.text[1].endswith("dense 90.0 ms, pruned 60.0 ms, disturbed")


def test_a_session_begins_at_one_place_for_all_cells():
    """Sessions 1, 1, 3 of one cell, and 1, 2, 3, 3 of another one. A session is as long as its longest cell."""

    def in_sessions(retention: float, *sessions: int) -> CellPairs:
        count = len(sessions)
        times = {"dense_prefill_ms": [90.0] * count, "prefill_ms": [60.0] * count}
        update = {"session": [*sessions], "phase": ["prefill"] * count, "disturbed": [False] * count, "times": times}
        return pairs_at(retention).model_copy(update=update)

    longer, shorter = in_sessions(0.3, 1, 2, 3, 3), in_sessions(0.2, 1, 1, 3)
    chart = pages.raw_pairs([shorter, longer], ("trio",))
    assert [list(series.x) for series in chart.series] == [[1, 2, 4], [1, 3, 4, 5]]
    assert [upright.x for upright in chart.uprights] == [2.5, 3.5]
    assert "session 3, round 2" in chart.series[1].text[3]
    assert pages.raw_pairs([pairs_at(0.2).model_copy(update={"session": [1, 1, 1]})], ("trio",)).uprights == []


def test_of_many_cells_the_doubted_ones_are_drawn_first_and_in_colour():
    cells = [Cell(method="trio", retention=number / 100) for number in range(1, 61)]
    found = [doubt("busy", cells[40]), doubt("clock", cells[50]), doubt("sessions")]
    chart = pages.page(found, cells, [pairs_at(cell.retention) for cell in cells], ("trio",)).blocks[-1]
    assert isinstance(chart, Chart) and len(chart.series) == pages.MOST_DRAWN
    assert chart.caption == "Pairs of 24 of 60 cells, in the order of measurement. The doubted cells come first"
    assert [one.group for one in chart.series if not one.quiet] == ["trio at 41.0 %", "trio at 51.0 %"]
    assert chart.series[2].group == "trio at 1.0 %"
