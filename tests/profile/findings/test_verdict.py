"""The sentences of a sweep's verdict."""

import re

import pytest

from tests.profile import reading
from tests.profile.examples import document, failed, measurement, study
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import break_even, sweep, verdict


def sentences(document: SweepDocument) -> list[str]:
    """All sentences of a sweep's report."""
    return reading.sentences(sweep.report(document))


def first_finding(document: SweepDocument) -> str:
    """The first sentence about the study's first method."""
    return verdict.findings(document, document.study.methods[0])[0]


@pytest.fixture(scope="module")
def several() -> SweepDocument:
    asked = study(methods=("trio", "fastv"), retentions=(0.11, 0.33, 0.55, 0.77, 0.99))
    cells = [measurement(cell.method, cell.retention) for cell in asked.cells() if cell.retention != 0.33]
    return document(asked, [*cells, failed("trio", 0.33, "CUDA out of memory"), failed("fastv", 0.33, "no <keys>")])


@pytest.mark.parametrize(("quantity", "name"), [("prefill_ms", "prefill"), ("total_ms", "total time")])
def test_prefill_and_total_time_have_a_sentence_on_their_break_even(quantity: str, name: str):
    found = document()
    assert break_even.sentence(found, "trio", quantity, name) in sentences(found)


def test_the_first_sentence_has_both_speedups_with_intervals():
    pattern = r"trio at 11\.0 % retention: prefill [\d.]+× faster \[[\d., ]+\], .* [\d.]+× faster \[[\d., ]+\]\."
    assert re.fullmatch(pattern, first_finding(document()))


def test_a_loss_is_called_a_loss():
    first = first_finding(document(measurements=[measurement(overhead_ms=60)]))
    assert "prefill slower than dense, at 0.3" in first and "faster" not in first


def test_what_the_noise_hides_is_not_claimed():
    first = first_finding(document(measurements=[measurement(retention=0.44, overhead_ms=8.5, noise=0.2)]))
    assert "no measurable speed-up of prefill, 1." in first or "no measurable speed-up of prefill, 0." in first
    assert "faster" not in first


def test_claim_and_count_are_in_one_sentence():
    work = next(sentence for sentence in sentences(document()) if sentence.startswith("Work of trio"))
    assert re.search(r"exact counts: the formula says [\d.]+× fewer MACs, the counter says [\d.]+× fewer", work)


def test_early_stops_are_told():
    cells = [measurement(retention=0.11, noise=0.05), measurement(retention=0.22, noise=0.001)]
    found = document(study(retentions=(0.11, 0.22, 0.33), precision=0.01), cells)
    (text,) = [line for line in sentences(found) if "The time was spent" in line]
    assert "before 1 of 2 cells reached ±1.0 %" in text and "`--until 0.01`" in text
    assert any("Not measured yet: 1 of 3 cells" in line for line in sentences(found))
    enough = document(study(retentions=(0.11, 0.22), precision=0.5), cells)
    assert not any("The time was spent" in line for line in sentences(enough))


def test_a_cache_other_than_predicted_is_told():
    odd = measurement().model_copy(update={"kv_bytes_predicted": 64 * 2**20})
    assert any("not as predicted (64 MiB)" in sentence for sentence in sentences(document(measurements=[odd])))


def test_the_verdict_is_plain_text(several: SweepDocument):
    assert all(sentence and not re.search(r"<|&\w+;|\n", sentence) for sentence in sentences(several))


def test_the_four_numbers_that_are_called_retention_are_told():
    assert (
        "A retention of 11.0 % was asked for. The average over the layers is 10.99 %, "
        "the last layer keeps 3.82 %, and 10.99 % was realised on this input."
    ) in sentences(document())


def test_where_work_pays_is_told_by_formula_and_by_count():
    assert "In MACs, trio pays up to 90.8 % by formula; by count it pays up to 79.6 %." in sentences(document())


def test_failed_cells_are_named():
    found = document(study(retentions=(0.11, 0.22)), [measurement(retention=0.11), failed(retention=0.22)])
    assert "Failed: 1 of 2 cells (trio at 22.0 %)." in sentences(found)


def test_without_dense_work_and_cache_are_not_judged():
    told = sentences(document(measurements=[measurement()], without_dense=True))
    assert "The dense model was not counted, so work and cache cannot be compared with it." in told
    assert not any("MACs" in sentence or "KV cache" in sentence for sentence in told)


def test_the_formula_is_told_with_the_counted_factor_too():
    """The selections of the example cost two forwards of the layers that they look at."""
    (line,) = [line for line in sentences(document()) if line.startswith("The formula takes γ")]
    assert line.startswith("The formula takes γ = 1. The selection of trio at 11.0 % has γ = 2.00 by count.")
    assert re.search(r"the formula says [\d.]+× fewer MACs; with what was counted in each cell, trio pays up to", line)
    cheap = document(measurements=[measurement(retention=r, selection_forwards=0.21) for r in (0.11, 0.55, 0.99)])
    assert any("has an overhead factor of 0.210 by count" in line for line in sentences(cheap))


def test_a_method_without_f_ov_has_no_factor_in_the_formula():
    bare = measurement("fastv").model_copy(update={"fastv_overhead_macs": 0})
    assert not any("The formula takes γ" in line for line in sentences(document(study(("fastv",)), [bare])))


def test_where_budgets_are_clamped_is_told():
    told = sentences(document(study(retentions=(0.11, 0.77))))
    (line,) = [line for line in told if "cannot keep their proportion" in line]
    assert (
        line.startswith("Above about 53 % retention the budgets of trio")
        and "The paper gives no budgets there." in line
    )
    below = sentences(document(study(retentions=(0.11, 0.44))))
    assert not any("cannot keep their proportion" in line for line in below)


def test_a_stage_that_drops_next_to_none_is_told():
    cell = measurement(retention=0.77)
    idle = cell.model_copy(update={"budgets": (576, 573, 300)})
    told = sentences(document(study(retentions=(0.77,)), [idle]))
    assert "At 77.0 % the stage of trio after layer 10 drops 3 of 576 tokens, and pays for the scores of all." in told


def test_what_the_prefills_told_of_themselves_is_told_once():
    noted = [measurement(retention=part).model_copy(update={"notes": ("other code ran",)}) for part in (0.11, 0.33)]
    told = verdict.doubts(document(study(retentions=(0.11, 0.33)), noted))
    assert told.count("trio: other code ran.") == 1


def test_a_cell_that_the_break_even_leaves_out_is_named():
    asked = study(retentions=(0.11, 0.33))
    uncounted = measurement("trio", 0.33).model_copy(update={"gamma_counted": None})
    told = verdict.doubts(document(asked, [measurement("trio", 0.11), uncounted]))
    assert any("leaves out trio at 33.0 %: the work of the selection was not counted" in line for line in told)
