"""FastVID: cases worked by hand, and a selection of its official code."""

import pytest
import torch

from tests.core.rules.drawn import wave
from trio_core.methods.fastvid import condense, frame_budgets, segment_lengths


@pytest.mark.parametrize(
    ("segments", "similarity", "lengths"),
    [
        (1, -1.0, [5]),
        (2, -1.0, [2, 3]),
        (3, -1.0, [2, 2, 1]),
        (9, -1.0, [1] * 5),
        (1, 0.8, [2, 2, 1]),
        (2, 0.8, [2, 2, 1]),
    ],
)
def test_a_video_is_cut_where_its_frames_are_least_alike(segments, similarity, lengths):
    """The cosines are 1, 0, 1 and √½."""
    frames = torch.tensor([[1.0, 0], [2, 0], [0, 1], [0, 3], [1, 1]])[:, None]
    assert segment_lengths(frames, segments, similarity) == lengths
    assert segment_lengths(frames[:1], segments, similarity) == [1]


def test_anchors_stand_in_the_last_frame_and_in_every_fourth_before_it():
    assert frame_budgets(20, 5, 10, 0.4, 4) == ([3, 3, 2, 2, 2], [4, 0, 0, 0, 4])
    assert frame_budgets(3, 1, 10, 0.4, 4) == ([2], [1])
    assert frame_budgets(3, 3, 10, 0.0, 4) == ([1, 1, 1], [0, 0, 0])
    assert frame_budgets(0, 2, 10, 0.4, 4) == ([0, 0], [0, 0])


def test_what_a_full_frame_cannot_take_goes_to_salient_tokens():
    """Seven anchors and eleven salient tokens. The last frame has five salient ones, and room for five anchors."""
    assert frame_budgets(18, 2, 10, 0.4, 4) == ([8, 5], [0, 5])


SEGMENT = torch.tensor([[[9.0, 9], [1, 0], [0, 1]], [[8, 8], [2, 2], [2, 5]]])
ATTENTION = torch.tensor([[0.5, 0.1, 0.2], [0.5, 0.1, 0.2]])


@pytest.mark.parametrize(("weight", "anchor"), [(0.6, [1.6, 2.0]), (0.0, [1.25, 2.0]), (1.0, [2.0, 2.0])])
def test_tokens_of_the_whole_segment_join_the_anchor(weight, anchor):
    """The first tokens are salient. Tokens 4 and 5 are equally dense. The mean of the tokens 1, 2 and 5 is (1, 2)."""
    kept, states = condense(SEGMENT, ATTENTION, [1, 1], [0, 1], weight)
    assert kept.tolist() == [0, 3, 4]
    assert torch.allclose(states, torch.tensor([[9.0, 9], [8, 8], anchor]))


def test_a_token_joins_the_anchor_of_the_largest_cosine():
    frames = torch.tensor([[[9.0, 9], [1, 0], [0, 1]], [[8, 8], [2, 0], [0, 4]]])
    kept, states = condense(frames, ATTENTION, [1, 1], [0, 2], 0.6)
    assert kept.tolist() == [0, 3, 4, 5]
    assert torch.allclose(states[2:], torch.tensor([[1.6, 0], [0, 2.8]]))


def test_it_keeps_and_merges_what_the_official_code_does():
    """The code for LLaVA-Video at a40a109, without its noise: two segments, three tokens of each frame."""
    frames = wave(3, 192).view(6, 8, 4)
    frames[2:] += 1.5
    frames[4:, :, :2] -= 2
    attention = wave(1, 49)[1:].view(6, 8)
    kept, states = [], frames.view(48, 4).clone()
    for start, count in ((0, 2), (2, 4)):
        salient, context = frame_budgets(3 * count, count, 8, 0.4, 4)
        part = slice(start, start + count)
        indices, condensed = condense(frames[part], attention[part], salient, context, 0.6)
        kept += (indices + 8 * start).tolist()
        states[indices + 8 * start] = condensed
    assert segment_lengths(frames, 2, -1.0) == [2, 4]
    assert kept == [3, 5, 8, 13, 14, 15, 19, 20, 26, 29, 37, 39, 41, 42, 43, 45, 46, 47]
    anchors = (states != frames.view(48, 4)).any(dim=1).nonzero().squeeze(1)
    assert anchors.tolist() == [13, 15, 43, 45, 47]
    merged = torch.tensor(
        [
            [0.450, 0.792, -0.086, -0.570],
            [-0.555, 0.043, 0.420, -0.669],
            [0.418, 0.510, 1.043, 2.114],
            [0.043, -1.006, 2.117, 1.335],
            [-1.405, -0.775, 1.506, 2.125],
        ]
    )
    assert torch.allclose(states[anchors].float(), merged, atol=1e-3)
