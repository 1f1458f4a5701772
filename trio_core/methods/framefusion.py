"""FrameFusion: similarity and importance for video token reduction (arXiv 2501.01986)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.methods.method import Media, Method, Reference, within
from trio_core.methods.view import Sample, Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import top_k
from trio_core.tensors import FeaturesND, KeptK, ScoresN, widened


def likeness_to_earlier(features: FeaturesND, place: Tensor) -> tuple[ScoresN, Tensor]:
    """[N], the cosine of each token and the token at its place in the nearest earlier frame that is left; −2 for none.

    features: [N, D].
    place: [N], the same number for tokens at the same place of a video; −1 for tokens in no frame.

    Returns the cosines and the order of the tokens by place and time, [N]. Cosines are in float32, or in float64 for
    float64 inputs.
    """
    order = place.argsort(stable=True)
    wide, of_order = widened(features)[order], place[order]
    cosines = F.cosine_similarity(wide[1:], wide[:-1], dim=-1)
    follows = (of_order[1:] == of_order[:-1]) & (of_order[1:] >= 0)
    likeness = wide.new_full((len(features),), -2)
    likeness[order[1:]] = cosines.where(follows, -2)
    return likeness, order


def first_of_each_run(joins: Tensor, order: Tensor) -> Tensor:
    """[N]: the token that each token is part of, if some join the one before them in `order`.

    joins: [N], True at the tokens that join.
    order: [N], the indices of all tokens.
    """
    position = torch.arange(len(order), device=order.device).masked_fill(joins[order], 0).cummax(dim=0).values
    return torch.empty_like(order).index_copy_(0, order, order[position])


@dataclass(frozen=True, kw_only=True)
class FrameFusion(Method):
    """Average tokens that hardly change from frame to frame, and drop those that get little attention.

    Attention is that of the last token in the layer that has just run. A mean stands in its first frame.

    similarity: a token joins the one at its place in the frame before if their cosine is this or more.
    """

    similarity: float = within("[-1, 1]", 0.6)

    name: ClassVar[str] = "framefusion"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    media: ClassVar[Media] = "videos"
    paper_layers: ClassVar[tuple[int, ...]] = (1,)
    scales_layers: ClassVar[bool] = False
    reference: ClassVar[Reference] = Reference(
        title="FrameFusion: Combining Similarity and Importance for Video Token Reduction on Large Vision Language "
        "Models",
        arxiv="2501.01986",
        repository="thu-nics/FrameFusion",
        commit="fbec1d2e6bd383361c2c87ca13e73f80a8c1a9e9",
        note="The released code merges before the first layer and inside the next ones, between attention and FFN, "
        "until less than a tenth of the tokens are similar. Then it prunes once by attention, down to a cost. Here "
        "both happen at one stage, one after the other. If more tokens are similar than may go, the most similar ones "
        "merge and none is dropped, as released. Tokens in no frame do not merge, but they compete in the pruning. The "
        "attention is that of the layer before the merging. In the released code the layer runs on merged tokens.",
    )

    def select(self, view: View) -> Selection:
        """Merge over time, then keep what gets the most attention."""
        scores = view.attention_of_last("current")
        clusters = [self._clusters(sample, scores[sample.index]) for sample in view.samples]
        return view.merged(clusters, scores)

    def _clusters(self, sample: Sample, attention: ScoresN) -> tuple[KeptK, Tensor]:
        """The tokens that stay, [K] ascending, and the number of the one that each token joined, [N], or −1."""
        likeness, order = likeness_to_earlier(sample.features, sample.place)
        most_similar = likeness.argsort(descending=True, stable=True)[: len(likeness) - sample.budget]
        joins = torch.zeros_like(likeness, dtype=torch.bool).index_fill_(0, most_similar, 1)
        joins &= likeness >= self.similarity
        kept = top_k(attention.masked_fill(joins, -1), sample.budget)
        number = torch.full_like(order, -1).index_copy_(0, kept, torch.arange(len(kept), device=kept.device))
        return kept, number[first_of_each_run(joins, order)]

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the one row and of the means."""
        return shape.attention_row_macs(sizes.tokens) + sizes.visual * sizes.budget * shape.hidden
