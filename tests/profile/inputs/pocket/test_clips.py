"""Clips whose truth is known: who is in sight when, and what the questions ask for."""

from itertools import pairwise

import numpy as np

from trio_profile.inputs.pocket.clips import FRAMES, KINDS, LONGEST_PASSING, clip, exam, render
from trio_profile.inputs.pocket.scenes import CELL, COLOURS

SEEDS = range(20)


def test_a_clip_has_things_that_stay_pass_and_move_and_never_two_in_one_cell():
    for seed in SEEDS:
        one = clip(seed)
        assert all(one.things(kind) for kind in KINDS)
        for number in range(FRAMES):
            cells = [thing.cell for thing in one.frame(number)]
            assert len(set(cells)) == len(cells)
        for thing in one.things("passes"):
            seen = [number for number in range(FRAMES) if thing in one.frame(number)]
            assert 1 <= len(seen) <= LONGEST_PASSING and seen == list(range(seen[0], seen[-1] + 1))


def test_what_moves_goes_one_cell_further_in_each_frame():
    for seed in SEEDS:
        content = clip(seed)
        (mover,) = content.things("moves")
        track = content.tracks[content.scene.things.index(mover)]
        assert all((after[0], after[1]) == (before[0], before[1] + 1) for before, after in pairwise(track))


def test_each_frame_shows_its_things_before_a_ground_that_stands_still():
    one = clip(3)
    frames = [np.asarray(frame, dtype=int) for frame in render(one)]
    still = np.ones(frames[0].shape[:2], dtype=bool)
    for frame, number in zip(frames, range(FRAMES), strict=True):
        for thing in one.frame(number):
            row, column = (CELL * at for at in thing.cell)
            still[row : row + CELL, column : column + CELL] = False
            cell = frame[row : row + CELL, column : column + CELL].reshape(-1, 3)
            assert (np.abs(cell - COLOURS[thing.colour]).max(axis=1) < 40).mean() > 0.15
    assert still.any()
    assert np.abs(frames[0] - frames[-1])[still].mean() < 2 * 8  # two draws of noise of 8


def test_a_question_asks_for_a_thing_of_its_kind_and_clips_are_drawn_again_alike():
    questions = exam(6)
    assert [question.kind for question in questions] == [*KINDS, *KINDS]
    first, again = questions[0].picture(), exam(1)[0].picture()
    assert len(first) == FRAMES and [frame.tobytes() for frame in first] == [frame.tobytes() for frame in again]
