"""Verdicts from intervals, from pairs under every noise, and the sampling that ends in one."""

from dataclasses import replace

import numpy as np
import pytest

from tests import noise
from trio_profile.errors import MeasurementError
from trio_profile.gate.verdict import Samples, Summary, decide, judge, judge_exact, judge_pairs, settle


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        ((1.04, 1.06), "regression"),
        ((1.02, 1.06), "inconclusive"),
        ((0.98, 1.02), "pass"),
        ((0.98, 1.03), "inconclusive"),
        ((0.90, 0.95), "improved"),
    ],
)
def test_the_verdict_follows_from_where_the_interval_lies(interval, says):
    assert decide(interval, interval, 1.03) == says


def test_a_regression_must_hold_in_the_wider_interval_too():
    assert decide((1.035, 1.06), (1.02, 1.08), 1.03) == "inconclusive"


@pytest.mark.parametrize(
    ("base", "new", "says", "ratio"),
    [(10, 11, "regression", 1.1), (10, 10, "pass", 1.0), (10, 9, "improved", 0.9), (0, 1, "regression", None)],
)
def test_exact_quantities_fail_on_any_growth(base, new, says, ratio):
    verdict = judge_exact("kv_bytes", "here", base, new)
    assert (verdict.verdict, verdict.ratio) == (says, ratio)


@pytest.mark.parametrize(("ratio", "says"), [(1.0, "pass"), (1.10, "regression"), (0.8, "improved")])
@pytest.mark.parametrize("model", noise.MODELS)
def test_verdicts_on_pairs_hold_under_every_noise(model, ratio, says):
    base, new = noise.pairs(np.random.default_rng(1), model, 150, ratio)
    verdict = judge_pairs("prefill_ms", "here", list(base), list(new))
    assert verdict.verdict == says
    assert verdict.ci95 is not None and verdict.ratio is not None
    assert verdict.ci95[0] <= verdict.ratio <= verdict.ci95[1]


@pytest.mark.parametrize(
    ("base", "new", "says"),
    [
        ([1.0] * 5, [1.0] * 5, "5 samples: a verdict needs 6"),
        ([1.0] * 6, [1.0] * 7, "no pairs"),
        ([1.0] * 6, [1.0] * 5 + [float("nan")], "nan"),
        ([1.0] * 6, [0.0] * 6, "which is impossible"),
        ([-1.0] * 6, [1.0] * 6, "which is impossible"),
    ],
)
def test_samples_that_cannot_be_judged_are_refused(base, new, says):
    with pytest.raises(MeasurementError, match=says) as caught:
        judge_pairs("prefill_ms", "here", base, new)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bound", [float("nan"), 0.97, 0.0, float("inf"), 30.0])
def test_a_bound_out_of_range_is_refused(bound):
    with pytest.raises(MeasurementError, match="no bound"):
        judge_pairs("prefill_ms", "here", [1.0] * 6, [1.0] * 6, bound)


def test_two_sides_of_different_sorts_are_refused():
    with pytest.raises(MeasurementError, match="exact and samples"):
        judge("kv_bytes", "here", 5, Samples(((1.0,) * 6,), interleaved=True))


def test_a_verdict_on_samples_that_were_not_interleaved_has_a_note():
    steady = noise.steady(np.random.default_rng(0), 60)
    apart = judge("run_ms", "here", Samples((tuple(steady),), False), Samples((tuple(1.2 * steady),), False))
    assert apart.verdict == "regression"
    assert apart.note is not None and "not interleaved" in apart.note


def processes(generator, count, ratio=1.0, spread=0.02, pairs=8) -> Samples:
    """The ratios of a study in several processes. spread: standard deviation between processes."""
    centres = ratio * np.exp(spread * generator.standard_normal(count))
    return Samples(tuple(tuple(centre * noise.steady(generator, pairs)) for centre in centres), interleaved=True)


def test_one_process_on_a_side_is_inconclusive_below_the_spread_between_processes():
    """Each side is known to 0.3 %, and two processes of the same code differ by more than the ratio of the sides."""
    steady = noise.steady(np.random.default_rng(0), 60)
    base, new, slow = (Samples((tuple(ratio * steady),), True) for ratio in (1.0, 1.08, 1.3))
    found = judge("prefill_over_dense", "here", base, new)
    assert (found.verdict, found.sessions) == ("inconclusive", 1)
    assert found.note == "one process on a side: processes of the same code differ by about 3.0 %"
    assert found.processes_needed is not None and found.processes_needed > 4
    assert judge("prefill_over_dense", "here", base, slow).verdict == "regression"


def test_a_side_of_one_process_gets_the_spread_of_the_other_side():
    generator = np.random.default_rng(1)
    steady, noisy = (processes(generator, 8, spread=spread) for spread in (0.002, 0.1))
    one = Samples((tuple(1.1 * noise.steady(generator, 60)),), True)
    assert judge("prefill_over_dense", "here", steady, one).verdict == "regression"
    assert judge("prefill_over_dense", "here", noisy, one).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("ratio", "allowed"), [(1.0, {"pass", "inconclusive"}), (1.12, {"regression", "inconclusive"})]
)
def test_studies_of_four_processes_are_judged_by_the_spread_between_them(ratio, allowed):
    generator = np.random.default_rng(2)
    found = [judge("x", "here", processes(generator, 4), processes(generator, 4, ratio)) for _ in range(200)]
    wrong = sum(verdict.verdict not in allowed for verdict in found)
    assert wrong <= 3, wrong  # at most 1 % is expected
    assert {verdict.sessions for verdict in found} == {4}


