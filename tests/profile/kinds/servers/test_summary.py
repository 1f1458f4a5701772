"""From requests to the document of `endpoints`, on segments made by hand."""

import numpy as np
import pytest
from scipy import stats

from tests.profile.kinds.servers.fake_servers import study
from tests.profile.kinds.servers.kept import endpoints_document, log_of, segment_with
from trio_profile.kinds.servers.study import Load
from trio_profile.kinds.servers.summary import break_even, document_of, values_of

ONE = Load(loop="closed", value=1)


def test_the_quantities_of_a_segment_are_those_worked_out_by_hand():
    segment, requests = segment_with(study(ttft_limit_ms=400), 0, "dense", ONE, 2.0)
    found = values_of(study(ttft_limit_ms=400), segment, requests)
    assert found == pytest.approx(
        {
            "throughput": 2.0,
            "goodput": 2.0,
            "ttft_p50_ms": 250,
            "ttft_p95_ms": 250,
            "ttft_p99_ms": 250,
            "total_ms": 500,
            "tpot_ms": 250 / 15,
        }
    )
    assert values_of(study(ttft_limit_ms=200), segment, requests)["goodput"] == 0
    assert "goodput" not in values_of(study(), segment, requests)


def test_failed_requests_and_those_of_the_warm_up_count_for_nothing():
    segment, requests = segment_with(study(), 0, "dense", ONE, 2.0)
    requests[3] = requests[3].model_copy(update={"error": "it broke", "first_ms": None})
    requests[4] = requests[4].model_copy(update={"measured": False})
    assert values_of(study(), segment, requests)["throughput"] == pytest.approx(1.8)


def test_a_time_of_a_further_token_needs_the_number_of_tokens():
    """A piece may hold several tokens, so the number of pieces is not taken instead."""
    segment, requests = segment_with(study(), 0, "dense", ONE, 2.0, output_tokens=None, odd_counts="-1 output tokens")
    values = values_of(study(), segment, requests)
    assert "tpot_ms" not in values and values["total_ms"] == pytest.approx(500)


def test_an_open_loop_counts_what_ends_in_the_measured_part():
    """It begins at 1 s. Requests of the warm-up end in it, and measured ones end after it."""
    load = Load(loop="open", value=2)
    segment, requests = segment_with(study(), 0, "dense", load, 2.0)
    segment = segment.model_copy(update={"start_ms": 1000.0, "end_ms": 5000.0})
    late = [one.model_copy(update={"measured": one.due_ms >= 1000}) for one in requests]
    found = values_of(study(), segment, late)
    assert found["throughput"] == pytest.approx(8 / 4)
    assert found["ttft_p50_ms"] == pytest.approx(250)


def test_a_gain_is_the_geometric_mean_over_rounds_with_student_s_interval():
    asked = study(concurrency=(1,), rounds=3)
    gains = (1.5, 1.6, 1.8)
    log = log_of(asked, lambda arm, _, round: gains[round] if arm == "pruned" else 1.0)
    (at,) = document_of(asked, log).loads
    logs = np.log(gains)
    reach = stats.t.ppf(0.975, 2) * logs.std(ddof=1) / 3**0.5
    expected = np.exp([logs.mean(), logs.mean() - reach, logs.mean() + reach])
    for name in ("throughput", "ttft_p50_ms", "total_ms"):
        gain = at.gains[name]
        assert (gain.value, *gain.ci95) == pytest.approx(tuple(expected))
        assert gain.samples == 3


def test_a_quantity_of_one_round_alone_has_no_gain():
    asked = study(concurrency=(1,), rounds=2)
    log = log_of(asked)
    del log.segments[2:]
    (at,) = document_of(asked, log).loads
    assert (at.rounds, at.gains, at.dense.throughput) == (1, {}, None)


def ratios_at(values: list[float]) -> list[list[float]]:
    """Three rounds around each ratio."""
    return [[0.99 * value, value, 1.01 * value] for value in values]


def test_a_power_law_is_crossed_where_it_is_1():
    """ratio = 0.15 · load, so it is 1 at 6.67."""
    loads = (1, 2, 4, 8, 16)
    found = break_even("throughput", "closed", loads, ratios_at([0.15 * load for load in loads]))
    assert (found.status, found.pays) == ("crossing", "below")
    assert found.load == pytest.approx(1 / 0.15, rel=1e-3)
    assert found.ci95 is not None and found.ci95[0] < 1 / 0.15 < found.ci95[1]
    assert found.measured == (1, 16)


def test_pruning_that_pays_only_at_high_loads_is_said_to_do_so():
    loads = (1, 2, 4, 8)
    found = break_even("ttft_p50_ms", "open", loads, ratios_at([3 / load for load in loads]))
    assert (found.status, found.pays, found.measured) == ("crossing", "above", (1, 8))
    assert found.load == pytest.approx(3, rel=1e-3)
    assert found.ci95 is not None and found.ci95[0] < 3 < found.ci95[1]


@pytest.mark.parametrize(("values", "status"), [([0.5, 0.6, 0.7], "always"), ([1.5, 1.6, 1.7], "never")])
def test_a_ratio_on_one_side_of_1_is_never_crossed(values, status):
    assert break_even("throughput", "closed", (1, 2, 4), ratios_at(values)).status == status
    assert break_even("throughput", "closed", (1, 2, 4), ratios_at(values[::-1])).status == status


def test_noise_that_hides_the_crossing_is_inconclusive():
    found = break_even("throughput", "closed", (1, 2, 4), [[0.5, 1.9]] * 3)
    assert found.status == "inconclusive"


def test_a_gain_that_crosses_1_twice_has_no_break_even():
    """At 1 pruning costs 10 %, which one fit from 1 to 27 would hide."""
    ratios = ratios_at([1.1, 0.6, 0.6, 0.6, 0.7, 1.1])
    found = break_even("throughput", "closed", (1, 2, 4, 8, 16, 32), ratios)
    assert (found.status, found.against, found.load, found.ci95) == ("inconclusive", (1.0,), None, None)
    backwards = break_even("throughput", "closed", (1, 2, 4, 8), ratios_at([1.2, 0.5, 0.5, 0.7]))
    assert backwards.against == () and backwards.pays == "above"


def test_vllm_s_pull_request_51221_breaks_even_between_1_and_2():
    """Requests per second at concurrency 1 to 32, dense and with half of the tokens, as it prints them."""
    dense = (1.084, 1.835, 2.896, 3.757, 5.312, 6.424)
    pruned = (1.189, 1.778, 2.254, 2.563, 2.825, 2.958)
    ratios = ratios_at([one / other for one, other in zip(dense, pruned, strict=True)])
    found = break_even("throughput", "closed", (1, 2, 4, 8, 16, 32), ratios)
    assert found.status == "crossing" and found.load is not None and 1 < found.load < 2


def test_the_share_of_kept_tokens_comes_from_the_prompts():
    document = endpoints_document()
    assert document.retention == (26 - 10) / (74 - 10)
    assert document.loads[0].dense.prompt_tokens == 74
    assert [one.load for one in document.loads] == [1, 2, 4, 8, 3]
