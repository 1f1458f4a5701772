"""EVS: efficient video sampling (arXiv 2510.14624), as vLLM runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.methods.method import Media, Reference, ScoreMethod, Stage
from trio_core.methods.view import View
from trio_core.tensors import ScoresN, widened

ALWAYS = 255.0
"""The score of a token that has nothing before it to be like. No dissimilarity is above 2."""


def dissimilarity(frames: Tensor) -> Tensor:
    """[F, P]: 1 − cosine of each token and the token at its place in the frame before; ALWAYS in the first frame.

    frames: [F, P, D].

    The result is in float32, or in float64 for float64 inputs.
    """
    wide = widened(frames)
    later = 1 - F.cosine_similarity(wide[1:], wide[:-1], dim=-1)
    return torch.cat([torch.full_like(wide[:1, :, 0], ALWAYS), later])


@dataclass(frozen=True, kw_only=True)
class Evs(ScoreMethod):
    """Keep the tokens of a video that differ most from the same place in the frame before."""

    name: ClassVar[str] = "evs"
    stage: ClassVar[Stage] = Stage.ENCODER
    media: ClassVar[Media] = "videos"
    reference: ClassVar[Reference] = Reference(
        title="Efficient Video Sampling: Pruning Temporally Redundant Tokens for Faster VLM Inference",
        arxiv="2510.14624",
        repository="vllm-project/vllm",
        commit="094f117823287790739d3022162a3f30f13d758b",
        note="The rule is that of vllm/multimodal/evs.py. There a video keeps at least as many tokens as one frame "
        "has. Here the first tokens stay in a smaller budget. There each video has a budget of its own, and pictures "
        "are not pruned. Here the budget is one for the sample: pictures, newlines and first frames stay before all "
        "others. There the text behind the video gets new positions.",
    )

    def score(self, view: View) -> Sequence[ScoresN]:
        """The dissimilarities, as the tokens enter the decoder."""
        return [sample.by_frame(dissimilarity, ALWAYS) for sample in view.samples]
