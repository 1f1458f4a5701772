"""DyCoke: cases worked by hand."""

import torch

from tests.core import tiny
from tests.core.rules.drawn import at_angles, wave
from trio_core.methods.dycoke import DyCoke, novelty

FRAMES = at_angles([[0, 0], [10, 20], [40, 30], [40, 90], [50, 5], [5, 5]])
"""A group of four frames, and half of the next one."""


def test_each_frame_is_compared_with_the_one_that_its_place_in_the_group_names():
    """The turns are (10, 20), (40, 30) from the first frame, (0, 60), (50, 5) from the first, and (45, 0)."""
    expected = [[1, 0.5], [0.5, 1], [1, 0.5], [0.5, 1], [1, 0.5], [1, 0.5]]
    assert novelty(FRAMES).tolist() == expected


def test_compared_frames_keep_equally_many_and_whole_frames_go_last():
    """A newline and the first frame stay, then the whole frame of the next group, then the best of each other frame."""
    features = torch.cat([FRAMES.view(12, 2), torch.ones(1, 2)])
    numbers = torch.arange(12).view(6, 2).tolist()
    order = [0, 1, 12, 8, 9, 3, 4, 7, 10, 2, 5, 6, 11]
    for budget in range(1, 14):
        view = tiny.video_view(features, numbers, budget)
        assert DyCoke(retention=0.5).select(view).kept[0].tolist() == sorted(order[:budget]), budget


def test_it_keeps_what_the_official_code_keeps():
    """`dycole_ttm` at dd74634 on 8 frames of 6 tokens with a ratio of 0.5, up to its last group, which it cuts less."""
    official = [0, 1, 2, 3, 4, 5, 6, 9, 11, 12, 15, 17, 18, 22, 23]
    features = wave(3, 384).view(48, 8)
    view = tiny.video_view(features, torch.arange(48).view(8, 6).tolist(), 12 + 6 * 3)
    assert [token for token in DyCoke(retention=0.5).select(view).kept[0].tolist() if token < 24] == official
