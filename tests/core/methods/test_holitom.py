"""HoliTom: cases worked by hand, selections of its official code."""

from dataclasses import replace

import pytest
import torch

from tests.core import tiny
from tests.core.rules.drawn import wave
from trio_core.methods.holitom import HoliTom, best_segments, folded, merged_by_density
from trio_core.methods.view import Signal


def test_segments_take_away_as_many_tokens_as_can_be():
    for steady, lengths in (
        ([], [1]),
        ([[1, 0]], [2]),
        ([[1, 0], [0, 1]], [2, 1]),  # both cuts take away one token, and the last segment is the shorter one
        ([[1, 1], [1, 0]], [2, 1]),  # two places of two frames are as many as one place of three
        ([[1, 1], [1, 1]], [3]),
        ([[1, 1, 1], [0, 0, 0], [1, 0, 0]], [2, 2]),
    ):
        assert best_segments(torch.tensor(steady).reshape(len(steady), -1 if steady else 1), 0.5) == lengths


def test_a_merged_token_is_mostly_its_centre():
    """The mean squares of three tokens are 10, 5, 13, 45, 73 and 185 thirds; the next denser tokens are 1 to 8 away.

    So the first three are centres. The mean of the others is 41 / 3.
    """
    centres, labels, merged = merged_by_density(torch.tensor([[0.0], [1], [3], [9], [12], [20]]), 3, 0.6)
    assert centres.tolist() == [0, 1, 2]
    assert labels.tolist() == [0, 1, 2, 2, 2, 2]
    assert merged.flatten().tolist() == pytest.approx([0, 1, 0.6 * 3 + 0.4 * 41 / 3])


def test_dropped_tokens_join_the_most_similar_one_in_their_order():
    """The tokens 0, 2 and 3 join token 1: ((4 + 2) / 2 + 8) / 2 = 5.5, and (5.5 + 1) / 2. Token 4 is alone."""
    features, kept = torch.tensor([[2.0, 0], [4, 0], [8, 0], [1, 0], [0, 3]]), torch.tensor([1, 4])
    merged, labels = folded(features, kept)
    assert merged.tolist() == [[3.25, 0], [0, 3]]
    assert labels.tolist() == [0, 0, 0, 0, 1]


def test_it_merges_a_video_as_the_official_code_does():
    """`select_static_windows` and `holitom` at e9b2972, without noise: two segments of four frames, 16 static places.

    16 static tokens of each segment make 8, and of the 16 others of each frame 8 stay.
    """
    frames, attention = wave(3, 1024).view(8, 32, 4), wave(1, 257)[1:]
    frames[:, :16] = frames[:1, :16] + 0.1 * frames[:, :16]
    frames[4:] += 0.5
    view = tiny.video_view(frames.view(256, 4), torch.arange(256).view(8, 32).tolist(), 80)
    encoder = tiny.encoder(torch.zeros(256, 1), attention[None], torch.zeros(256, 1, 1))
    stage = HoliTom(retention=0.5).select(replace(view, signals={Signal.ENCODER: encoder}))
    assert stage.features and stage.merged
    first = [3, 6, 7, 8, 12, 13, 14, 15, 16, 17, 18, 19, 20, 25, 26, 29, 49, 52, 53, 56, 57, 58, 59, 63]
    assert stage.kept[0][: len(first)].tolist() == first
    means = [-0.9205, 0.7501, -0.7947, 0.4623, -1.0313, 0.4449, 0.5999, -0.6233]
    assert stage.features[0][:8, 0].tolist() == pytest.approx(means, abs=1e-4)
    into = stage.merged()[0]
    assert into[first].tolist() == first
    assert torch.equal(into[:16], into[32:48])  # the static places of the second frame
    assert set(into[16:32].tolist()) == {-1, 16, 17, 18, 19, 20, 25, 26, 29}
