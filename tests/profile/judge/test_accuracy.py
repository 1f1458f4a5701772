"""Accuracies, their paired differences, and from where on a share is kept: against counting and simulation."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from trio_profile.judge.accuracy import (
    _first_indices,
    accuracy,
    accuracy_kept,
    by_kind,
    by_question,
    difference,
)
from trio_profile.stats.intervals import share_interval


def test_seeds_are_averaged_question_by_question():
    shares = by_question([True, False, True, True, False, False], 3)
    assert shares.tolist() == [1.0, 0.0, 0.5]
    found = accuracy(shares)
    assert found.value == 0.5 and found.samples == 3
    assert found.ci95 == share_interval([1.0, 0.0, 0.5])


def test_questions_of_each_kind_have_their_own_accuracy():
    found = by_kind(np.array([1.0, 0.0, 1.0, 1.0]), ["a", "a", "b", ""])
    assert {name: (one.value, one.samples) for name, one in found.items()} == {"a": (0.5, 2), "b": (1.0, 1)}


def test_questions_about_one_picture_widen_every_interval():
    shares, others = np.array([1.0, 1.0, 0.0, 0.0] * 25), np.array([1.0, 1.0, 1.0, 1.0] * 25)
    pictures = tuple(number // 2 for number in range(100))
    for found, alone in (
        (accuracy(shares, pictures), accuracy(shares)),
        (difference(shares, others, pictures), difference(shares, others)),
        (by_kind(shares, ["a"] * 100, pictures)["a"], by_kind(shares, ["a"] * 100)["a"]),
    ):
        assert found.value == alone.value and found.samples == 100
        assert found.ci95[0] < alone.ci95[0] and alone.ci95[1] < found.ci95[1]


def test_the_retention_that_keeps_a_share_is_less_certain_if_questions_share_pictures():
    pruned = [np.array([1.0] * n + [0.0] * (400 - n)) for n in (120, 240, 368, 400)]
    wide, alone = (
        accuracy_kept([0.1, 0.3, 0.5, 0.9], pruned, np.ones(400), 0.9, pictures)
        for pictures in (tuple(number // 40 for number in range(400)), ())
    )
    assert wide.retention == alone.retention == 0.5
    assert wide.ci95 is not None and alone.ci95 is not None
    assert wide.ci95[0] < alone.ci95[0]


def test_a_difference_of_accuracies_is_the_one_worked_out_by_hand():
    """Bonett and Price: with 3 questions gained, 8 lost of 20, one added to each: (4 − 9) / 22 and its variance."""
    dense = np.array([1.0] * 8 + [0.0] * 3 + [1.0] * 9)
    pruned = np.array([0.0] * 8 + [1.0] * 3 + [1.0] * 9)
    found = difference(pruned, dense)
    spread = np.sqrt((4 + 9) - 25 / 22) / 22
    assert found.value == pytest.approx(-5 / 20)
    assert found.ci95 == pytest.approx((-5 / 22 - 1.959964 * spread, -5 / 22 + 1.959964 * spread))


def curve(rng: np.random.Generator, shares: list[float], questions: int = 400) -> list[np.ndarray]:
    """Answers at each retention: a question that is kept at one is kept at all above it."""
    hard = rng.random(questions)
    return [(hard < share).astype(float) for share in shares]


def test_the_retention_that_keeps_a_share_is_the_one_worked_out_by_hand():
    """90 % of 400 is asked for: 240 answers at 0.3, 368 at 0.5."""
    pruned = [np.array([1.0] * n + [0.0] * (400 - n)) for n in (120, 240, 368, 400)]
    found = accuracy_kept([0.1, 0.3, 0.5, 0.9], pruned, np.ones(400), 0.9)
    assert (found.status, found.retention) == ("crossing", 0.5)
    assert found.ci95 == (0.5, 0.9)  # 368 is 2 % above 360, and their difference has a standard error of 1.4 %
    shuffled = accuracy_kept([0.5, 0.9, 0.1, 0.3], [pruned[i] for i in (2, 3, 0, 1)], np.ones(400), 0.9)
    assert shuffled == found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("questions", "share", "true"), [(200, 0.99, 0.22), (200, 0.97, 0.22), (200, 0.85, 0.11), (50, 0.97, 0.22)]
)
def test_the_interval_of_that_retention_contains_the_truth_as_often_as_it_says(
    questions: int, share: float, true: float
):
    """100 draws of questions; dense answers all, and pruning 86, 99.5 and 100 % of them."""
    held = 0
    for trial in range(100):
        pruned = curve(np.random.default_rng(trial), [0.86, 0.995, 1.0], questions)
        found = accuracy_kept([0.11, 0.22, 0.33], pruned, np.ones(questions), share)
        if found.status == "crossing" and found.ci95 is not None:
            held += found.ci95[0] <= true <= found.ci95[1]
        else:
            held += found.status == "inconclusive" or (found.status == "always" and true == 0.11)
    assert held / 100 >= 0.93


def test_equal_answers_everywhere_still_have_an_interval():
    """Of 200 questions none is lost, which says nothing of one in a hundred."""
    pruned = [np.array([1.0] * 172 + [0.0] * 28), np.ones(200), np.ones(200)]
    by_share = {share: accuracy_kept([0.11, 0.22, 0.33], pruned, np.ones(200), share) for share in (0.99, 0.95)}
    assert by_share[0.99].ci95 == (0.22, 1.0)
    assert by_share[0.95].ci95 == (0.22, 0.22)


def test_a_share_that_no_retention_keeps_is_reported_as_not_kept():
    pruned = [np.array([1.0] * n + [0.0] * (200 - n)) for n in (100, 197)]
    assert accuracy_kept([0.11, 0.99], pruned, np.ones(200), 0.99).status == "inconclusive"


def test_a_share_is_always_kept_or_never_and_few_right_answers_are_inconclusive():
    rng, dense = np.random.default_rng(2), np.ones(400)
    assert accuracy_kept([0.1, 0.9], curve(rng, [1.0, 1.0]), dense, 0.95).status == "always"
    assert accuracy_kept([0.1, 0.9], curve(rng, [0.2, 0.5]), dense, 0.95).status == "never"
    for answers, few in ((curve(rng, [0.2, 0.5]), np.zeros(400)), ([np.ones(10)] * 2, np.ones(10))):
        assert accuracy_kept([0.1, 0.9], answers, few, 0.95).status == "inconclusive"


def test_the_fit_reaches_a_level_where_the_sum_of_what_is_missing_is_least():
    """Against isotonic regression itself, on random accuracies of which many are equal."""
    draw = np.random.default_rng(5)
    accuracies, dense = draw.integers(0, 6, size=(7, 400)) / 5, draw.integers(0, 6, size=400) / 5
    fits = np.array([isotonic_regression(column).x for column in accuracies.T])
    for share in (0.5, 0.9, 1.0):
        reached = [np.flatnonzero(fit >= share * most - 1e-9) for fit, most in zip(fits, dense, strict=True)]
        wanted = [int(found[0]) if most and len(found) else 7 for found, most in zip(reached, dense, strict=True)]
        assert _first_indices(accuracies, dense, share).tolist() == wanted
