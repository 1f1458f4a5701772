"""VisionZip: longer is better but not necessary (arXiv 2412.04467)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.methods.crops import Crop, MergedCrop, MergingMethod
from trio_core.methods.method import Reference, within
from trio_core.rules.checks import check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import contextual


@dataclass(frozen=True, kw_only=True)
class VisionZip(MergingMethod):
    """Keep the CLS token and what it attends to most, and merge the other patches into a few.

    contextual_share: share of the budget that merged patches get. 10 of 64 as published.

    Each crop keeps an equal share. A dominant patch keeps its own place, and a merged token takes the place of its
    target. The CLS token has no place of its own: it takes the place of the first patch that leaves. With positions
    `compact` only the order counts, and each crop has the released one: CLS, dominant patches, merged tokens.

    In a tower without a CLS token, a patch is dominant by the attention that it receives from all patches.
    """

    contextual_share: float = within("[0, 1)", 10 / 64)

    name: ClassVar[str] = "visionzip"
    reference: ClassVar[Reference] = Reference(
        title="VisionZip: Longer is Better but Not Necessary in Vision Language Models",
        arxiv="2412.04467",
        repository="dvlab-research/VisionZip",
        commit="3151f6df4fca36a4cd1c985e5956e725b1f9ad02",
        trained="optional",  # README.md at this commit: training-free, efficient tuning, training
        note="A merged token is its target plus the mean of the patches that join it, as in the released code. By "
        "default it stands at its target's place, and the CLS token at the place of the first patch that leaves. With "
        "positions='compact' each crop has the released order: CLS, dominant patches, merged tokens. The released code "
        "puts the CLS and merged tokens of all tiles behind all dominant patches. Here the tokens of a tile stay "
        "together. Without a CLS token the method follows the ports to Qwen. It ranks by the attention that a patch "
        "receives, and compares keys before their rotation. Both are averaged over the patches that the model joins "
        "into one token (Qwen, videos of LLaVA-OneVision); those merge behind the projector.",
    )

    def merge(self, crop: Crop) -> MergedCrop:
        """CLS, dominant, merged."""
        cls, hidden, attention = crop.encoder.cls, crop.hidden, crop.attention.sum(dim=0)
        check_finite("attention or hidden states", attention, hidden)
        merges = self._merges(crop.budget)
        count = crop.budget - merges - (cls is not None)
        ranked = attention.argsort(descending=True, stable=True)
        dominant, rest = ranked[:count].sort().values, ranked[count:].sort().values
        targets, merged, labels = rest[:0], hidden[:0], None
        if merges:
            targets, merged, labels = contextual(crop.keys[rest], hidden[rest], merges)
        places, features = torch.cat([dominant, rest[targets]]), torch.cat([hidden[dominant], merged])
        first = None
        if cls is not None:
            leaves = torch.ones_like(rest).index_fill(0, targets, 0)
            first = rest[leaves.argmax(dim=0, keepdim=True)]
            places, features = torch.cat([first, places]), torch.cat([cls[crop.number, None], features])
        if self.positions == "compact":
            return MergedCrop(places.sort().values, features)  # no longer the places of what stands there
        return MergedCrop(places, features, partial(_labels, len(attention), dominant, rest, labels, first))

    def _merges(self, budget: int) -> int:
        """How many of a crop's kept tokens stand for merged patches. The CLS token is not one of them."""
        return min(round(budget * self.contextual_share), budget - 1)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention, of comparing keys, of the means, and of projecting what is left.

        Patches that are seen behind the projector merge in the decoder's width, and nothing is projected here.
        """
        merging, cls_tokens = 0, int(shape.has_cls and not shape.is_projected)
        for patches, share in shape.crop_shares(sizes.visual, sizes.budget):
            merges = self._merges(share)
            rest = patches - (share - merges - cls_tokens)
            merging += rest * merges * (shape.patch_key_width + shape.patch_width)
        return shape.encoder_attention_macs(sizes.visual) + merging + shape.projection_macs(sizes.budget)


def _labels(count: int, dominant: Tensor, rest: Tensor, labels: Tensor | None, first: Tensor | None) -> Tensor:
    """[n]: the place of the token that each of a crop's tokens went into, among CLS, dominant and merged ones.

    dominant, rest: indices of the dominant tokens and of all others, both ascending.
    labels: what `contextual` returned for `rest`; None where nothing merges, and all others are dropped.
    first: [1], the index at which the CLS token stands; None without one. The patch itself went into a merged token.
    """
    before = 0 if first is None else 1
    places = torch.full((count,), -1, device=dominant.device)
    places[dominant] = torch.arange(len(dominant), device=dominant.device) + before
    if labels is not None:
        own = (labels < 0).cumsum(dim=0) - 1  # the targets are ascending, so the i-th of them has the place i
        places[rest] = labels.where(labels >= 0, own) + len(dominant) + before
    if first is not None:
        places[first] = 0
    return places
