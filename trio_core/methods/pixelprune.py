"""PixelPrune: patches that their neighbours predict never enter the vision tower (arXiv 2604.00886)."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.methods.method import PixelMethod, Reference
from trio_core.models.encoder import Choice
from trio_core.rules.checks import check_finite
from trio_core.rules.selection import top_k

FIRST = 1e6
"""The error of a picture's first token, which has no neighbour before it. No two pixel values are so far apart."""


def distances(picture: Tensor) -> tuple[Tensor, Tensor]:
    """How far each token is from its left neighbour and from its upper one: the largest difference of two pixel values.

    picture: [H, W, P], the pixel values of each token.

    Returns two of [H, W]. A token that lacks one neighbour has its distance from the other one in both. The first token
    has FIRST.
    """
    left = F.pad(picture.diff(dim=1).abs().amax(dim=-1), (1, 0))
    upper = F.pad(picture.diff(dim=0).abs().amax(dim=-1), (0, 0, 1, 0))
    left[:, 0], upper[0] = upper[:, 0], left[0]
    left[0, 0] = upper[0, 0] = FIRST
    return left, upper


def errors(left: Tensor, upper: Tensor, threshold: float) -> Tensor:
    """[H, W]: how far each token is from its prediction, by the rule of LOCO-I (JPEG-LS).

    With A to the left of a token, B above it and C above A: if C is like A and not like B, an edge runs down between
    them, and B predicts the token. Otherwise A does. Two tokens are alike if they are at most the threshold apart.

    left, upper: [H, W], of `distances`.
    """
    by_upper = torch.zeros_like(left, dtype=torch.bool)
    by_upper[1:, 1:] = (upper[1:, :-1] <= threshold) & (left[:-1, 1:] > threshold)
    return upper.where(by_upper, left)


@dataclass(frozen=True, kw_only=True)
class PixelPrune(PixelMethod):
    """Keep the patches that their neighbours' pixels do not predict; the tower runs on these alone.

    A patch is predicted by its left or its upper neighbour, and the error is the largest difference of two pixel
    values. The largest errors stay. If fewer patches differ than the budget is, copies fill it, the upper left first.
    """

    name: ClassVar[str] = "pixelprune"
    reference: ClassVar[Reference] = Reference(
        title="PixelPrune: Pixel-Level Adaptive Visual Token Reduction via Predictive Coding",
        arxiv="2604.00886",
        repository="OPPO-Mente-Lab/PixelPrune",
        commit="a870e31b26e674f4f61d3c74a2b059f688b765da",
        trained="optional",
        note="The released code has one threshold for all pictures, 0 by default. So how many patches stay depends on "
        "the picture. Here the budget chooses the threshold. Where fewer patches differ, copies fill the budget. With "
        "a threshold above 0 the released code compares with what a decoder would restore. Here patches are compared "
        "with their neighbours, as with PIXELPRUNE_ANCHORED=false there. Pixels are compared as the tower gets them, "
        "normalised and in its type; the released code compares them before. In float32 that changes nothing in "
        "Qwen3-VL, but Qwen2-VL and Qwen2.5-VL scale the colours unequally. The released code runs on Qwen3-VL and "
        "Qwen3.5.",
    )

    def keep_pixels(self, pictures: Sequence[Tensor], budget: int) -> Choice:
        """The tokens of one sample that their neighbours predict worst. The scores are the errors of the prediction.

        The errors depend on a threshold, which all pictures of the sample share. Bisection finds it among the
        distances: at most `budget` errors exceed it, and more exceed the distance before it. Equal errors go to the
        lower index.

        pictures: each [H, W, P], the pixel values of its tokens; N tokens in all.
        budget: K, 1 … N.

        Raises OptionError for pixels that are not finite, and as `top_k` does.
        Source: OPPO-Mente-Lab/PixelPrune at a870e31, pixelprune/methods/pred_2d.py, the sliding form.
        """
        for picture in pictures:
            check_finite("pixel values", picture)
        # The host chooses the threshold. It waits for the device once, for the distances.
        pairs = [tuple(part.cpu() for part in distances(picture.float())) for picture in pictures]

        def errors_at(threshold: float) -> Tensor:
            return torch.cat([errors(left, upper, threshold).flatten() for left, upper in pairs])

        def fits(threshold: float) -> bool:
            return int((errors_at(threshold) > threshold).sum()) <= budget

        every_distance = torch.cat([part.flatten() for pair in pairs for part in pair]).unique()
        thresholds = [0.0, *every_distance[(every_distance > 0) & (every_distance < FIRST)].tolist()]
        scores = errors_at(thresholds[bisect_left(thresholds[:-1], True, key=fits)])
        return Choice(top_k(scores, budget), scores)
