"""VidCom2: video compression commander (arXiv 2505.14454)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.methods.method import Media, Reference, ScoreMethod, Stage
from trio_core.methods.view import Sample, View
from trio_core.tensors import ScoresN, widened

WIDTHS = (1 / 8, 1 / 4, 1 / 2, 1, 2)
"""The variances of the Gaussian kernels that compare a token with a mean."""
TEMPERATURE = 0.01
"""Of the softmax over frames."""


def steady_channels(frames: Tensor) -> Tensor:
    """[F, P, ⌊D / 2⌋]: the channels that vary least over all tokens, in ascending order of variance.

    frames: [F, P, D].
    """
    variance = frames.flatten(0, 1).var(dim=0, unbiased=False)
    return frames[..., variance.argsort(stable=True)[: frames.shape[-1] // 2]]


def likeness(unit: Tensor, mean: Tensor) -> Tensor:
    """[F, P]: the sum of Gaussian kernels of the distance of each token from a mean, 0 … 5.

    unit: [F, P, C], tokens of length one. mean: [1, 1, C] or [F, 1, C].
    """
    squared = (unit - mean).square().sum(dim=-1)
    return torch.stack([(-squared / (2 * width)).exp() for width in WIDTHS]).sum(dim=0)


def likeness_to_video_and_frame(frames: Tensor) -> tuple[Tensor, Tensor]:
    """[F, P] and [F, P]: how like each token is to the mean of the video, and to the mean of its frame.

    frames: [F, P, D].

    The results are in float32, or in float64 for float64 inputs.
    """
    unit = F.normalize(steady_channels(widened(frames)), dim=-1)
    return likeness(unit, unit.mean(dim=(0, 1), keepdim=True)), likeness(unit, unit.mean(dim=1, keepdim=True))


def frame_weights(likeness_to_video: Tensor) -> Tensor:
    """[F], 1 on average: the share of each frame in the budget. Frames that are unlike the video have more.

    likeness_to_video: [F, P].
    """
    gain = (-likeness_to_video.mean(dim=1) / TEMPERATURE).softmax(dim=0)
    return 1 + gain - gain.mean()


@dataclass(frozen=True, kw_only=True)
class VidCom2(ScoreMethod):
    """Keep the tokens that are least like their frame and the video, and more of them in unusual frames."""

    name: ClassVar[str] = "vidcom2"
    stage: ClassVar[Stage] = Stage.ENCODER
    media: ClassVar[Media] = "videos"
    reference: ClassVar[Reference] = Reference(
        title="Video Compression Commander: Plug-and-Play Inference Acceleration for Video Large Language Models",
        arxiv="2505.14454",
        repository="xuyang-liu16/VidCom2",
        commit="944a17d14f4848ad080a65eab2b0711a760fa154",
        note="The released code rounds the budget of each frame and cuts it at the frame's tokens, so that their sum "
        "may miss the budget. Here frames have their parts rounded down, and the largest remainders get the rest. A "
        "full frame gives what it cannot take to all other frames alike. A frame keeps one token at least, as "
        "released, unless there are more frames than the budget has tokens. There each video has a budget of its own. "
        "Here the budget is one for the sample: pictures and newlines stay before all others, and two videos share the "
        "rest in proportion to their tokens.",
    )

    def score(self, view: View) -> Sequence[ScoresN]:
        """The share of a token's frame in the budget, minus the token's rank in its frame.

        The highest scores of all frames fill the share of each frame, rounded as the note says. The first token of each
        frame has a bonus, so that every frame keeps one.
        """
        return [_scores(sample) for sample in view.samples]


def _scores(sample: Sample) -> ScoresN:
    """[N]. A score in a frame is below 2 N, and below 4 N for its first token. Tokens in no frame have 4 N."""
    count, in_frames = len(sample.rows), sum(video.number.numel() for video in sample.videos)
    share = (sample.budget - (count - in_frames)) / in_frames

    def of_video(frames: Tensor) -> Tensor:
        to_video, to_frame = likeness_to_video_and_frame(frames)
        parts = share * frames.shape[1] * frame_weights(to_video)
        before = (to_video + to_frame).argsort(dim=1, stable=True).argsort(dim=1)
        return parts[:, None] - before + 2 * count * (before == 0)

    return sample.by_frame(of_video, 4 * count)
