"""ToMe: token merging (arXiv 2210.09461), on a vision tower's output."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.crops import merge_by_crop
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.models.encoder import Encoder
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means
from trio_core.rules.schedule import shares
from trio_core.tensors import FeaturesND, KeptK, KeysNE, MergedKD


@dataclass(frozen=True, kw_only=True)
class ToMe(Method):
    """Merge the patches of the most similar keys, pair by pair, until the budget is met; then project.

    The paper merges a few tokens inside every block of the tower, which then runs on fewer. Here the tower is left as
    it is and runs whole: the rule is applied to its output, round after round, with the keys of the layer that made
    it. So the decoder's saving is had and the tower's is not, and no attention is weighted by sizes.
    Each crop keeps an equal share. A merged token stands at the place of the one that the others joined.
    """

    name: ClassVar[str] = "tome"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title="Token Merging: Your ViT But Faster",
        arxiv="2210.09461",
        repository="facebookresearch/ToMe",
        commit="af95e4b1befa172dadccd8c81e223b10090f9579",
        note="Its code is CC BY-NC 4.0 (non-commercial); the rule is restated here from its description. Rounds on the "
        "tower's output instead of one in each of its blocks, so that the tower saves nothing; a later round's keys "
        "are the means of those that merged, where a block would make new ones; places stay ascending, where the "
        "released code without a class token puts the unmerged even tokens first, by descending link.",
    )

    def select(self, view: View) -> Selection:
        """Merge crop by crop in the tower's features, and project what is left."""
        return merge_by_crop(view, _crop)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of each round's links, of the means, and of projecting what is left.

        A tower that projects its patches itself has done so, and they merge in the decoder's width.
        """
        if not shape.vision_hidden:  # a family that it does not run on
            return 0
        crops, width = shape.crops(sizes.visual), shape.hidden if shape.merged else shape.vision_hidden
        key_width, merging = shape.vision_hidden // shape.vision_heads, 0
        for patches, share in zip(crops, shares(sizes.budget, crops), strict=True):
            left = patches
            while share and left > share:
                merging += (left - left // 2) * (left // 2) * key_width
                left = max(share, left - left // 2)
                merging += left * patches * (key_width if left > share else width)
        return merging + (0 if shape.merged else sizes.budget * (shape.vision_hidden + shape.hidden) * shape.hidden)


def _crop(encoder: Encoder, crop: int, patch: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    return merge_to(encoder.keys[crop].mean(dim=1)[patch], encoder.hidden[crop][patch], budget)


@torch.no_grad()
def bipartite(metric: KeysNE, merges: int) -> KeptK:
    """One round of bipartite soft matching: of each token, the place of the one that it belongs to from now on.

    ICLR 2023, facebookresearch/ToMe at af95e4b, without a class token. Tokens at even places each link to the nearest
    of those at odd places, by cosine; the `merges` strongest links merge; every other token belongs to itself. The
    released order of what is left is: even ones by descending link, then the odd ones.

    metric: [N, E], keys averaged over heads, not normalised; merges: 0 … ⌊N / 2⌋. Returns [N]; ties go to the lower
    index. The host does not wait. Raises OptionError for more merges than half the tokens.
    """
    count = len(metric)
    if not 0 <= merges <= count // 2:
        raise OptionError(f"merges {merges}: a round can merge 0 … {count // 2} of {count} tokens")
    owner = torch.arange(count, device=metric.device)
    if not merges:
        return owner
    unit = F.normalize(metric.to(torch.promote_types(metric.dtype, torch.float32)), dim=-1)
    links = unit[0::2] @ unit[1::2].T
    nearest = links.argmax(dim=1)
    strongest = links.amax(dim=1).argsort(descending=True, stable=True)[:merges]
    return owner.index_copy_(0, 2 * strongest, 2 * nearest[strongest] + 1)


@torch.no_grad()
def merge_to(keys: KeysNE, hidden: FeaturesND, budget: int) -> tuple[KeptK, MergedKD]:
    """Rounds of `bipartite` until `budget` tokens are left: each merges half of them, the last one what is too many.

    A merged token is the mean of all patches behind it, which is the size-weighted mean of those that met in it.

    keys: [N, E], averaged over heads; hidden: [N, D]; budget: K in 1 … N. Returns the places that stay, [K] ascending,
    and what stands there, [K, D] in hidden's dtype. The host waits only for the inputs' check.
    Raises OptionError for a budget out of range and for keys or hidden states that are not finite.
    """
    left = len(keys)
    if not 1 <= budget <= left:
        raise OptionError(f"budget {budget}: can keep 1 … {left} of {left} tokens")
    if not (keys.isfinite().all() & hidden.isfinite().all()):
        raise OptionError("keys or hidden states hold NaN or infinity: the encoder's output is broken")
    places = group = torch.arange(left, device=keys.device)
    metric, made = keys, hidden
    while left > budget:
        merges = min(left - budget, left // 2)
        owner = bipartite(metric, merges)
        stays = owner == torch.arange(left, device=keys.device)
        group = (stays.cumsum(dim=0) - 1)[owner][group]
        left -= merges
        places = places[stays.int().argsort(descending=True, stable=True)[:left]]
        if left > budget:
            metric = cluster_means(keys, group, left)
        else:
            made = cluster_means(hidden, group, left)
    return places, made
