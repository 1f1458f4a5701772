import numpy as np
import pytest

from trio_profile.intervals import median, median_interval, relative_half_width


def test_order_statistics_from_the_binomial_table():
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
