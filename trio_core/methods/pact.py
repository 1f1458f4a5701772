"""PACT: pruning and clustering-based token reduction (arXiv 2504.08966)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.methods.method import Method, Reference, within
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.attention import rotate
from trio_core.rules.checks import check_budget
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import nearest_centre, to_denser
from trio_core.rules.selection import cosine, top_k, unit_rows
from trio_core.tensors import KeptK, KeysNE, widened

RECOVERY = 1.5
"""A dropped token is merged into a centre that lies within this many cutoffs."""


def importance(query: Tensor, keys: Tensor, hidden: Tensor, counts: Tensor) -> Tensor:
    """[S], EUTI's score of each token: the attention of a mean query, times the norm of the hidden state.

    The mean query of a head is that of all tokens up to the picture's last one, the text before the picture included.
    The score is the mean over heads of softmax(mean query · k / √E), times ‖hidden‖₂. Computed in float32, or float64
    for float64 inputs. It is 0 at tokens that do not count.

    query: [S, H, E], before rotary.
    keys: [S, N, E], before rotary. H / N query heads read one key head.
    hidden: [S, D], the layer's input before its norm.
    counts: [S], True at the tokens up to the picture's last one.

    Source: orailix/PACT at cf9a0c9.
    """
    mean_HE = widened(query).masked_fill(~counts[:, None, None], 0).sum(dim=0) / counts.sum()
    mean_NGE = mean_HE.unflatten(0, (keys.shape[1], -1))
    logits_NGS = mean_NGE @ widened(keys).permute(1, 2, 0) / keys.shape[-1] ** 0.5
    weights = logits_NGS.masked_fill(~counts, -torch.inf).softmax(dim=-1).flatten(0, 1).mean(dim=0)
    return weights * torch.linalg.vector_norm(widened(hidden), dim=-1).masked_fill(~counts, 0)


def dbdpc(keys: KeysNE, survivors: Tensor, budget: int) -> tuple[KeptK, Tensor]:
    """Cluster the survivors by density peaks (DBDPC): the centres, [K] ascending, and each token's cluster, [N].

    A cluster is named by the number of its centre, 0 … K − 1; −1 is a token in no cluster. Distance is 1 − cosine. A
    survivor's density is Σ exp(−(distance / 2)²) over all survivors. Centres are the `budget` survivors farthest from
    any denser one, and the cutoff is that distance of the next survivor (0 if all are centres). Every other survivor
    joins the nearest centre. A dropped token joins it too, if it lies within 1.5 cutoffs. Ties go to the lower index.

    The code has a fixed cutoff of 0.21, which decides the number of centres, and takes a survivor as a centre if it is
    farther than the cutoff from any denser centre.

    keys: [N, E], the picture's keys, heads side by side.
    survivors: [M], ascending indices of the tokens that are clustered.
    budget: K in 1 … M.

    The host never waits for the device. Raises OptionError for a budget out of range. Source: orailix/PACT at cf9a0c9.
    """
    count, left = len(keys), len(survivors)
    check_budget(budget, left)
    distance = cosine(keys[survivors]).neg_().add_(1).clamp_min_(0).fill_diagonal_(0)
    apart = to_denser(distance, (distance / 2).square().neg().exp().sum(dim=1))
    ranked = apart.argsort(descending=True, stable=True)
    centres = ranked[:budget].sort().values
    cutoff = apart[ranked[budget : budget + 1]] if budget < left else apart.new_zeros(1)

    labels = torch.empty(count, dtype=torch.long, device=keys.device)
    labels[survivors] = nearest_centre(distance, centres)
    dropped = torch.ones_like(labels).index_fill_(0, survivors, 0).argsort(descending=True, stable=True)[: count - left]
    unit = unit_rows(keys)
    nearest = (1 - unit[dropped] @ unit[survivors[centres]].T).clamp_min_(0).min(dim=1)
    labels[dropped] = nearest.indices.where(nearest.values <= RECOVERY * cutoff, -1)
    return survivors[centres], labels


@dataclass(frozen=True, kw_only=True)
class Pact(Method):
    """Drop the visual tokens that receive little attention, and merge the others by their keys.

    Density peaks of the keys make the clusters that are merged.

    share: share of the visual tokens that survive the dropping and are clustered, in (0, 1]. Never fewer than the
        budget survive.
    merge: whether a kept token becomes the mean of its cluster. False leaves it as it is.
    """

    share: float = within("(0, 1]", 0.55)
    merge: bool = True

    name: ClassVar[str] = "pact"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    paper_layers: ClassVar[tuple[int, ...]] = (4,)
    reference: ClassVar[Reference] = Reference(
        title="PACT: Pruning and Clustering-Based Token Reduction for Faster Visual Language Models",
        arxiv="2504.08966",
        repository="orailix/PACT",
        commit="cf9a0c9ff4820cb5bb1a4c97d9d92f4b838a3a52",
        note="The cutoff follows from the budget: it is the one that leaves as many centres as the budget allows. The "
        "code fixes it at 0.21, so that the picture decides how many tokens stay. You cannot give a cutoff here. A "
        "centre is far from every denser token; in the code it is far from every denser centre. In later layers the "
        "code also adds the log of a cluster's size to the scores of its key (proportional attention). You cannot have "
        "it here, because the model keeps its own kernel.",
    )

    def select(self, view: View) -> Selection:
        """Queries and keys are those of the next layer. Merged tokens are means of that layer's input."""
        call = view.probed("next")
        layer = call.attention()
        normed = layer.norm(call.hidden)
        query, keys = layer.query(normed), layer.key(normed)
        rotated = rotate(keys, *call.rotary).flatten(2)
        places = torch.arange(view.valid.shape[1], device=view.valid.device)
        scores, clusters = [], []
        for sample in view.samples:
            counts = view.valid[sample.index] & (places <= sample.rows[-1])
            score_S = importance(query[sample.index], keys[sample.index], call.hidden[sample.index], counts)
            scores.append(score_S[sample.rows])
            survivors = top_k(scores[-1], self._survivors(len(sample.rows), sample.budget))
            clusters.append(dbdpc(rotated[sample.index, sample.rows], survivors, sample.budget))
        if self.merge:
            return view.merged(clusters, tuple(scores))
        return Selection(tuple(centres for centres, _ in clusters), tuple(scores))

    def _survivors(self, visual: int, budget: int) -> int:
        """How many of `visual` tokens are clustered."""
        return max(int(self.share * visual), budget)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of all queries and keys, of one query's scores, of the distances and of the means."""
        survivors = self._survivors(sizes.visual, sizes.budget)
        each_token = shape.hidden * (shape.query_width + shape.kv_width) + shape.query_width
        distances = (survivors**2 + (sizes.visual - survivors) * sizes.budget) * shape.kv_width
        means = sizes.budget * sizes.visual * shape.hidden if self.merge else 0
        return sizes.tokens * each_token + distances + means