def test_as_many_processes_as_a_verdict_names_decide_it():
    generator = np.random.default_rng(3)
    first = judge("x", "here", processes(generator, 4, spread=0.03), processes(generator, 4, 1.12, spread=0.03))
    assert first.verdict == "inconclusive" and first.processes_needed is not None
    again = (
        processes(generator, first.processes_needed, spread=0.03),
        processes(generator, first.processes_needed, 1.12, spread=0.03),
    )
    assert judge("x", "here", *again).verdict == "regression"


def test_the_spread_of_one_process_does_not_contain_the_interval_within_it():
    """Six samples know their median badly. More processes are needed for the 3 % between processes only."""
    wide = tuple(np.exp(0.1 * np.linspace(-1, 1, 6)))
    found = judge("x", "here", Samples((wide,), True), Samples((wide,), True))
    assert found.note == "one process on a side: processes of the same code differ by about 3.0 %"


def test_more_processes_are_advised_than_were_measured():
    generator = np.random.default_rng(4)
    base = processes(generator, 6, spread=0.04)
    found = [judge("x", "here", base, processes(generator, 9, 1.06, spread=0.04)) for _ in range(20)]
    needed = [verdict.processes_needed for verdict in found if verdict.processes_needed is not None]
    assert needed and min(needed) > 9


def test_slow_downs_of_ten_percent_are_found_and_nothing_else():
    """Four processes a side, which spread by 2 %."""
    generator = np.random.default_rng(5)
    says = {
        ratio: [judge("x", "here", processes(generator, 4), processes(generator, 4, ratio)).verdict for _ in range(600)]
        for ratio in (1.0, 1.1)
    }
    assert {*says[1.0]} <= {"pass", "inconclusive"}
    assert says[1.1].count("regression") > 0.8 * 600


def test_a_ratio_on_the_bound_is_decided_by_no_number_of_processes():
    base, new = (Samples(tuple((ratio * one,) * 6 for one in (0.99, 1.0, 1.01)), True) for ratio in (1.0, 1.03))
    found = judge("x", "here", base, new)
    assert (found.verdict, found.processes_needed) == ("inconclusive", None)


def with_machine(samples: Samples) -> Samples:
    return replace(samples, machine=0.0125)


def test_the_state_of_the_machine_widens_the_interval_of_two_studies():
    generator = np.random.default_rng(6)
    sides = processes(generator, 4, spread=0.003), processes(generator, 4, 1.07, spread=0.003)
    alone = judge("x", "here", *sides)
    aware = judge("x", "here", with_machine(sides[0]), with_machine(sides[1]))
    assert alone.verdict == "regression" and alone.note is None
    assert (aware.verdict, aware.ratio, aware.processes_needed) == ("inconclusive", alone.ratio, None)
    assert aware.note is not None and "time both versions in turn" in aware.note
    assert judge("x", "here", with_machine(sides[0]), processes(generator, 4, 1.2)).verdict == "regression"


def test_intervals_of_studies_that_share_no_state_of_the_machine_hold_their_label():
    """Each study has four processes, which spread by 1 %, and a state of the machine, which spreads by 1.25 %."""
    generator = np.random.default_rng(7)

    def measured() -> Samples:
        state = float(np.exp(0.0125 * generator.standard_normal()))
        return with_machine(processes(generator, 4, state, spread=0.01))

    found = [judge("x", "here", measured(), measured()).ci95 for _ in range(400)]
    holding = sum(ends is not None and ends[0] <= 1 <= ends[1] for ends in found)
    assert holding >= 0.93 * 400


def test_processes_are_advised_where_they_decide_in_spite_of_the_machine():
    generator = np.random.default_rng(8)
    sides = processes(generator, 4, spread=0.06), processes(generator, 4, 1.15, spread=0.06)
    found = judge("x", "here", with_machine(sides[0]), with_machine(sides[1]))
    assert found.verdict == "inconclusive" and found.processes_needed is not None


def test_many_samples_are_judged():
    many = tuple(noise.heavy_tailed(np.random.default_rng(0), 100_000))
    assert judge("run_ms", "here", Samples((many,), False), Samples((many[::-1],), False)).verdict == "pass"


@pytest.mark.parametrize(("new", "says"), [(0.80, "pass"), (0.88, "regression"), (0.70, "improved")])
def test_kept_ratios_are_compared_by_their_intervals(new, says):
    def around(median):
        return Summary(median, (0.99 * median, 1.01 * median), 15)

    verdict = judge("trio_over_random", "here", around(0.8), around(new))
    assert verdict.verdict == says
    assert verdict.ci95 is not None
    assert verdict.ci95[1] / (new / 0.8) == pytest.approx(1 + 0.01 * 2**0.5, rel=1e-3)


def sampler(model, ratio, seed=0, most=192):
    base, new = noise.pairs(np.random.default_rng(seed), model, most, ratio)
    taken = 0

    def sample(n):
        nonlocal taken
        taken += n
        return list(base[taken - n : taken]), list(new[taken - n : taken])

    return sample


def test_sampling_stops_when_the_interval_is_narrow():
    verdict = settle(sampler("steady", 1.0), "prefill_ms", "here")
    assert (verdict.verdict, verdict.stopped) == ("pass", "converged")
    assert verdict.samples < 192


def test_sampling_that_stays_inconclusive_ends_with_a_note():
    verdict = settle(sampler("steady", 1.03, most=96), "prefill_ms", "here", most=96)
    assert (verdict.verdict, verdict.stopped, verdict.samples) == ("inconclusive", "budget", 96)
    assert verdict.note == "still inconclusive after 96 pairs"


def test_sampling_takes_no_more_pairs_than_its_limit():
    assert settle(sampler("bimodal", 1.0), "prefill_ms", "here", most=7).samples == 7
