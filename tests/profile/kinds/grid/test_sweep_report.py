"""The pages of a sweep's report: what to do, the speed-up, a table, and what is folded."""

import pytest

from tests.profile.examples import answered, document, failed, measurement, study
from tests.profile.reading import blocks, in_terminal, rows, sentences, table, too_wide
from trio_profile.judge.accuracy import AccuracyKept
from trio_profile.kinds.grid import sweep_report as sweep
from trio_profile.kinds.grid.sweep import SweepDocument
from trio_profile.report.blocks import Chart, Sentences, Table

SUMMARY = "Speed-up [95 % interval], and cost relative to dense"
KEPT = "The cheapest retention that keeps a share of the dense accuracy"


def with_failures() -> SweepDocument:
    """Two methods at five retentions. The cells at one retention failed."""
    asked = study(methods=("trio", "fastv"), retentions=(0.11, 0.33, 0.55, 0.77, 0.99))
    cells = [measurement(cell.method, cell.retention) for cell in asked.cells() if cell.retention != 0.33]
    return document(asked, [*cells, failed("trio", 0.33, "CUDA out of memory"), failed("fastv", 0.33, "no <keys>")])


several = pytest.fixture(with_failures, scope="module")


@pytest.fixture(scope="module")
def quizzed() -> SweepDocument:
    unpruned, told = answered([measurement(retention=cell.retention) for cell in study().cells()])
    return document(study(), told, unpruned=unpruned)


def test_only_the_verdict_is_in_sight(several: SweepDocument):
    pages = sweep.report(several).pages
    assert [page.id for page in pages] == ["verdict", "charts", "answers", "cells", "doubts", "study", "numbers"]
    assert [page.id for page in pages if not page.folded] == ["verdict"]


def test_the_first_screen_is_a_sentence_and_the_speed_up(several: SweepDocument):
    what, chart, *others = sweep.verdict_page(several).blocks
    assert isinstance(what, Sentences) and len(what.lines) == 2
    assert what.lines[1].startswith("By prefill time, trio pays certainly up to ")
    assert isinstance(chart, Chart) and chart.id == "prefill"
    assert [type(block) for block in others] == [Table, Table, Sentences, Sentences]


def test_the_speed_up_has_its_interval_its_claim_and_three_bands(several: SweepDocument):
    chart = sweep.verdict_page(several).blocks[1]
    assert isinstance(chart, Chart)
    found = several.break_even["prefill_ms"]
    lines = [one for one in chart.series if one.line == "solid"]
    claims = [one for one in chart.series if one.line == "dot"]
    assert [one.colour for one in lines] == [one.colour for one in claims] == [0, 1]
    assert all(a <= y <= b for one in lines for a, y, b in zip(one.low, one.y, one.high, strict=True))
    cell = next(cell for cell in several.cells if cell.method == "trio")
    assert several.dense and cell.fastv_macs
    assert claims[0].y[0] == pytest.approx(several.dense.fastv_macs / cell.fastv_macs)
    assert [span.name for span in chart.spans] == ["certain gain", "undecided", "certain loss"]
    assert found.certain_gain and found.certain_loss
    assert (chart.spans[1].low, chart.spans[1].high) == (100 * found.certain_gain, 100 * found.certain_loss)


def test_a_study_without_a_finished_cell_has_a_verdict():
    report = sweep.report(document(measurements=[failed()]))
    assert sentences(report)[0].startswith("Nothing can be recommended yet")
    assert not blocks(report, Chart)


def test_the_table_of_many_methods_has_a_switch():
    for methods, switch in ((("trio",), None), (("trio", "fastv"), None), (("trio", *"abcdefgh"), 0)):
        asked = study(methods=methods, retentions=(0.33, 0.66))
        found = table(sweep.report(document(asked)), SUMMARY)
        assert found.switch == switch and len(found.rows) == 2 * len(methods)
        in_sight = [*["Method"][: len(methods) - 1], "Retention", "prefill", "total", "MACs", "KV"]
        assert list(found.columns[: found.first]) == in_sight


def test_every_row_is_as_wide_as_its_table(several: SweepDocument, quizzed: SweepDocument):
    for found in (*blocks(sweep.report(several), Table), *blocks(sweep.report(quizzed), Table)):
        assert {len(row) for row in found.rows} == {len(found.columns)}, found.caption


def test_cells_without_numbers_say_why(several: SweepDocument):
    told = sentences(sweep.report(several))
    assert "trio at 33.0 % failed: CUDA out of memory." in told and "fastv at 33.0 % failed: no <keys>." in told


def test_the_terminal_has_the_verdict_the_table_and_the_break_even_in_40_lines(quizzed: SweepDocument):
    text = in_terminal(sweep.report(quizzed))
    assert not list(too_wide(sweep.report(quizzed)))
    assert len(text[: text.index("Keep in mind")].splitlines()) <= 40
    assert "Break-even, as retentions" in text and "All cells" not in text
    assert "All cells" in in_terminal(sweep.report(quizzed), everything=True)


def test_one_new_token_has_no_column_of_totals():
    for tokens, known in ((1, False), (8, True)):
        assert ("total" in table(sweep.report(document(study(new_tokens=tokens))), SUMMARY).columns) == known


def test_answers_have_a_chart_the_cheapest_retentions_and_a_table(quizzed: SweepDocument):
    chart, kept, found = sweep.answers_page(quizzed).blocks
    assert isinstance(chart, Chart) and isinstance(kept, Table) and isinstance(found, Table)
    assert quizzed.dense and quizzed.dense.accuracy and chart.levels == (100 * quizzed.dense.accuracy.value,)
    assert list(found.columns[-2:]) == ["1 hops", "2 hops"] and found.rows[0][0].text == "dense"
    assert not sweep.answers_page(document()).blocks


def test_the_cheapest_retention_has_its_interval(quizzed: SweepDocument):
    cases = {
        "0.99": AccuracyKept(status="crossing", retention=0.22, ci95=(0.22, 1.0)),
        "0.98": AccuracyKept(status="crossing", retention=0.22, ci95=(0.22, 0.22)),
        "0.97": AccuracyKept(status="inconclusive"),
        "0.96": AccuracyKept(status="always", retention=0.11),
        "0.95": AccuracyKept(status="never"),
    }
    found = quizzed.model_copy(update={"accuracy_kept_by_method": {"trio": cases}})
    assert rows(table(sweep.report(found), KEPT)) == [
        [
            *("trio", "22 % [22, 100]", "22.0 %", "not enough questions to say"),
            *("at every retention measured", "at no retention measured"),
        ]
    ]


def test_reminders_say_each_thing_once():
    noted = [measurement(retention=part).model_copy(update={"notes": ("other code ran",)}) for part in (0.11, 0.77)]
    told = sentences(sweep.report(document(study(retentions=(0.11, 0.77, 0.99)), noted)))
    assert told.count("trio: other code ran.") == 1
    assert any("Not measured yet: 1 of 3 cells." in line for line in told)


def test_without_dense_work_and_cache_are_not_judged():
    told = sentences(sweep.report(document(measurements=[measurement()], without_dense=True)))
    assert any("The dense model was not counted" in line for line in told)
