"""Verdicts from intervals, from pairs under every noise, and the sampling that ends in one."""

import numpy as np
import pytest

from trio_profile.errors import MeasurementError
from trio_profile.gate.verdict import Samples, Summary, decide, judge, judge_exact, judge_pairs, settle
from trio_profile.stats import noise


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
        judge("kv_bytes", "here", 5, Samples((1.0,) * 6, interleaved=True))


def test_a_verdict_on_samples_that_were_not_interleaved_has_a_note():
    steady = noise.steady(np.random.default_rng(0), 60)
    apart = judge("run_ms", "here", Samples(tuple(steady), False), Samples(tuple(1.2 * steady), False))
    assert apart.verdict == "regression"
    assert apart.note is not None and "not interleaved" in apart.note
    assert judge("x", "here", Samples(tuple(steady), True), Samples(tuple(steady), True)).note is None


def test_many_samples_are_judged_in_stretches():
    many = tuple(noise.heavy_tailed(np.random.default_rng(0), 100_000))
    assert judge("run_ms", "here", Samples(many, False), Samples(many[::-1], False)).verdict == "pass"


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
