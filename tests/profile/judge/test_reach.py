"""How many questions exclude which loss."""

from math import sqrt

import numpy as np
import pytest

from trio_profile.judge.reach import LOOKS, least_excluded, level_of_loss, needed, next_number, reach_of
from trio_profile.stats.intervals import loss_interval


def test_how_many_questions_exclude_which_loss_is_said_before_they_are_asked():
    """If none of n is lost, a share p is excluded at the level a if (1 - p) ** n < (1 - a) / 2."""
    assert reach_of(3, 1) == "3 questions cannot exclude any loss"
    assert reach_of(0, 1) == "without questions, nothing is said of answers"
    assert reach_of(24, 1, is_first=True).startswith("the first 24 questions exclude a loss of ")
    assert reach_of(24, 1, is_first=True).endswith("; more may be asked of the cells that may be chosen")
    for cells in (1, 10):
        least = needed(cells, 0.02)
        assert 0.98**least < 0.025 / cells / LOOKS <= 0.98 ** (least - 1)
        assert reach_of(least, cells).endswith(" exclude a loss of 2 points at best")
        assert least_excluded(least, cells) <= 0.02 < least_excluded(least - 1, cells)


def test_first_most_losses_are_shown_and_then_as_many_are_asked_as_decide():
    least = needed(10, 0.02)
    assert next_number([24], 10, 0.02) == 96
    assert next_number([24, 96], 10, 0.02) == least
    assert next_number([24, 96, least], 10, 0.02) == 2 * least
    assert next_number([24, 96, least, 2 * least], 10, 0.02) is None, "no third look can decide"


@pytest.mark.parametrize("cells", [1, 10])
def test_a_loss_above_what_is_tolerated_is_seldom_excluded_although_the_answers_are_looked_at_again(cells: int):
    """Simulated at the edge: 2 % of the answers are lost. Without the correction it was 10 % of the studies."""
    looks, draw = [24], np.random.default_rng(0)
    while (number := next_number(looks, cells, 0.02)) is not None:
        looks.append(number)
    level = level_of_loss(cells)

    def excludes(lost: np.ndarray) -> bool:
        return any(loss_interval(lost[:number], (), level)[1] <= 0.02 for number in looks)

    wrong = sum(excludes((draw.random(looks[-1]) < 0.02).astype(float)) for _ in range(2000))
    assert wrong <= 2000 * 0.025 / cells + 3 * sqrt(2000 * 0.025 / cells)
