import numpy as np
import pytest
from scipy.stats import binomtest

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import (
    autocorrelation,
    block_length,
    median,
    median_interval,
    ratio_interval,
    relative_half_width,
    share_interval,
)
from trio_profile.stats.noise import MODELS, pairs


def test_the_interval_of_a_share_equals_scipys():
    for count, samples in ((0, 5), (3, 8), (24, 24), (1, 1)):
        oracle = binomtest(count, samples).proportion_ci(method="wilson")
        assert share_interval(count, samples) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
    with pytest.raises(MeasurementError, match="0 samples"):
        share_interval(0, 0)


def test_the_interval_of_a_median_follows_the_binomial_table():
    # Tabulated for 95 %: n = 6 → (1, 6), 10 → (2, 9), 20 → (6, 15), 100 → (40, 61); 1-based.
    for n, low, high in ((6, 1, 6), (10, 2, 9), (20, 6, 15), (100, 40, 61)):
        assert median_interval(range(1, n + 1)) == (low, high)


def test_too_few_samples_give_their_range():
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval([2.0]) == (2.0, 2.0)


def test_half_width_is_relative_to_the_median():
    values = [9.0, 10.0, 10.0, 10.0, 10.0, 11.0]
    assert median(values) == 10
    assert relative_half_width(values) == pytest.approx(0.1)


@pytest.mark.parametrize("n", [6, 15, 40])
def test_the_interval_holds_the_median_of_skewed_noise(n: int):
    draw = np.random.default_rng(0)
    truth = np.exp(0.0)
    held = 0
    for _ in range(2000):
        low, high = median_interval(draw.lognormal(0, 0.5, n))
        held += low <= truth <= high
    assert held / 2000 >= 0.94


def test_ratio_interval_holds_the_median_and_ignores_the_scale():
    ratios = np.random.default_rng(0).lognormal(0, 0.02, 40)
    low, high = ratio_interval(ratios)
    assert ratios.min() < low < np.median(ratios) < high < ratios.max()
    assert ratio_interval(3 * ratios) == pytest.approx((3 * low, 3 * high))
    assert ratio_interval(ratios) == (low, high)
    wider = ratio_interval(ratios, confidence=0.99)
    assert wider[0] < low and high < wider[1]


@pytest.mark.parametrize("n", [1, 2, 5, 6, 8, 11])
def test_few_ratios_have_at_least_the_interval_of_the_sign_test(n: int):
    for seed in range(50):
        ratios = np.random.default_rng(seed).lognormal(0, 0.02, n)
        low, high = ratio_interval(ratios)
        exact = median_interval(ratios.tolist())
        assert low <= exact[0] and exact[1] <= high


def test_ratios_that_do_not_vary_have_no_width():
    assert ratio_interval([1.25] * 30) == (1.25, 1.25)


@pytest.mark.parametrize("ratios", [[], [1.0, float("nan"), 1.0], [1.0] * 20 + [float("inf")]])
def test_samples_without_an_interval_are_refused(ratios):
    with pytest.raises(MeasurementError, match="measure again"):
        ratio_interval(ratios)


def test_autocorrelation_widens_and_lengthens_blocks():
    draw = np.random.default_rng(2)
    sticky = np.repeat(draw.normal(1, 0.01, 15), 4)
    shuffled = draw.permutation(sticky)
    assert autocorrelation(sticky) > 0.6 > 0.3 > abs(autocorrelation(shuffled))
    assert autocorrelation([2.0, 2.0, 2.0]) == 0
    assert block_length(sticky) >= 5 > block_length(shuffled)
    assert block_length([1.0, 2.0] * 20) == 1
    assert np.diff(ratio_interval(sticky))[0] > 1.4 * np.diff(ratio_interval(shuffled))[0]


@pytest.mark.parametrize("model", MODELS)
def test_ratio_intervals_hold_the_truth_as_often_as_they_say(model: str):
    # 400 studies know a coverage of 95 % to ±2.1 %; 93 to 97 % at full size is tests/benchmarks/test_coverage.py's.
    for n in (20, 60):
        held = sum(low <= 1.05 <= high for low, high in _intervals(model, n, studies=400))
        assert held / 400 >= 0.93 - 0.021
        # The recorded ratios alternate a little (lag-1 correlation of signs −0.17), which is not believed.
        assert held / 400 <= (0.995 if model == "recorded" else 0.97 + 0.018)


def _intervals(model: str, n: int, studies: int):
    draw = np.random.default_rng([n, 11])
    for _ in range(studies):
        base, new = pairs(draw, model, n, 1.05)
        yield ratio_interval(new / base)
