import numpy as np
import pytest

from trio_profile.errors import MeasurementError
from trio_profile.records.estimate import Accuracy, Milliseconds, Ratio
from trio_profile.stats.estimates import difference_between, median_of, quotient_of
from trio_profile.stats.intervals import share_interval
from trio_profile.stats.two_way import centre_of


def test_the_median_of_several_processes_is_the_geometric_mean_of_their_medians():
    groups = [[1.0, 2.0, 9.0], [8.0, 8.0], [4.0]]
    found = median_of(Ratio, groups, "budget")
    assert isinstance(found, Ratio) and found.value == pytest.approx(4.0)
    assert found.ci95 == centre_of(groups).interval() and found.value**2 == pytest.approx(np.prod(found.ci95))
    assert (found.samples, found.sessions, found.stopped) == (6, 3, "budget")


def test_a_time_of_zero_has_no_logarithm_so_all_samples_have_one_median():
    found = median_of(Milliseconds, [[0.0, 0.2], [0.3, 0.1], [0.4, 0.5]], "converged")
    assert (found.value, found.ci95) == (pytest.approx(0.25), (0.0, 0.5))
    assert (found.samples, found.sessions) == (6, 3)
    for groups in ([], [[1.0], []], [[1.0, float("nan")]]):
        with pytest.raises(MeasurementError, match="measure again"):
            median_of(Milliseconds, groups, "budget")


def test_the_quotient_of_two_ratios_adds_their_distances_in_quadrature():
    base, new = (
        Ratio(value=value, ci95=(value / wide, value * wide), samples=n, sessions=n, stopped="budget")
        for value, wide, n in ((2.0, np.exp(0.03), 8), (3.0, np.exp(0.04), 6))
    )
    found = quotient_of(base, new)
    assert (found.value, found.samples, found.sessions) == (1.5, 6, 6)
    assert found.ci95 == pytest.approx((1.5 * np.exp(-0.05), 1.5 * np.exp(0.05)))


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
