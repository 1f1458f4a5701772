"""PruneVid: visual token pruning for efficient video large language models (arXiv 2412.16117)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View, last_rows
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means
from trio_core.rules.schedule import Layers, default_layers
from trio_core.rules.selection import top_k
from trio_core.tensors import FeaturesND, KeptK

NEIGHBOURS = 7
"""Of which a token's density is made, itself one of them."""
FEW = 14
"""So many tokens of a block are not clustered."""


@torch.no_grad()
def dpc_knn(features: FeaturesND, count: int, neighbours: int = NEIGHBOURS) -> tuple[KeptK, Tensor]:
    """Density peaks by nearest neighbours: `count` centres, and the centre that each token joins.

    ACL 2025, Visual-AI/PruneVid at b12600c. Distance is Euclidean / √D; density is exp(−mean squared distance) of the
    nearest ones, oneself included; a token's peak is its distance to the nearest denser one. Centres are the densest
    token and those of the highest density · peak; every other token joins the nearest of them. Deliberate
    difference: of two equal densities that of the lower index is the denser, where noise is added there.

    features: [N, D]; count: K in 1 … N; neighbours: of them, as many as there are. Returns the centres, [K] ascending
    indices, and labels, [N] the number of a token's centre. Ties go to the lower index. The host waits only for the
    input's check. Raises OptionError for a count out of range and for features that are not finite.
    """
    tokens, width = features.shape
    if not 1 <= count <= tokens:
        raise OptionError(f"count {count}: can make clusters of 1 … {tokens} of {tokens} tokens")
    if not features.isfinite().all():
        raise OptionError("features hold NaN or infinity: the hidden states that entered the stage are broken")
    wide = features.to(torch.promote_types(features.dtype, torch.float32))
    centred = wide - wide.mean(dim=0)  # a product of differences loses less than one of the features themselves
    product = centred @ centred.T
    squares = product.diagonal()
    squared = (squares[:, None] + squares - torch.maximum(product, product.T) * 2).clamp_min_(0).div_(width)
    sparsity = squared.topk(min(neighbours, tokens), dim=1, largest=False).values.mean(dim=1)

    order = sparsity.argsort(stable=True)  # densest first
    later = torch.ones_like(squared, dtype=torch.bool).triu()
    distance = squared.sqrt()
    to_denser = distance[order][:, order].masked_fill(later, torch.inf).amin(dim=1)
    peak = torch.empty_like(to_denser).index_copy_(0, order, to_denser)
    ranked = (peak.log() - sparsity).argsort(descending=True, stable=True)  # the product's order, with no underflow
    centres = ranked[:count].sort().values
    number = torch.arange(count, device=features.device)
    return centres, distance[:, centres].argmin(dim=1).index_copy_(0, centres, number)


def contiguous(labels: Sequence[int]) -> list[int]:
    """Each frame's cluster → the lengths of the segments, in time.

    Of each cluster its longest runs stay, unless they are single frames. A gap of frames that are left over goes, first
    gap first, to the longer of the runs beside it, in a tie to the one before it.
    """
    runs = _runs((label, 1) for label in labels)
    longest = {label: max(length for other, length in runs if other == label) for label, _ in runs}
    runs = _runs((label if 1 < length == longest[label] else None, length) for label, length in runs)
    while len(runs) > 1 and None in (gaps := [label for label, _ in runs]):
        gap = gaps.index(None)
        beside = runs[max(gap - 1, 0) : gap] + runs[gap + 1 : gap + 2]
        # `max` takes the first of equals: the run before.
        runs[gap] = max(beside, key=lambda run: run[1])[0], runs[gap][1]
        runs = _runs(runs)
    return [length for _, length in runs]


def _runs(parts: Iterable[tuple[int | None, int]]) -> list[tuple[int | None, int]]:
    """Labels with their lengths, neighbours of one label joined."""
    return [(label, sum(length for _, length in same)) for label, same in groupby(parts, key=lambda part: part[0])]


def segments(frames: Tensor, share: float = 0.25, neighbours: int = NEIGHBOURS) -> list[int]:
    """Lengths of the runs of frames that are alike: int(share · F) clusters of the frames' means, made contiguous.

    frames: [F, N, D]. Fewer frames than make one cluster are one segment. The host waits for the clusters.
    """
    _, labels = dpc_knn(frames.mean(dim=1), max(1, int(share * len(frames))), neighbours)
    return contiguous(labels.tolist())


def static(frames: Tensor, threshold: float = 0.8) -> Tensor:
    """[N], True at a place whose tokens have a mean cosine above the threshold, over all pairs of the segment's frames.

    frames: [W, N, D]. One frame has no pairs and is dynamic; the released code divides by zero there.
    """
    count = len(frames)
    if count == 1:
        return torch.zeros(frames.shape[1], dtype=torch.bool, device=frames.device)
    unit = F.normalize(frames.to(torch.promote_types(frames.dtype, torch.float32)), dim=-1)
    # The sum over all pairs, each frame with itself as well, is the square of the sum.
    pairs = unit.sum(dim=0).square().sum(dim=-1) - count
    return pairs / (count * (count - 1)) > threshold


