import numpy as np
import pytest

from trio_profile.errors import MeasurementError
from trio_profile.records.estimate import Milliseconds, Ratio
from trio_profile.stats.estimates import median_of
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
