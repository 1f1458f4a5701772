"""The percentile bootstrap."""

import numpy as np
import pytest

from trio_profile.stats.resampling import draws, percentile_interval


def test_draws_are_indices_with_replacement_that_a_seed_fixes():
    drawn = draws(5, 200, seed=3)
    assert drawn.shape == (200, 5)
    assert set(drawn.ravel().tolist()) == set(range(5))
    assert any(len(set(row)) < 5 for row in drawn.tolist())
    assert np.array_equal(drawn, draws(5, 200, seed=3)) and not np.array_equal(drawn, draws(5, 200, seed=4))


def test_several_calls_can_share_a_generator():
    generator = np.random.default_rng(0)
    first, second = draws(7, 3, generator), draws(7, 3, generator)
    assert np.array_equal(first, draws(7, 3, seed=0)) and not np.array_equal(first, second)


def test_the_interval_contains_the_middle_of_the_values():
    assert percentile_interval(np.arange(1001.0)) == pytest.approx((25.0, 975.0))


def test_an_interval_by_inverted_cdf_ends_at_values():
    low, high = percentile_interval([0.1, 0.2, 0.5, 1.0], method="inverted_cdf")
    assert (low, high) == (0.1, 1.0)