def merge_frames(
    frames: Tensor, segment_share: float = 0.25, threshold: float = 0.8, cluster_share: float = 0.5
) -> list[Tensor]:
    """A video's tokens merged over time, then over space: blocks [n, D], of each segment one static, then by frame.

    ACL 2025, Visual-AI/PruneVid at b12600c. In a segment the places that are static are averaged over time, the others
    stay frame by frame; a block of more than 14 tokens is clustered to int(cluster_share · n) means.

    frames: [F, N, D]. The host waits for each segment's static places.
    """
    blocks, start = [], 0
    for length in segments(frames, segment_share):
        window = frames[start : start + length]
        still = static(window, threshold)
        blocks += [window[:, still].mean(dim=0), *window[:, ~still]]
        start += length
    return [_clustered(block, cluster_share) for block in blocks]


def _clustered(block: Tensor, share: float) -> Tensor:
    if len(block) <= FEW:
        return block
    count = int(share * len(block))
    return cluster_means(block, dpc_knn(block, count)[1], count)


def asked_of(query: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
    """What each token receives at the most, over heads and rows of the text, without rotary and without a mask; [S].

    ACL 2025, Visual-AI/PruneVid at b12600c: max over heads and rows of softmax(q · k / √E), over all tokens.

    query: [T, H, E] of the text and keys: [S, N, E] of all tokens, before rotary; H / N query heads read one key head.
    valid: [S], False at padding. Weights are float32 (float64 for float64 inputs), and 0 at padding.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    query_NRE = query.to(wide).unflatten(1, (keys.shape[1], -1)).permute(1, 2, 0, 3).flatten(1, 2)
    scores_NRS = query_NRE @ keys.to(wide).permute(1, 2, 0) / keys.shape[-1] ** 0.5
    return scores_NRS.masked_fill(~valid, -torch.inf).softmax(dim=-1).amax(dim=(0, 1))


@dataclass(frozen=True, kw_only=True)
class PruneVid(Method):
    """Merge the picture's tokens into clusters before the decoder, and drop later what the text does not look at.

    A picture is one frame, all of which is dynamic. A video's frames are not told apart either: its tokens are
    clustered as one frame's. `merge_frames` is the rule for frames.
    """

    name: ClassVar[str] = "prunevid"
    stage: ClassVar[Stage] = Stage.BOTH
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    proportion: ClassVar[tuple[int, ...]] = (5, 2)
    """As released: half of the tokens, then 0.4 of those."""
    reference: ClassVar[Reference] = Reference(
        title="PruneVid: Visual Token Pruning for Efficient Video Large Language Models",
        arxiv="2412.16117",
        repository="Visual-AI/PruneVid",
        commit="b12600c6176c606ee4b6b7d9e26f4aa46d0dfd42",
        note="Its code is CC BY-NC-SA 4.0 (non-commercial); the rule is restated here from its description. Means "
        "stand at their centres' places, there at the front; ties go to the lower index, where noise is added there; "
        "any number of tokens is clustered, to the budget. The caches of the layers before the second stage stay as "
        "they are, which the released code trims too.",
    )

    def default_layers(self, num_layers: int) -> Layers:
        """Before the decoder, and after the layer of index 10, which is the eleventh, of 32."""
        return (0, *default_layers(num_layers, (11,)))

    def select(self, view: View) -> Selection:
        """Clusters at layer 0; behind it, what the layer that has just run would attend to."""
        return self._merge(view) if view.layer == 0 else self._rank(view)

    def _merge(self, view: View) -> Selection:
        kept, merged = [], []
        for sample, picture in enumerate(view.pictures):
            features = view.features(sample)
            centres, labels = dpc_knn(features, picture.budget)
            kept.append(centres)
            merged.append(cluster_means(features, labels, picture.budget))
        return Selection(tuple(kept), features=tuple(merged))

    def _rank(self, view: View) -> Selection:
        call = view.probed("current")
        layer = call.attention()
        normed = layer.norm(call.hidden)
        keys, scores = layer.key(normed), []
        for sample, picture in enumerate(view.pictures):
            valid = view.valid[sample : sample + 1]
            text = last_rows(valid, picture.text_after, padded=view.padded)[0]
            query = layer.query(normed[sample : sample + 1, text])[0]
            scores.append(asked_of(query, keys[sample], valid[0])[picture.rows])
        kept = tuple(top_k(ours, picture.budget) for ours, picture in zip(scores, view.pictures, strict=True))
        return Selection(kept, tuple(scores))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:
        """MACs of the distances and means at layer 0; behind it of all tokens' keys, the text's queries, its rows."""
        if layer == 0:
            return sizes.visual * (sizes.visual + sizes.budget) * shape.hidden
        keys = sizes.tokens * shape.hidden * shape.kv_width
        return keys + sizes.text_after * (shape.hidden + sizes.tokens) * shape.query_width
