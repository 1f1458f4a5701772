"""What takes away the claim about answers."""

import pytest

from trio_profile.judge.evidence import why_no_answers
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
