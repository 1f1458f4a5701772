"""LLaVA-PruMerge and PruMerge+: adaptive token reduction (arXiv 2403.15388)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import UnsupportedModel
from trio_core.methods.crops import Crop, MergedCrop, MergingMethod
from trio_core.methods.method import Reference
from trio_core.rules.checks import check_budget, check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import stride, unit_rows
from trio_core.tensors import FeaturesND, KeptK, KeysNE, ScoresN, to_device, widened

NEIGHBOURS = 32
"""How many tokens merge into each centre."""


@dataclass(frozen=True, kw_only=True)
class PruMerge(MergingMethod):
    """Keep the patches that the CLS token attends to most, and merge similar patches into each.

    The attention is that of the tower's last layer.

    plus: PruMerge+, the released default. Half of the centres, the smaller half, are samples at even steps over the
        picture. The other half are the most attended patches. If a sample is among those already, the next most
        attended patch takes its place.

    One more token, counted in the budget, is the sum of all patches that are no centres, weighted by their attention.
    Each crop keeps an equal share. A centre keeps its own place. The sum has no place of its own: it takes the place of
    the last patch that leaves. With positions `compact` only the order counts, and each crop has the released one:
    attended patches by falling attention, samples, the sum.
    """

    plus: bool = True

    name: ClassVar[str] = "prumerge"
    reference: ClassVar[Reference] = Reference(
        title="LLaVA-PruMerge: Adaptive Token Reduction for Efficient Large Multimodal Models",
        arxiv="2403.15388",
        repository="42Shawn/LLaVA-PruMerge",
        commit="097c04116a58465e4bcb58cec44a94018a68ff1a",
        trained="optional",  # README.md at this commit: LoRA checkpoints
        note="By default the released code adapts the number of tokens to the picture: it keeps each patch with an "
        "attention above Q3 + 1.5 · (Q3 − Q1). You cannot have that here: you choose the budget, as in the released "
        "fixed mode (reduction_ratio). With positions='compact' each crop has the released order. In the released "
        "fixed mode a sampled patch may be a centre already, and then it stands twice. Here the next most attended "
        "patch takes its place. In a crop of at most 32 patches all of them merge; the released code needs at least "
        "33. The method was made for checkpoints that are fine-tuned with it.",
    )

    def merge(self, crop: Crop) -> MergedCrop:
        """Centres, then the sum. A patch may go into several of them, so there are no labels.

        Raises UnsupportedModel for a tower without a CLS token.
        """
        if crop.encoder.last is None:
            raise UnsupportedModel(
                "prumerge ranks patches by what the CLS token attends to in the tower's last layer, and this vision "
                "tower has no CLS token, or the model pools its patches: choose a method that needs none, such as "
                "divprune"
            )
        attention, keys = (values[crop.number][crop.patches] for values in crop.encoder.last)
        centres = select_centres(attention, crop.budget - 1, plus=self.plus)
        leaves = torch.ones_like(attention, dtype=torch.bool).index_fill(0, centres, False)
        last = torch.where(leaves, torch.arange(len(leaves), device=leaves.device), -1).amax(dim=0, keepdim=True)
        places = torch.cat([centres, last])
        if self.positions == "compact":
            places = places.sort().values
        return MergedCrop(places, merge_neighbours(attention, keys, crop.hidden, centres))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the CLS rows, of comparing keys, of the sums, and of projecting what is left.

        The number of crops is estimated from the number of visual tokens: nobody says how many crops were cut to fit.
        """
        if not shape.patches or not shape.has_cls:  # the tower is not read, or PruMerge refuses it
            return 0
        crops = shape.crop_shares(sizes.visual, sizes.budget)
        merging = sum((2 * share - 1) * patches * shape.vision_hidden for patches, share in crops)
        return shape.encoder_attention_macs(sizes.visual) + merging + shape.projection_macs(sizes.budget)


def select_centres(attention: ScoresN, count: int, *, plus: bool) -> KeptK:
    """The patches that others merge into, [count] indices in the released order: by falling attention, then samples.

    attention: [N], what the CLS token pays to each patch. Ties go to the lower index.
    count: 0 … N.
    plus: whether s = ⌊count / 2⌋ of them are samples, at floor((i + ½) · N / s). If a sample is among the attended
        patches already, the next patch by attention comes last instead.

    The host does not wait.
    Raises OptionError for a count out of range.
    Source: 42Shawn/LLaVA-PruMerge at 097c041, its fixed mode.
    """
    total = len(attention)
    check_budget(count + 1, total + 1)
    samples = count // 2 if plus else 0
    index = torch.arange(total, device=attention.device)
    rank = torch.empty_like(index).index_copy_(0, attention.argsort(descending=True, stable=True), index)
    sampled = torch.zeros_like(index, dtype=torch.bool)
    if samples:
        sampled.index_fill_(0, to_device(stride(total, samples), index.device), True)
    # Three groups in turn: attended patches by rank, samples by index, all others by rank.
    order = torch.where(rank < count - samples, rank, torch.where(sampled, total + index, 2 * total + rank))
    return order.argsort()[:count]


def merge_neighbours(attention: ScoresN, keys: KeysNE, hidden: FeaturesND, centres: KeptK) -> Tensor:
    """[K + 1, D]: each centre plus its 32 nearest patches, weighted by attention; last, the sum of all other patches.

    new_i = x_i + Σ a_j · x_j over the 32 patches j ≠ i of the largest cosine of keys, centres or not. The sum is
    Σ a_j · x_j over all j that are no centres. The weights are not normalised. Ties go to the lower index. If there are
    fewer than 32 other patches, all of them merge.

    attention: a, [N].
    keys: [N, E], all heads as one.
    hidden: x, [N, D]; the result has its dtype. Sums are taken in float32 at least.
    centres: [K] indices.

    The host waits only for the check of the inputs.
    Raises OptionError for NaN or infinity.
    Source: 42Shawn/LLaVA-PruMerge at 097c041.
    """
    check_finite("attention, keys or hidden states", attention, keys, hidden)
    count, wide, unit = len(centres), widened(hidden), unit_rows(keys)
    itself = centres[:, None]
    similarity = (unit[centres] @ unit.T).scatter_(1, itself, -torch.inf)
    nearest = similarity.argsort(dim=1, descending=True, stable=True)[:, : min(NEIGHBOURS, len(hidden) - 1)]
    attention_KN = attention.to(wide.dtype).expand(count + 1, -1)
    weights_KN = torch.zeros_like(attention_KN).scatter_(1, nearest, attention_KN[:count].gather(1, nearest))
    weights_KN[:count].scatter_(1, itself, 1)
    weights_KN[count] = attention.to(wide.dtype).index_fill(0, centres, 0)
    return (weights_KN @ wide).to(hidden.dtype)
