"""ToMe: token merging (arXiv 2210.09461), on a vision tower's output."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.crops import Crop, MergedCrop, MergingMethod
from trio_core.methods.method import Reference
from trio_core.rules.checks import check_budget, check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means
from trio_core.rules.selection import unit_rows
from trio_core.tensors import FeaturesND, KeptK, KeysNE, MergedKD


@dataclass(frozen=True, kw_only=True)
class ToMe(MergingMethod):
    """Merge the patches with the most similar keys, pair by pair, until the budget is met.

    The paper merges a few tokens inside every block of the tower, and the tower then runs on fewer. Here the tower runs
    whole, and the rule merges its output, round after round, by the keys of the layer that made it. No attention
    is weighted by sizes. Each crop keeps an equal share. A merged token stands at the place of the patch that the
    others joined.
    """

    name: ClassVar[str] = "tome"
    reference: ClassVar[Reference] = Reference(
        title="Token Merging: Your ViT But Faster",
        arxiv="2210.09461",
        repository="facebookresearch/ToMe",
        commit="af95e4b1befa172dadccd8c81e223b10090f9579",
        licence="CC BY-NC 4.0",
        note="The rule is written from its description, not from the code. It merges the tower's output in rounds, not "
        "inside each block of the tower, so the tower does all of its work. You cannot merge inside the blocks, choose "
        "how many tokens each block merges, or weight attention by sizes (proportional attention). The keys of a later "
        "round are the means of the keys that merged; a block would compute new ones. Merged tokens keep their place "
        "in raster order. Without a class token, the released code puts the unmerged even tokens first, sorted by "
        "falling link. The released code has no decoder.",
    )

    def merge(self, crop: Crop) -> MergedCrop:
        """The patches that others joined, and the means."""
        indices, features, groups = merge_to(crop.keys, crop.hidden, crop.budget)
        return MergedCrop(indices, features, lambda: groups)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of each round's links, of the means, and of projecting what is left.

        A tower that projects its patches itself merges them in the decoder's width, and projects nothing here.
        """
        merging = 0
        for patches, share in shape.crop_shares(sizes.visual, sizes.budget):
            left = patches
            while left > share:
                merging += (left - left // 2) * (left // 2) * shape.patch_key_width
                left = max(share, left - left // 2)
                merging += left * patches * (shape.patch_key_width if left > share else shape.patch_width)
        return merging + shape.projection_macs(sizes.budget)


def bipartite_matching(keys: KeysNE, merges: int) -> KeptK:
    """One round: for each token the index of the token that it joins, [N]. A token that joins none names itself.

    Each token at an even index links to its nearest token at an odd index, by cosine. The strongest links merge. Ties
    go to the lower index.

    keys: [N, E], averaged over heads, not normalised.
    merges: how many links merge, 0 … ⌊N / 2⌋.

    The host does not wait.
    Raises OptionError for more merges than half the tokens.
    Source: ICLR 2023, facebookresearch/ToMe at af95e4b, without a class token. Its order of what is left is: even
    tokens by falling link, then odd tokens.
    """
    count = len(keys)
    if not 0 <= merges <= count // 2:
        raise OptionError(f"merges {merges}: a round can merge 0 … {count // 2} of {count} tokens")
    target = torch.arange(count, device=keys.device)
    if not merges:
        return target
    unit = unit_rows(keys)
    links = unit[0::2] @ unit[1::2].T
    nearest = links.argmax(dim=1)
    strongest = links.amax(dim=1).argsort(descending=True, stable=True)[:merges]
    return target.index_copy_(0, 2 * strongest, 2 * nearest[strongest] + 1)


def merge_to(keys: KeysNE, hidden: FeaturesND, budget: int) -> tuple[KeptK, MergedKD, Tensor]:
    """Merge tokens in rounds of `bipartite_matching` until K are left.

    Returns the indices of those K, [K] ascending; their features, [K, D] in hidden's dtype; and the labels, [N], the
    place among the K of the token that each token went into.
    Each round merges half of the tokens, and the last round as many as are too many. A merged token is the mean of all
    patches behind it. That is the size-weighted mean of the tokens that merged.

    keys: [N, E], averaged over heads.
    hidden: [N, D].
    budget: K, 1 … N.

    The host waits only for the check of the inputs.
    Raises OptionError for a budget out of range, and for NaN or infinity.
    """
    left = len(keys)
    check_budget(budget, left)
    check_finite("keys or hidden states", keys, hidden)
    # indices: of the tokens that are left. group: for each patch, the place among `indices` of its merged token.
    indices = group = torch.arange(left, device=keys.device)
    group_keys = keys
    while left > budget:
        merges = min(left - budget, left // 2)
        target = bipartite_matching(group_keys, merges)
        unmerged = target == torch.arange(left, device=keys.device)
        group = (unmerged.cumsum(dim=0) - 1)[target][group]
        left -= merges
        indices = indices[unmerged.int().argsort(descending=True, stable=True)[:left]]
        if left > budget:
            group_keys = cluster_means(keys, group, left)
    return indices, hidden if left == len(hidden) else cluster_means(hidden, group, left), group
