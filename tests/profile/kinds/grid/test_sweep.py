import numpy as np
import pytest

from tests.profile.examples import (
    answered,
    contents_of,
    dense,
    document,
    failed,
    in_processes,
    measurement,
    pair,
    study,
    with_cpu_times,
    with_pairs,
)
from tests.profile.reading import blocks, in_terminal, line_of, rows, sentences, table, too_wide
from trio_profile.judge.accuracy import AccuracyKept
from trio_profile.judge.times import MEASURED
from trio_profile.kinds.grid import sweep
from trio_profile.kinds.grid.sweep import COSTS, SweepDocument, summarise
from trio_profile.records.schema import Energy, Fidelity
from trio_profile.report.blocks import Chart, Sentences, Table
from trio_profile.report.palette import number_of


def test_cells_come_in_the_studys_order():
    asked = study(methods=("trio", "grid"), retentions=(0.5, 0.2))
    ran = [measurement(method, retention) for retention in (0.5, 0.2) for method in ("grid", "trio")]
    cells = summarise(contents_of(asked, ran, dense())).cells
    assert [(c.method, c.nominal_retention) for c in cells] == [
        *(("trio", 0.2), ("trio", 0.5), ("grid", 0.2), ("grid", 0.5))
    ]


def test_macs_are_half_of_the_flops():
    found = document(study(retentions=(0.22,)), [measurement("trio", 0.22)])
    counted = measurement("trio", 0.22).counted
    assert found.cells[0].counted_macs * 2 == counted.torch_flops
    assert found.cells[0].selection_macs * 2 == counted.selection_flops


def test_failed_cells_are_listed_and_do_not_count_for_the_break_even():
    asked = study(retentions=(0.22, 0.5))
    found = document(asked, [measurement("trio", 0.22), failed("trio", 0.5, "out of memory")])
    assert [c.status for c in found.cells] == ["done", "failed"]
    assert found.break_even["kv_bytes"].status == "always"


def test_times_need_no_dense_count_but_exact_quantities_do():
    found = document(without_dense=True).break_even
    assert found["prefill_ms"].status == "crossing"
    assert found["counted_macs"].status == "inconclusive"


def test_energy_has_a_break_even_where_every_cell_has_it():
    """20 J dense; 8, 18 and 24 J at 0.2, 0.6 and 0.9: 20 lies a third of the way between the last two."""
    joules = {0.2: 8.0, 0.6: 18.0, 0.9: 24.0}
    asked = study(retentions=tuple(joules))
    whole = dense().model_copy(update={"energy": Energy(prefill_j=20.0)})
    cells = [
        measurement("trio", retention).model_copy(update={"energy": Energy(prefill_j=j)})
        for retention, j in joules.items()
    ]
    found = summarise(contents_of(asked, cells, whole)).break_even["energy_j"]
    low, high = (cell.retention.realised for cell in cells[1:] if cell.retention)
    assert found.retention == pytest.approx(low + (high - low) / 3)
    assert found.ci95 is None  # measured once
    cells[1] = measurement("trio", 0.6)
    assert "energy_j" not in summarise(contents_of(asked, cells, whole)).break_even


def test_parts_of_the_prefill_come_from_the_pairs():
    cell = measurement("trio", 0.22)
    one = pair(vision_ms=3.0, selection_ms=0.5)
    one = one.model_copy(update={"dense": one.dense.model_copy(update={"vision_ms": 4.0})})
    found = document(study(retentions=(0.22,)), [with_pairs(cell, [one] * 6)]).cells[0]
    times = (found.vision_ms, found.dense_vision_ms, found.selection_ms)
    assert [time and time.value for time in times] == pytest.approx([3.0, 4.0, 0.5])
    assert found.projector_ms is None


def test_cpu_time_stands_beside_the_times_of_a_cpu_study():
    found = document(study(), [with_cpu_times(measurement())]).cells[0]
    assert found.cpu_ms is not None and found.dense_cpu_ms is not None and found.cpu_speedup is not None
    assert found.cpu_ms.value == pytest.approx(2 * found.prefill_ms.value)
    assert found.cpu_speedup.value == pytest.approx(found.prefill_speedup.value)
    bare = document(study(), [measurement()]).cells[0]
    assert bare.cpu_ms is bare.dense_cpu_ms is bare.cpu_speedup is None


def test_a_document_has_the_doubts_of_its_study():
    found = document(study(), [measurement(pairs=5)])
    assert [doubt.kind for doubt in found.doubts] == ["rounds", "sessions"]
    assert document(study(), [in_processes(measurement(noise=0.002))]).doubts == []


def test_a_study_without_cells_is_a_document():
    found = document(study(), [])
    assert set(found.break_even) == {*MEASURED, *(cost.name for cost in COSTS if cost.exact)}
    assert {b.status for b in found.break_even.values()} == {"inconclusive"}


def test_answers_are_paired_with_dense_and_told_by_kind():
    asked = study(retentions=(0.11, 0.55, 0.99))
    unpruned, told = answered([measurement(retention=r) for r in asked.retentions])
    found = document(asked, told, unpruned=unpruned)
    assert found.dense is not None and found.dense.accuracy is not None
    right = np.array(unpruned.correct)
    assert found.dense.accuracy.value == right.mean()
    for cell, one in zip(found.cells, told, strict=True):
        assert one.fidelity is not None and cell.accuracy is not None and cell.accuracy_difference is not None
        pruned = np.array(one.fidelity.correct)
        assert cell.accuracy.value == pruned.mean()
        assert cell.accuracy_difference.value == pytest.approx((pruned.astype(int) - right).mean())
        assert cell.accuracy_by_kind["2 hops"].value == pruned[1::2].mean()
        assert cell.answer_agreement is not None and cell.answer_agreement.value == np.mean(one.fidelity.same)


