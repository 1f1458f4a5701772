"""DyCoke: dynamic compression of tokens (arXiv 2411.15024), its part before the decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from trio_core.methods.method import Media, Reference, ScoreMethod, Stage
from trio_core.methods.view import View
from trio_core.tensors import ScoresN, widened

ALWAYS = 3.0
"""The score of a token that is compared with none. No other score is above 2."""
FRAMES_BACK = (4, 1, 2, 1)
"""How far back the frame is with which each frame of a group of four is compared."""


def novelty(frames: Tensor) -> Tensor:
    """[F, P], in (0, 1]: the rank of each token in its frame over P. The token least like the earlier frame has 1.

    frames: [F, P, D]. Each is compared place by place, by cosine, with the frame that `FRAMES_BACK` says. The first
        frame is compared with itself.

    The cosines are in float32, or in float64 for float64 inputs. Equal cosines go to the lower index.
    """
    wide = widened(frames)
    earlier = [max(frame - FRAMES_BACK[frame % 4], 0) for frame in range(len(frames))]
    likeness = F.cosine_similarity(wide, wide[earlier], dim=-1)
    before = likeness.argsort(dim=1, stable=True).argsort(dim=1)
    return 1 - before.to(wide.dtype) / frames.shape[1]


@dataclass(frozen=True, kw_only=True)
class DyCoke(ScoreMethod):
    """Keep every fourth frame of a video, and of the others the tokens least like an earlier frame."""

    name: ClassVar[str] = "dycoke"
    stage: ClassVar[Stage] = Stage.ENCODER
    media: ClassVar[Media] = "videos"
    reference: ClassVar[Reference] = Reference(
        title="DyCoke: Dynamic Compression of Tokens for Fast Video Large Language Models",
        arxiv="2411.15024",
        repository="KD-TAO/DyCoke",
        commit="dd7463498203479d0ff6f2d29c4e72928c0af244",
        note="This is the part before the decoder, which the paper calls merging. Its code drops tokens and averages "
        "none. The second part hides keys of the cache anew at each decoded token. You cannot have it here, because "
        "what a prefill keeps stays. In a group of four frames the second and third are compared with the first, and "
        "the fourth with the third. The released code leaves the third frame of the last group whole, and drops a last "
        "frame that has no partner. Here all groups are alike. The budget decides the share of each compared frame, "
        "which is 0.3 there. A budget below the whole frames (the first, the fifth and so on) is filled from them "
        "alone: each is ranked against the whole frame before it, and the first frame is cut last. There a prompt has "
        "one video. Here pictures and newlines stay before all others.",
    )

    def score(self, view: View) -> Sequence[ScoresN]:
        """The ranks, with those of whole frames above all others."""
        return [sample.by_frame(_whole_frames_first, ALWAYS) for sample in view.samples]


def _whole_frames_first(frames: Tensor) -> Tensor:
    """[F, P]: the ranks of `novelty`, 1 more in the first frame of a group, ALWAYS in the first of all."""
    scores = novelty(frames)
    scores[::4] += 1
    scores[0] = ALWAYS
    return scores
