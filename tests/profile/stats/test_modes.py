from math import ceil

import numpy as np
import pytest
from trio_profile.stats.modes import two_modes

from trio_profile.stats.noise import steady


def test_two_modes_are_told_from_one_by_the_deviation_that_cutting_leaves():
    draw = np.random.default_rng(0)
    assert two_modes(np.r_[steady(draw, 30), 1.2 * steady(draw, 30)])[0] < 0.15
    assert two_modes(np.r_[steady(draw, 30), 1.2 * steady(draw, 30)])[1] == pytest.approx(0.5)
    assert two_modes(steady(draw, 60))[0] > 0.45
    assert two_modes(np.ones(30)) == (1.0, 0.0)


def by_hand(values: np.ndarray) -> tuple[float, float]:
    """The plain definition: each cut, each side's deviation from its own median."""

    def deviation(side: np.ndarray) -> float:
        return float(np.abs(side - np.median(side)).sum())

    ordered, n = np.clip(np.sort(values), *np.quantile(values, [0.05, 0.95])), len(values)
    cuts = range(ceil(0.15 * n), n - ceil(0.15 * n) + 1)
    left = {cut: deviation(ordered[:cut]) + deviation(ordered[cut:]) for cut in cuts}
    best = min(left, key=left.__getitem__)
    return left[best] / deviation(ordered), 1 - best / n


@pytest.mark.parametrize("n", [20, 21, 57, 192])
def test_two_modes_is_what_its_definition_says(n: int):
    draw = np.random.default_rng(n)
    for values in (
        steady(draw, n),
        np.r_[steady(draw, n // 2), 1.2 * steady(draw, n - n // 2)],
        draw.lognormal(size=n),
    ):
        assert two_modes(values) == pytest.approx(by_hand(values), rel=1e-9)
