"""What takes away the claim about answers."""

import pytest

from trio_profile.judge.evidence import enough, least_excluded, reach_of, why_no_answers
from trio_profile.records.estimate import Accuracy


@pytest.mark.parametrize(
    ("right", "interval", "chance", "reason"),
    [
        (0.0, (0.0, 0.03), None, "answers none of 120 questions right"),
        (0.03, (0.01, 0.07), None, "so it has hardly an answer to lose"),
        (0.3, (0.22, 0.39), 0.25, "so it may be guessing"),
        (0.3, (0.22, 0.39), 0.1, ""),
    ],
)
def test_dense_is_right_often_enough_to_lose_something_and_above_chance(right, interval, chance, reason):
    found = why_no_answers(Accuracy(value=right, ci95=interval, samples=120), chance)
    assert reason in found and bool(reason) == bool(found)


def test_how_many_questions_exclude_which_loss_is_said_before_they_are_asked():
    """By the interval of Bonett and Price with no loss: about z · √2 / (n + 2)."""
    assert reach_of(3, 1) == "3 questions cannot exclude any loss"
    assert reach_of(60, 1) == "60 questions exclude a loss of 4.48 points at best"
    assert reach_of(24, 10) == "24 questions exclude a loss of 15.3 points at best"
    assert reach_of(0, 1) == "without questions, nothing is said of answers"
    for cells in (1, 10):
        least = enough(cells, 0.02)
        assert least_excluded(least, cells) <= 0.02 < least_excluded(least - 1, cells)
