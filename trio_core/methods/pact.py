"""PACT: pruning and clustering-based token reduction (arXiv 2504.08966)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.attention import rotate
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means
from trio_core.rules.schedule import Layers, default_layers
from trio_core.rules.selection import cosine, top_k
from trio_core.tensors import KeptK, KeysNE

RECOVERY = 1.5
"""How many cutoffs away from a centre a dropped token may lie and still be merged into it."""


def importance(query: Tensor, keys: Tensor, hidden: Tensor, seen: Tensor) -> Tensor:
    """EUTI's score of each token: what a mean query attends to, times the hidden state's norm; [S].

    CVPR 2025, orailix/PACT at cf9a0c9. The mean query of each head is that of all tokens seen, those before the picture
    included; score = head-mean softmax(q̄ · k / √E) · ‖hidden‖₂, where the softmax runs over the tokens seen.

    query: [S, H, E] and keys: [S, N, E], before rotary; H / N query heads read one key head. hidden: [S, D], before the
    layer's norm. seen: [S], True up to the picture's last token. Scores are float32 (float64 for float64 inputs), and 0
    at tokens that are not seen.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    mean_HE = query.to(wide).masked_fill(~seen[:, None, None], 0).sum(dim=0) / seen.sum()
    mean_NGE = mean_HE.unflatten(0, (keys.shape[1], -1))
    logits_NGS = mean_NGE @ keys.to(wide).permute(1, 2, 0) / keys.shape[-1] ** 0.5
    weights = logits_NGS.masked_fill(~seen, -torch.inf).softmax(dim=-1).flatten(0, 1).mean(dim=0)
    return weights * torch.linalg.vector_norm(hidden.to(wide), dim=-1).masked_fill(~seen, 0)


@torch.no_grad()
def dbdpc(keys: KeysNE, survivors: Tensor, budget: int) -> tuple[KeptK, Tensor]:
    """Distance-bounded density peaks: `budget` of the survivors as centres, and the centre that each token joins.

    CVPR 2025, orailix/PACT at cf9a0c9. Distance is 1 − cosine; a survivor's density is Σ exp(−(distance / 2)²) over all
    of them, of which only the order counts: in a tie the lower index is the denser one. Deliberate difference: the
    released cutoff of 0.21 leaves as many centres as it may, so here it is the least that leaves `budget`: centres are
    the survivors farthest from any denser one, and the cutoff is the distance of the first that is none; 0 where all
    are. (Released, a centre is farther than the cutoff from any denser *centre*, which is a few more of them.) Every
    other survivor joins the centre nearest to it, and so does a token that was dropped within 1.5 cutoffs of one.

    keys: [N, E] of the picture, heads side by side, as distances are taken; survivors: [M] ascending indices; budget: K
    in 1 … M. Returns the centres, [K] ascending indices, and labels, [N]: the number of the centre that a token joins,
    −1 for none. Ties go to the lower index. The host never waits. Raises OptionError for a budget out of range.
    """
    count, left = len(keys), len(survivors)
    if not 1 <= budget <= left:
        raise OptionError(f"budget {budget}: can make centres of 1 … {left} of {left} surviving tokens")
    distance = cosine(keys[survivors]).neg_().add_(1).clamp_min_(0).fill_diagonal_(0)
    order = (distance / 2).square().neg().exp().sum(dim=1).argsort(descending=True, stable=True)
    later = torch.ones_like(distance, dtype=torch.bool).triu()
    to_denser = distance[order][:, order].masked_fill(later, torch.inf).amin(dim=1)
    apart = torch.empty_like(to_denser).index_copy_(0, order, to_denser)
    ranked = apart.argsort(descending=True, stable=True)
    centres = ranked[:budget].sort().values
    cutoff = apart[ranked[budget : budget + 1]] if budget < left else apart.new_zeros(1)

    number = torch.arange(budget, device=keys.device)
    labels = torch.empty(count, dtype=torch.long, device=keys.device)
    labels[survivors] = distance[:, centres].argmin(dim=1).index_copy_(0, centres, number)
    dropped = torch.ones_like(labels).index_fill_(0, survivors, 0).argsort(descending=True, stable=True)[: count - left]
    unit = F.normalize(keys.to(distance.dtype), dim=-1)
    nearest = (1 - unit[dropped] @ unit[survivors[centres]].T).clamp_min_(0).min(dim=1)
    labels[dropped] = nearest.indices.where(nearest.values <= RECOVERY * cutoff, -1)
    return survivors[centres], labels


@dataclass(frozen=True, kw_only=True)
class Pact(Method):
    """Drop before the fifth layer what nothing looks at, and merge what is left by density peaks of its keys.

    share: of the visual tokens, those that survive the pruning and are clustered; never fewer than the budget.
    merge: a kept token becomes the mean of its cluster; else it stays as it is, and the others of its cluster go.
    """

    share: float = 0.55
    merge: bool = True

    name: ClassVar[str] = "pact"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    reference: ClassVar[Reference] = Reference(
        title="PACT: Pruning and Clustering-Based Token Reduction for Faster Visual Language Models",
        arxiv="2504.08966",
        repository="orailix/PACT",
        commit="cf9a0c9ff4820cb5bb1a4c97d9d92f4b838a3a52",
        note="The cutoff is the one that leaves the budget's number of centres, where a fixed one of 0.21 lets the "
        "picture decide; a centre is far from any denser token, there from any denser centre. The log of a cluster's "
        "size is not added to its key's scores in later layers (proportional attention): that takes a kernel with a "
        "bias, and the model's own stays.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise OptionError(f"share {self.share} is outside (0, 1]")

    def default_layers(self, num_layers: int) -> Layers:
        """After four layers of 32, as of 28, and in proportion elsewhere."""
        return default_layers(num_layers, (4,))

    def select(self, view: View) -> Selection:
        """Queries and keys are those of the layer that comes next; means are taken of what enters it."""
        call = view.probed("next")
        layer = call.attention()
        normed = layer.norm(call.hidden)
        query, keys = layer.query(normed), layer.key(normed)
        rotated = rotate(keys, *call.rotary).flatten(2)
        place = torch.arange(view.valid.shape[1], device=view.valid.device)
        kept, scores, features = [], [], []
        for sample, picture in enumerate(view.pictures):
            seen = view.valid[sample] & (place <= picture.rows[-1])
            ours = importance(query[sample], keys[sample], call.hidden[sample], seen)[picture.rows]
            survivors = top_k(ours, self._survivors(len(picture.rows), picture.budget))
            centres, labels = dbdpc(rotated[sample, picture.rows], survivors, picture.budget)
            kept.append(centres)
            scores.append(ours)
            if self.merge:
                features.append(cluster_means(view.features(sample), labels, picture.budget))
        return Selection(tuple(kept), tuple(scores), tuple(features) if self.merge else None)

    def _survivors(self, visual: int, budget: int) -> int:
        return max(int(self.share * visual), budget)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of all tokens' queries and keys, of one query's scores, of the distances, and of the means."""
        survivors = self._survivors(sizes.visual, sizes.budget)
        each_token = shape.hidden * (shape.query_width + shape.kv_width) + shape.query_width
        distances = (survivors**2 + (sizes.visual - survivors) * sizes.budget) * shape.kv_width
        means = sizes.budget * sizes.visual * shape.hidden if self.merge else 0
        return sizes.tokens * each_token + distances + means
