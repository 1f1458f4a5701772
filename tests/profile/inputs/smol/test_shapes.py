from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from tests.core.tiny import fast_first
from trio_profile.inputs.smol.shapes import COLOURS, FIRST_TRAINING, KINDS, SIDE, ask, exam, render, scene

GUESSED = {"colour": 1 / 8, "shape": 1 / 5, "pair": 1 / 2, "higher": 1 / 2}
"""The share of right answers of who does not see the picture, as the model card states it."""


def place(picture: np.ndarray, colour: str) -> tuple[float, float]:
    """Row and column of the middle of the lines with at least 4 pixels of a colour: a photograph has a few of black."""
    shown = (picture == np.array(COLOURS[colour])).all(-1)
    lines = [np.where(shown.sum(axis) >= 4)[0] for axis in (1, 0)]
    return (lines[0].min() + lines[0].max()) / 2, (lines[1].min() + lines[1].max()) / 2


def test_things_of_a_picture_differ_and_do_not_touch():
    for seed in [*range(200), *range(FIRST_TRAINING, FIRST_TRAINING + 200)]:
        things = scene(seed).things
        assert 2 <= len(things) <= 3
        assert len({thing.colour for thing in things}) == len({thing.shape for thing in things}) == len(things)
        for a, b in combinations(things, 2):
            across, down = abs(a.left + a.size / 2 - b.left - b.size / 2), abs(a.middle - b.middle)
            assert max(across, down) > (a.size + b.size) / 2
        assert all(min(t.left, t.top) >= 0 and max(t.left, t.top) + t.size <= SIDE for t in things)


@pytest.mark.parametrize("seed", fast_first(range(60), *range(6)))
def test_a_picture_shows_the_things_where_the_scene_says(seed: int):
    content = scene(seed)
    picture = np.asarray(render(content))
    assert picture.shape == (SIDE, SIDE, 3)
    for thing in content.things:
        row, column = place(picture, thing.colour)
        assert abs(column - (thing.left + thing.size / 2)) < 0.09 * thing.size
        assert abs(row - thing.middle) < 0.09 * thing.size  # a star reaches less far down than up


@pytest.mark.parametrize("seed", range(20))
def test_answers_follow_from_the_picture(seed: int):
    content = scene(seed)
    named = {thing.shape: thing.colour for thing in content.things}
    picture = np.asarray(render(content))
    for kind in KINDS:
        asked = ask(content, kind, np.random.default_rng(seed))
        words = asked.text.rstrip("?").replace(",", "").split()
        if kind == "colour":
            assert named[words[-1]] == asked.answer
        elif kind == "shape":
            assert named[asked.answer] == words[-1]
        elif kind == "pair":
            assert (named[words[-1]] == words[-2]) == (asked.answer == "yes")
        else:
            first, second = words[-4], words[-1]
            is_first = place(picture, named[first])[0] < place(picture, named[second])[0]
            assert asked.answer == (first if is_first else second)


def test_who_does_not_see_the_picture_is_right_as_often_as_stated():
    """The best answer to each wording, known from 4,000 other questions, on the 2,000 of the exam."""
    asked = [ask(scene(seed), KINDS[seed % 4], np.random.default_rng(seed)) for seed in range(10_000, 14_000)]
    seen: dict[str, Counter[str]] = {}
    for question in asked:
        seen.setdefault(question.text, Counter())[question.answer] += 1
    right: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for question in exam(2000):
        best = seen.get(question.text, Counter({"": 1})).most_common(1)[0][0]
        right[question.kind].append(question.is_answered_by(best))
    for kind, shares in right.items():
        assert abs(np.mean(shares) - GUESSED[kind]) < 0.06, kind


def test_an_exam_shows_each_picture_once_and_none_of_the_training():
    questions = exam(400)
    assert Counter(question.kind for question in questions) == dict.fromkeys(KINDS, 100)
    assert all(scene(number).is_exam for number in range(400))
    assert not scene(FIRST_TRAINING).is_exam
    assert len({scene(number).things for number in range(400)}) == 400
