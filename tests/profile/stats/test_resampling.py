"""Samples that belong together are drawn together."""

import numpy as np
import pytest

from trio_profile.stats.resampling import (
    are_alone,
    cluster_spread,
    draws,
    percentile_interval,
)


def test_draws_are_indices_with_replacement_that_a_seed_fixes():
    drawn = draws(5, 200, seed=3)
    assert drawn.shape == (200, 5)
    assert set(drawn.ravel().tolist()) == set(range(5))
    assert any(len(set(row)) < 5 for row in drawn.tolist())
    assert np.array_equal(drawn, draws(5, 200, seed=3)) and not np.array_equal(drawn, draws(5, 200, seed=4))


def test_the_interval_contains_the_middle_of_the_values():
    assert percentile_interval(np.arange(1001.0)) == pytest.approx((25.0, 975.0))


def test_questions_of_one_picture_are_drawn_together():
    clusters = (7, 3, 3, 7, 7, 5)
    drawn = draws(6, 500, seed=1, clusters=clusters)
    assert drawn.shape == (500, 6)
    # A picture is drawn whole unless the row ends within it: its questions then follow each other.
    following = {0: 3, 3: 4, 1: 2}
    for row in drawn.tolist():
        assert all(row[i + 1] == following[question] for i, question in enumerate(row[:-1]) if question in following)
    assert {row[0] for row in drawn.tolist()} == {0, 1, 5}


def test_clusters_of_one_sample_are_drawn_as_single_samples():
    assert are_alone(()) and are_alone((3, 1, 2)) and not are_alone((1, 2, 1))
    assert np.array_equal(draws(3, 50, clusters=(3, 1, 2)), draws(3, 50))


def test_the_spread_over_clusters_is_the_one_worked_out_by_hand():
    values = np.array([1.0, 1.0, 0.0, 0.0])
    assert cluster_spread(values, ()) == pytest.approx(1.0)
    assert cluster_spread(values, (4, 4, 9, 9)) == pytest.approx(np.sqrt(2))
    assert cluster_spread(values, (4, 9, 4, 9)) == pytest.approx(0.0)
