"""FrameFusion: cases worked by hand, and merged tokens of its official code."""

import pytest
import torch

from tests.core import tiny
from tests.core.rules.drawn import at_angles, wave
from trio_core.methods.framefusion import FrameFusion, likeness_to_earlier

TOKENS = at_angles([0, 0, 60, 10, 60, 100, 45])
"""Three frames of two tokens, and a newline. The first place turns by 60° and 0°, the second by 10° and 90°."""
FRAMES = [[0, 1], [2, 3], [4, 5]]


def test_a_token_is_compared_with_its_place_in_the_frame_before():
    likeness, order = likeness_to_earlier(TOKENS, torch.tensor([0, 1, 0, 1, 0, 1, -1]))
    assert likeness.tolist() == pytest.approx([-2, -2, 0.5, 0.984808, 1, 0, -2], abs=1e-6)
    assert order.tolist() == [6, 0, 2, 4, 1, 3, 5]
    left = torch.tensor([0, 1, 4, 5])  # of a place that lost the second frame, the third one follows the first
    likeness, _ = likeness_to_earlier(TOKENS[left], torch.tensor([0, 1, 0, 1]))
    assert likeness.tolist() == pytest.approx([-2, -2, 0.5, -0.173648], abs=1e-6)


def fused(budget: int, attention: list[float]) -> tuple[list[int], list[int]]:
    """The tokens that stay, and the number of the one that each token joined."""
    sample = next(iter(tiny.video_view(TOKENS, FRAMES, budget).samples))
    kept, labels = FrameFusion(retention=0.5)._clusters(sample, torch.tensor(attention))
    return kept.tolist(), labels.tolist()


def test_similar_tokens_merge_first_and_attention_drops_what_the_budget_still_asks_for():
    """Tokens 4 and 3 are similar. Token 6 is a newline."""
    attention = [0.1, 0.2, 0.3, 0.9, 0.9, 0.05, 0.15]
    assert fused(7, attention) == ([*range(7)], [*range(7)])
    assert fused(6, attention) == ([0, 1, 2, 3, 5, 6], [0, 1, 2, 3, 2, 4, 5])
    assert fused(5, attention) == ([0, 1, 2, 5, 6], [0, 1, 2, 1, 2, 3, 4])
    assert fused(3, attention) == ([1, 2, 6], [-1, 0, 1, 0, 1, -1, 2])


@pytest.mark.parametrize(("gone", "means"), [([6, 7, 10, 27], {0: 0.2289, 1: -0.9788}), ([7, 10, 27], {1: -0.9788})])
def test_it_merges_what_the_official_code_does(gone, means):
    """`merge_tokens_and_get_mask` at fbec1d2 on the most similar tokens. The first three places change little."""
    frames = wave(3, 120).view(5, 6, 4)
    frames[1:, :3] = 0.5 * frames[:1, :3] + 0.6 * frames[1:, :3]
    view = tiny.video_view(frames.view(30, 4), torch.arange(30).view(5, 6).tolist(), 30 - len(gone))
    stage = view.merged([FrameFusion(retention=0.5)._clusters(sample, torch.ones(30)) for sample in view.samples])
    assert stage.features
    assert sorted({*range(30)} - {*stage.kept[0].tolist()}) == gone
    for token, mean in means.items():
        assert stage.features[0][token, 0].item() == pytest.approx(mean, abs=1e-4)
