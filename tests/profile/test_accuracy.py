"""Accuracies, their paired differences, and from where on a share is kept: against counting and simulation."""

import numpy as np
import pytest

from trio_profile.analysis.accuracy import accuracy, by_kind, by_question, difference, kept
from trio_profile.intervals import share_interval


def test_seeds_are_averaged_question_by_question():
    shares = by_question([True, False, True, True, False, False], 3)
    assert shares.tolist() == [1.0, 0.0, 0.5]
    found = accuracy(shares)
    assert found.value == 0.5 and found.samples == 3
    assert found.ci95 == share_interval(1.5, 3)


def test_kinds_apart():
    found = by_kind(np.array([1.0, 0.0, 1.0, 1.0]), ["a", "a", "b", ""])
    assert {name: (one.value, one.samples) for name, one in found.items()} == {"a": (0.5, 2), "b": (1.0, 1)}


def test_difference_by_hand():
    """Bonett and Price: with 3 questions gained, 8 lost of 20, one added to each: (4 − 9) / 22 and its variance."""
    dense = np.array([1.0] * 8 + [0.0] * 3 + [1.0] * 9)
    pruned = np.array([0.0] * 8 + [1.0] * 3 + [1.0] * 9)
    found = difference(pruned, dense)
    spread = np.sqrt((4 + 9) - 25 / 22) / 22
    assert found.value == pytest.approx(-5 / 20)
    assert found.ci95 == pytest.approx((-5 / 22 - 1.959964 * spread, -5 / 22 + 1.959964 * spread))


def test_no_disagreement_is_no_certainty():
    found = difference(np.ones(50), np.ones(50))
    assert found.value == 0
    assert -0.06 < found.ci95[0] < 0 < found.ci95[1] < 0.06


def test_the_interval_of_a_difference_holds_it():
    """1,000 draws of 100 questions, dense right in 90 %, pruned losing a fifth of those and gaining a tenth."""
    rng = np.random.default_rng(0)
    true = 0.9 * 0.8 + 0.1 * 0.1 - 0.9
    held = 0
    for _ in range(1000):
        dense = (rng.random(100) < 0.9).astype(float)
        pruned = np.where(dense == 1, rng.random(100) < 0.8, rng.random(100) < 0.1).astype(float)
        low, high = difference(pruned, dense).ci95
        held += low <= true <= high
    assert 0.93 <= held / 1000 <= 0.98


def curve(rng: np.random.Generator, shares: list[float], questions: int = 400) -> list[np.ndarray]:
    """Answers at each retention: a question that is kept at one is kept at all above it."""
    hard = rng.random(questions)
    return [(hard < share).astype(float) for share in shares]


def test_where_a_share_is_kept_lies_in_its_interval():
    pruned = curve(np.random.default_rng(1), [0.3, 0.6, 0.9, 1.0])
    found = kept([0.1, 0.3, 0.5, 0.9], pruned, np.ones(400), 0.9, [4.0, 2.0, 1.5, 1.0])
    assert found.status == "crossing" and found.retention is not None and found.ci95 is not None
    assert found.ci95[0] <= 0.5 <= found.ci95[1] + 0.02
    assert found.ci95[0] <= found.retention <= found.ci95[1]
    assert found.prefill_speedup == pytest.approx(
        1 / np.interp(found.retention, [0.1, 0.3, 0.5, 0.9], [0.25, 0.5, 2 / 3, 1])
    )


def test_a_share_that_is_always_kept_or_never():
    rng, dense = np.random.default_rng(2), np.ones(400)
    assert kept([0.1, 0.9], curve(rng, [1.0, 1.0]), dense, 0.95, [2.0, 1.0]).status == "always"
    assert kept([0.1, 0.9], curve(rng, [0.2, 0.5]), dense, 0.95, [2.0, 1.0]).status == "never"
    assert kept([0.1, 0.9], curve(rng, [0.2, 0.5]), np.zeros(400), 0.95, [2.0, 1.0]).status == "inconclusive"


def test_few_questions_leave_it_open():
    dense = np.ones(10)
    pruned = [np.array([1.0] * 9 + [0.0])] * 2
    assert kept([0.1, 0.9], pruned, dense, 0.95, [2.0, 1.0]).status == "inconclusive"
