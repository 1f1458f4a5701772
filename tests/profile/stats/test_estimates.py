import numpy as np

from trio_profile.records.estimate import Milliseconds, Ratio
from trio_profile.stats.estimates import median_of, ratio_of
from trio_profile.stats.intervals import median_interval, ratio_interval

VALUES = tuple(np.random.default_rng(0).lognormal(0, 0.1, 15).tolist())


def test_a_median_has_the_interval_of_the_sign_test():
    found = median_of(Milliseconds, VALUES, "converged")
    assert isinstance(found, Milliseconds)
    assert (found.value, found.ci95, found.samples) == (sorted(VALUES)[7], median_interval(VALUES), 15)


def test_a_ratio_has_the_interval_of_paired_ratios():
    found = ratio_of(VALUES, "budget")
    assert isinstance(found, Ratio)
    assert (found.value, found.ci95, found.stopped) == (sorted(VALUES)[7], ratio_interval(VALUES), "budget")
