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
