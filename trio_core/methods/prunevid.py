"""PruneVid: visual token pruning for efficient video large language models (arXiv 2412.16117)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.checks import check_budget, check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import nearest_centre, to_denser
from trio_core.rules.schedule import Layers, default_layers
from trio_core.rules.selection import top_k
from trio_core.tensors import FeaturesND, KeptK, ScoresN, widened

NEIGHBOURS = 7
"""How many nearest tokens make a token's density. The token itself is one of them."""


@torch.no_grad()
def dpc_knn(features: FeaturesND, count: int, neighbours: int = NEIGHBOURS) -> tuple[KeptK, Tensor]:
    """Density peaks by nearest neighbours (DPC-KNN): K centres, and for each token the centre that it joins.

    Distance is the Euclidean distance over √D. A token's density is exp(−d), where d is the mean squared distance to
    its nearest tokens. A token's peak is its distance to the nearest denser token. Centres are the densest token and
    the tokens of the largest density · peak. Every other token joins its nearest centre. Ties go to the lower index.

    features: [N, D].
    count: K, 1 … N.
    neighbours: how many nearest tokens make the density. If there are fewer tokens, all of them do.

    Returns the centres, [K] ascending indices, and the labels, [N], 0 … K − 1.
    The host waits only for the check of the input.
    Raises OptionError for a count out of range, and for NaN or infinity.
    Source: ACL 2025, Visual-AI/PruneVid at b12600c. Deliberate difference: of two equal densities the lower index
    counts as denser. The released code adds noise.
    """
    tokens, width = features.shape
    check_budget(count, tokens)
    check_finite("features", features)
    wide = widened(features)
    centred = wide - wide.mean(dim=0)  # products of differences from the mean lose fewer digits
    product = centred @ centred.T
    squares = product.diagonal()
    squared = (squares[:, None] + squares - torch.maximum(product, product.T) * 2).clamp_min_(0).div_(width)
    sparsity = squared.topk(min(neighbours, tokens), dim=1, largest=False).values.mean(dim=1)

    distance = squared.sqrt()
    # The logarithm of density · peak ranks as the product does, and does not underflow.
    ranked = (to_denser(distance, -sparsity).log() - sparsity).argsort(descending=True, stable=True)
    centres = ranked[:count].sort().values
    return centres, nearest_centre(distance, centres)


def text_attention(query: Tensor, keys: Tensor, valid: Tensor) -> ScoresN:
    """[S]: the largest attention that a text token pays to each token, without rotary and without a causal mask.

    It is the maximum over heads and text rows of softmax(q · k / √E). The softmax runs over all tokens but padding.

    query: [T, H, E], of the text, before rotary.
    keys: [S, N, E], of all tokens, before rotary. H / N query heads read one key head.
    valid: [S], False at padding. The result is 0 there.

    The result is in float32, or in float64 for float64 inputs.
    Source: ACL 2025, Visual-AI/PruneVid at b12600c.
    """
    query_NRE = widened(query).unflatten(1, (keys.shape[1], -1)).permute(1, 2, 0, 3).flatten(1, 2)
    scores_NRS = query_NRE @ widened(keys).permute(1, 2, 0) / keys.shape[-1] ** 0.5
    return scores_NRS.masked_fill(~valid, -torch.inf).softmax(dim=-1).amax(dim=(0, 1))


@dataclass(frozen=True, kw_only=True)
class PruneVid(Method):
    """Merge tokens into clusters before the decoder, and later drop what the text attends to least.

    The mean of a cluster stands at the place of its centre. A video is clustered as one frame.
    """

    name: ClassVar[str] = "prunevid"
    stage: ClassVar[Stage] = Stage.BOTH
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    proportion: ClassVar[tuple[int, ...]] = (5, 2)
    """As released: half of the tokens, then 0.4 of the half."""
    reference: ClassVar[Reference] = Reference(
        title="PruneVid: Visual Token Pruning for Efficient Video Large Language Models",
        arxiv="2412.16117",
        repository="Visual-AI/PruneVid",
        commit="b12600c6176c606ee4b6b7d9e26f4aa46d0dfd42",
        licence="CC BY-NC-SA 4.0",
        note="The rule is written from its description, not from the code. On video the released code does more. It "
        "cuts the frames into segments and averages over time what does not change in a segment. It clusters these "
        "static tokens and the others of each frame separately. In the decoder it keeps a share of each of these "
        "blocks. None of these is available here: a video is clustered as one frame, and all of its tokens compete. "
        "Here any number of tokens is "
        "clustered down to the budget. The released code leaves blocks of up to 14 tokens as they are. A mean stands "
        "at the place of its centre. The released code puts the means first. Equal scores go to the lower index. The "
        "released code adds noise. The caches of the layers before the second stage stay whole. The released code "
        "trims them, and here you cannot.",
    )

    def default_layers(self, num_layers: int) -> Layers:
        """Before the decoder, and after layer 11 of 32."""
        return (0, *default_layers(num_layers, (11,)))

    def select(self, view: View) -> Selection:
        """Merge before the decoder. Later, rank by the attention of the layer that has just run."""
        if view.layer == 0:
            return view.merged([dpc_knn(sample.features, sample.budget) for sample in view.samples])
        call = view.probed("current")
        layer = call.attention()
        normed = layer.norm(call.hidden)
        keys, kept, scores = layer.key(normed), [], []
        for sample in view.samples:
            query = layer.query_at(normed[sample.index][None], sample.text_rows[None])[0]
            scores.append(text_attention(query, keys[sample.index], view.valid[sample.index])[sample.rows])
            kept.append(top_k(scores[-1], sample.budget))
        return Selection(tuple(kept), tuple(scores))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:
        """MACs of the distances and means before the decoder. Later, of all keys, of the text's queries and rows."""
        if layer == 0:
            return sizes.visual * (sizes.visual + sizes.budget) * shape.hidden
        return shape.attention_row_macs(sizes.tokens, sizes.text_after)
