"""Half the width of the interval of a score, from how much each question moves it."""

import numpy as np
import pytest

from trio_profile.stats.effects import Effects, reach
from trio_profile.stats.intervals import difference_interval
from trio_profile.stats.resampling import draws


def test_the_reach_of_a_mean_is_the_one_of_bonett_and_price():
    values = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], p=[0.1, 0.85, 0.05], size=400)
    low, high = difference_interval(values)
    found = reach([Effects((values - values.mean()) / 400, 1 / 400, range(400))])
    assert found == pytest.approx((high - low) / 2, rel=0.01)


def test_a_score_that_no_question_moves_still_has_a_width():
    assert reach([Effects(np.zeros(10), 0.1, range(10))]) == pytest.approx(1.959964 * np.sqrt(2) * 0.1)


def test_the_reach_is_the_spread_of_resampled_pictures():
    generator = np.random.default_rng(1)
    pictures = np.repeat(np.arange(200), 3)
    scores = np.clip(np.repeat(generator.random(200), 3) + 0.2 * generator.normal(size=600), 0, 1)
    means = scores[draws(600, 4000, 0, clusters=pictures)].mean(axis=1)
    found = reach([Effects((scores - scores.mean()) / 600, 1e-9, pictures)])
    assert found == pytest.approx(1.96 * means.std(), rel=0.05)


def test_two_scores_on_the_same_pictures_are_not_independent():
    each = np.random.default_rng(2).normal(size=100)
    each = (each - each.mean()) / 100
    alone, other = Effects(each, 1e-9, range(100)), Effects(each, 1e-9, range(100, 200))
    assert reach([alone, alone]) == pytest.approx(2 * reach([alone]), rel=0.02)
    assert reach([alone, other]) == pytest.approx(np.sqrt(2) * reach([alone]), rel=0.02)
