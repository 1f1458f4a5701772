"""VisPruner: beyond text–visual attention, and its first version, FasterVLM (both arXiv 2412.01818)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from trio_core.methods.crops import Crop, CropMethod
from trio_core.methods.method import Reference, within
from trio_core.methods.view import Selection, View
from trio_core.rules.checks import check_budget, check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import cosine, top_k
from trio_core.tensors import FeaturesND, KeptK, ScoresN

MOST_DROPPED = 8
"""The largest number of patches that one round drops."""


def vispruner(hidden: FeaturesND, attention: ScoresN, budget: int, important: float = 0.5) -> KeptK:
    """The patches of one crop that are attended most, and of the others the least similar ones: [K] indices, ascending.

    int(K · r) patches stay by attention. The others, by falling attention, are dealt in turn to two sets. The 8 patches
    of the first set that are most similar to a patch of the second are dropped. What is left of the first set, the most
    similar first, and then the second set are dealt again, until K − int(K · r) are left.

    hidden: [N, D] features of the tower.
    attention: [N], what the CLS token pays to each patch, averaged over heads. Ties go to the lower index.
    budget: K, 1 … N.
    important: r, 0 … 1.

    The host waits only for the check of the inputs.
    Raises OptionError for a budget out of range, and for NaN or infinity.
    Source: ICCV 2025, Theia-4869/VisPruner at aefa01a. Deliberate differences: a round never drops more than the first
    set has, and an odd patch goes to the first set; the released code fails there. Each cosine is computed once.
    """
    check_budget(budget, len(attention))
    check_finite("attention or features", attention, hidden)
    order = attention.argsort(descending=True, stable=True)
    by_attention = int(budget * important)
    kept, rest, similarity = order[:by_attention], order[by_attention:], cosine(hidden)
    if budget == by_attention:
        return kept.sort().values
    while (excess := len(rest) - (budget - by_attention)) > 0:
        first, second = rest[::2], rest[1::2]
        most_similar = similarity[first][:, second].amax(dim=1).argsort(descending=True, stable=True)
        rest = torch.cat([first[most_similar][min(excess, MOST_DROPPED, len(first)) :], second])
    return torch.cat([kept, rest]).sort().values


@dataclass(frozen=True, kw_only=True)
class VisPruner(CropMethod):
    """Keep what the CLS token attends to most, and other patches that are unlike each other.

    important: share of the budget that goes by attention.

    Each crop keeps an equal share.
    """

    important: float = within("[0, 1]", 0.5)

    name: ClassVar[str] = "vispruner"
    reference: ClassVar[Reference] = Reference(
        title="Beyond Text-Visual Attention: Exploiting Visual Cues for Effective Token Pruning in VLMs",
        arxiv="2412.01818",
        repository="Theia-4869/VisPruner",
        commit="aefa01adc7c7ce6334e880c88225e90cede760d1",
        note="Each cosine is computed once. Two cases in which the released code fails are defined here: a round that "
        "would drop more patches than its set has, and a round with an odd number.",
    )

    def keep(self, crop: Crop) -> KeptK:
        """VisPruner in the tower's features."""
        return vispruner(crop.hidden, crop.attention.mean(dim=0), crop.budget, self.important)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention, and of the similarity of all pairs of patches within each crop."""
        return shape.encoder_attention_macs(sizes.visual) + shape.similarity_macs(sizes.visual, sizes.budget)


@dataclass(frozen=True, kw_only=True)
class FasterVLM(CropMethod):
    """Keep the patches that the CLS token attends to most.

    The score is the mean over heads. Each crop keeps an equal share.
    """

    name: ClassVar[str] = "fastervlm"
    reference: ClassVar[Reference] = Reference(
        title="[CLS] Attention is All You Need for Training-Free Visual Token Pruning: Make VLM Inference Faster",
        arxiv="2412.01818",
        repository="Theia-4869/FasterVLM",
        commit="f5d5f12037e105a51865ecb4b28a73cd86eb4921",
    )

    def keep(self, crop: Crop) -> KeptK:
        """The most attended patches. Source: Theia-4869/FasterVLM at f5d5f12."""
        return top_k(crop.attention.mean(dim=0), crop.budget)

    def select(self, view: View) -> Selection:
        """Rank crop by crop. The scores are the mean attention, and zero at newlines."""
        scores = tuple(view.encoder.attention_of(sample.index) for sample in view.samples)
        return replace(super().select(view), scores=scores)
