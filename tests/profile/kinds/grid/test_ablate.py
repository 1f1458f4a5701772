"""Differences between variants, paired question by question."""

import pytest
from scipy.stats import binomtest

from tests.profile import examples
from trio_profile.kinds.grid.ablate import Ablation

known = pytest.fixture(examples.ablation, scope="module")


def test_differences_are_paired_with_the_default(known: Ablation):
    one, two, four = known.groups[0].rows
    assert [row.default for row in (one, two, four)] == [False, False, True]
    assert four.default_difference is None and four.printed == 94.9
    assert one.default_difference is not None and two.default_difference is not None
    assert one.default_difference.value == pytest.approx(-25 / 200)
    assert one.accuracy_difference is not None and one.accuracy_difference.value == pytest.approx(-55 / 200)
    # McNemar's exact test of the same pairs says the same of what is told apart.
    for row, lost, gained in ((one, 30, 5), (two, 4, 4)):
        low, high = row.default_difference.ci95
        assert (not low <= 0 <= high) == (binomtest(lost, lost + gained).pvalue < 0.05)
