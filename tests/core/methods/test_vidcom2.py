"""VidCom2: a case worked by hand, and selections of its official code."""

import torch

from tests.core import tiny
from tests.core.rules.drawn import wave
from trio_core.methods.vidcom2 import VidCom2, frame_weights, likeness_to_video_and_frame

FRAMES = torch.tensor([[[1.0, 9], [1, -9]], [[1, 9], [-1, -9]], [[1, 9], [1, -9]]])
"""Three frames of two tokens. The first channel varies less, so only it counts. One token differs."""


def kernels(squared: float) -> float:
    return sum(float(torch.tensor(-squared / (2 * width)).exp()) for width in (0.125, 0.25, 0.5, 1, 2))


def test_a_token_is_compared_with_the_mean_of_the_video_and_with_that_of_its_frame():
    """The video's mean is 2/3; those of the frames are 1, 0 and 1."""
    to_video, to_frame = likeness_to_video_and_frame(FRAMES)
    near, far = kernels(1 / 9), kernels(25 / 9)
    assert torch.allclose(to_video, torch.tensor([[near, near], [near, far], [near, near]]))
    assert torch.allclose(to_frame, torch.tensor([[5.0, 5.0], [kernels(1), kernels(1)], [5.0, 5.0]]))
    assert torch.allclose(frame_weights(to_video), torch.tensor([2 / 3, 5 / 3, 2 / 3]))


def test_each_frame_gets_its_part_and_one_token_at_least():
    """The newline goes first, then the best token of each frame, then those of the largest remainders."""
    features = torch.cat([FRAMES.view(6, 2), torch.ones(1, 2)])
    order = [6, 3, 0, 4, 2, 1, 5]
    for budget in range(1, 8):
        view = tiny.video_view(features, [[0, 1], [2, 3], [4, 5]], budget)
        assert VidCom2(retention=0.5).select(view).kept[0].tolist() == sorted(order[:budget]), budget


def test_it_keeps_what_the_official_code_keeps():
    """`vidcom2_compression` at 944a17d with base scales of 0.3, 0.4 and 0.5."""
    features = wave(3, 192).view(24, 8)
    features[:6] += 2
    for kept in (
        [5, 6, 7, 8, 14, 18],
        [4, 5, 6, 7, 8, 11, 14, 16, 18, 22],
        [4, 5, 6, 7, 8, 10, 11, 14, 16, 18, 22],
    ):
        view = tiny.video_view(features, torch.arange(24).view(4, 6).tolist(), len(kept))
        assert VidCom2(retention=0.5).select(view).kept[0].tolist() == kept