def test_the_cheapest_retention_that_keeps_a_share_of_the_answers():
    """Of questions whose needs lie evenly between 0 and 0.8, a share s of the right answers is kept from 0.8 · s on.

    Of the retentions that were measured, from the next on.
    """
    asked = study()
    unpruned, told = answered([measurement(retention=r) for r in asked.retentions])
    found = document(asked, told, unpruned=unpruned)
    assert list(found.accuracy_kept_by_method["trio"]) == ["0.99", "0.97", "0.95"]
    reached = [one.retention.realised for one in told if one.retention is not None]
    for share, kept in found.accuracy_kept_by_method["trio"].items():
        assert kept.status == "crossing" and kept.ci95 is not None and kept.retention is not None
        assert kept.ci95[0] <= min(r for r in reached if r >= 0.8 * float(share)) <= kept.ci95[1]
    assert (
        found.accuracy_kept_by_method["trio"]["0.99"].retention
        >= found.accuracy_kept_by_method["trio"]["0.95"].retention
    )  # type: ignore[operator]


def test_the_draws_of_a_method_are_averaged_question_by_question():
    cell = measurement("random", 0.22)
    told = Fidelity(draws=3, kl_nats=(0.0, 1.0, 0.3, 1.0, 0.6, 1.0), top1=(True, False, True, True, True, False))
    [found] = document(study(("random",), retentions=(0.22,)), [cell.model_copy(update={"fidelity": told})]).cells
    assert found.kl_nats_mean is not None
    assert (found.kl_nats_mean.value, found.kl_nats_mean.samples) == (pytest.approx(0.65), 2)
    assert found.top1_agreement is not None and found.top1_agreement.samples == 2
    assert found.top1_agreement.value == pytest.approx((1 + 1 / 3) / 2)


def test_without_answers_a_document_has_no_accuracy():
    found = document(study(retentions=(0.11, 0.55)))
    assert found.accuracy_kept_by_method["trio"] == {}
    assert found.cells[0].accuracy is None and found.dense is not None and found.dense.accuracy is None


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
    assert [page.id for page in pages] == ["verdict", "charts", "cells", "doubts", "study", "numbers"]
    assert [page.id for page in pages if not page.folded] == ["verdict"]


def test_the_first_screen_is_the_table_and_the_speed_up(several: SweepDocument):
    cells, chart, *others = sweep.verdict_page(several).blocks
    assert isinstance(cells, Table) and [*cells.columns[2:5]] == ["prefill", "mean KL, nats", "KV"]
    assert isinstance(chart, Chart) and chart.id == "prefill"
    assert [type(block) for block in others] == [Table, Sentences, Sentences]


def test_the_speed_up_has_its_interval_its_claim_and_three_bands(several: SweepDocument):
    chart = sweep.verdict_page(several).blocks[1]
    assert isinstance(chart, Chart)
    found = several.break_even["prefill_ms"]
    lines = [one for one in chart.series if one.line == "solid"]
    claims = [one for one in chart.series if one.line == "dot"]
    assert [one.colour for one in lines] == [one.colour for one in claims] == [number_of("trio"), number_of("fastv")]
    assert all(a <= y <= b for one in lines for a, y, b in zip(one.low, one.y, one.high, strict=True))
    cell = next(cell for cell in several.cells if cell.method == "trio")
    assert several.dense and cell.fastv_macs
    assert claims[0].y[0] == pytest.approx(several.dense.fastv_macs / cell.fastv_macs)
    assert [span.name for span in chart.spans] == ["certain gain", "undecided", "certain loss"]
    assert found.certain_gain and found.certain_loss
    assert (chart.spans[1].low, chart.spans[1].high) == (100 * found.certain_gain, 100 * found.certain_loss)


def test_a_study_without_a_finished_cell_has_a_verdict():
    nothing = document(measurements=[failed()])
    assert nothing.conclusion is not None
    assert line_of(nothing.conclusion) == "Nothing to decide: no cell of a method is measured (controls do not count)."
    assert not blocks(sweep.report(nothing), Chart)


def test_the_table_of_many_methods_has_a_switch():
    for methods, switch in ((("trio",), None), (("trio", "fastv"), None), (("trio", *"abcdefgh"), 0)):
        asked = study(methods=methods, retentions=(0.33, 0.66))
        found = table(sweep.report(document(asked)), SUMMARY)
        assert found.switch == switch and len(found.rows) == 2 * len(methods)
        in_sight = [*["Method"][: len(methods) - 1], "Retention", "prefill", "mean KL, nats", "KV", "total", "MACs"]
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
    report = sweep.report(document(study(retentions=(0.11, 0.77, 0.99)), noted))
    assert sentences(report).count("trio: other code ran.") == 1
    assert report.banner.startswith("This study is unfinished. Not measured yet: 1 of 3 cells.")


def test_without_dense_work_and_cache_are_not_judged():
    told = sentences(sweep.report(document(measurements=[measurement()], without_dense=True)))
    assert any("The dense model was not counted" in line for line in told)
