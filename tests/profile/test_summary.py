import pytest

from tests.profile.examples import dense, document, environment, failed, measurement, study
from trio_profile.analysis.summary import QUANTITIES, Document, summarise


def test_statistics_come_from_the_raw_pairs():
    found = document(study(retentions=(0.22,)), [measurement("trio", 0.22)]).cells[0]
    pairs = measurement("trio", 0.22).pairs
    ratios = sorted(pair.dense_prefill_ms / pair.prefill_ms for pair in pairs)
    assert found.prefill_speedup.samples == len(pairs)
    assert ratios[0] <= found.prefill_speedup.ci95[0] <= found.prefill_speedup.median <= ratios[-1]
    middle = len(ratios) // 2
    expected = ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2
    assert found.prefill_speedup.median == pytest.approx(expected)


def test_cells_come_in_the_studys_order():
    asked = study(methods=("trio", "grid"), retentions=(0.5, 0.2))
    ran = [measurement(method, retention) for retention in (0.5, 0.2) for method in ("grid", "trio")]
    cells = summarise(asked, environment(), dense(), ran).cells
    assert [(c.method, c.nominal_retention) for c in cells] == [
        *(("trio", 0.2), ("trio", 0.5), ("grid", 0.2), ("grid", 0.5))
    ]


def test_macs_are_half_of_the_flops():
    found = document(study(retentions=(0.22,)), [measurement("trio", 0.22)])
    counted = measurement("trio", 0.22).counted
    assert found.cells[0].counted_macs * 2 == counted.torch_flops
    assert found.cells[0].selection_macs * 2 == counted.selection_flops


def test_failed_cells_stand_among_the_others_and_out_of_the_break_even():
    asked = study(retentions=(0.22, 0.5))
    found = document(asked, [measurement("trio", 0.22), failed("trio", 0.5, "out of memory")])
    assert [c.status for c in found.cells] == ["done", "failed"]
    assert found.break_even["kv_bytes"].status == "always"


def test_times_need_no_dense_count_but_exact_quantities_do():
    found = document(without_dense=True).break_even
    assert found["prefill_ms"].status == "crossing"
    assert found["counted_macs"].status == "inconclusive"


def test_a_study_without_cells_is_a_document():
    found = document(study(), [])
    assert set(found.break_even) == set(QUANTITIES)
    assert {b.status for b in found.break_even.values()} == {"inconclusive"}


def test_the_document_reads_back():
    found = document(study(methods=("trio", "grid")))
    assert Document.model_validate_json(found.model_dump_json()) == found
