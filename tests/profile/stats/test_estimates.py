import numpy as np
import pytest

from trio_profile.records.estimate import MeasuredShare, Milliseconds, Ratio
from trio_profile.stats.estimates import median_of, ratio_of
from trio_profile.stats.intervals import ratio_interval

VALUES = tuple(np.random.default_rng(0).lognormal(0, 0.1, 15).tolist())


def test_a_median_has_the_interval_of_its_session():
    found = median_of(Milliseconds, [VALUES], "converged")
    assert isinstance(found, Milliseconds)
    assert (found.value, found.ci95) == (sorted(VALUES)[7], ratio_interval([VALUES]))
    assert (found.samples, found.sessions, found.stopped) == (15, 1, "converged")


def test_the_median_of_several_sessions_is_the_geometric_mean_of_their_medians():
    groups = [[1.0, 2.0, 9.0], [8.0, 8.0], [4.0]]
    found = ratio_of(groups, "budget")
    assert isinstance(found, Ratio)
    assert found.value == pytest.approx(4.0) and found.ci95 == ratio_interval(groups)
    assert found.value**2 == pytest.approx(found.ci95[0] * found.ci95[1])
    assert (found.samples, found.sessions) == (6, 3)


def test_medians_that_are_not_positive_have_an_arithmetic_mean():
    found = median_of(MeasuredShare, [[0.2], [-0.1], [0.2]], "budget")
    assert found.value == pytest.approx(0.1) and sum(found.ci95) / 2 == pytest.approx(0.1)
