import numpy as np
import pytest

from trio_profile.records.estimate import Accuracy, MeasuredShare, Milliseconds, Ratio
from trio_profile.stats.estimates import difference_between, median_of, ratio_of
from trio_profile.stats.intervals import ratio_interval, share_interval

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


def test_the_difference_of_two_shares_is_newcombes():
    # Newcombe 1998, table II, method 10: 56/70 − 48/80 is 0.0524 … 0.3339; 9/10 − 3/10 is 0.1705 … 0.8090.
    for hits, of, other_hits, other_of, ends in ((56, 70, 48, 80, (0.0524, 0.3339)), (9, 10, 3, 10, (0.1705, 0.8090))):
        first, other = (_accuracy(other_hits, other_of), _accuracy(hits, of))
        found = difference_between(first, other)
        assert found.value == pytest.approx(hits / of - other_hits / other_of)
        assert found.ci95 == pytest.approx(ends, abs=5e-5)
        assert found.samples == min(of, other_of)


def _accuracy(hits: int, of: int) -> Accuracy:
    shares = [1.0] * hits + [0.0] * (of - hits)
    return Accuracy(value=hits / of, ci95=share_interval(shares), samples=of)
