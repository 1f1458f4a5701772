"""LLaVA-PruMerge and PruMerge+: adaptive token reduction (arXiv 2403.15388)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError, UnsupportedModel
from trio_core.methods.crops import merge_by_crop
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.models.encoder import Encoder
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import shares
from trio_core.rules.selection import stride
from trio_core.tensors import FeaturesND, KeptK, KeysNE, ScoresN, to_device

NEIGHBOURS = 32
"""Tokens that each chosen one takes in."""


@dataclass(frozen=True, kw_only=True)
class PruMerge(Method):
    """Keep the patches that the CLS token attends to in the tower's last layer; each takes in its nearest neighbours.

    One more token, counted in the budget, is the sum of all patches that were not chosen, by their attention.
    plus: PruMerge+, the released default. Of the chosen tokens, half, the smaller one, are samples at even steps over
    the picture beside the attended ones, as many as in the released fixed ratio (72 and 72 of 576); where a sample was
    chosen already, the next most attended patch takes its place.

    The budget is the user's, the released `reduction_ratio` mode; `outlier_ratio` is the rule of the adaptive one. Each
    crop keeps an equal share. The tokens that stay stand in the released order, chosen by attention, samples, the sum
    last, laid over the places that stay.
    """

    plus: bool = True

    name: ClassVar[str] = "prumerge"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title="LLaVA-PruMerge: Adaptive Token Reduction for Efficient Large Multimodal Models",
        arxiv="2403.15388",
        repository="42Shawn/LLaVA-PruMerge",
        commit="097c04116a58465e4bcb58cec44a94018a68ff1a",
        note="A budget of the user's for its adaptive count; in its fixed ratio, samples may be chosen already, and a "
        "token then stands twice; ties go to the lower index; a crop of at most 32 patches merges all of them. It was "
        "made for checkpoints that are tuned with it.",
    )

    def select(self, view: View) -> Selection:
        """Choose and merge crop by crop in the tower's features, and project what is left."""
        if any(p.budget < len(p.rows) for p in view.pictures) and view.encoder.attend_last is None:
            raise UnsupportedModel(
                "prumerge ranks patches by what the CLS token attends to in the tower's last layer, and this vision "
                "tower has no CLS token: choose a method that needs none, as divprune"
            )
        return merge_by_crop(view, self._crop)

    def _crop(self, encoder: Encoder, crop: int, patch: Tensor, budget: int) -> tuple[Tensor, Tensor]:
        assert encoder.last is not None
        attention, keys = (part[crop][patch] for part in encoder.last)
        chosen = attended(attention, budget - 1, plus=self.plus)
        # The sum has no place of its own: it takes that of the last patch that leaves.
        free = torch.ones_like(attention, dtype=torch.bool).index_fill(0, chosen, False)
        last = torch.where(free, torch.arange(len(free), device=free.device), -1).amax(dim=0, keepdim=True)
        return torch.cat([chosen, last]).sort().values, merged(attention, keys, encoder.hidden[crop][patch], chosen)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of each crop's CLS row, of keys compared, of the sums, and of projecting what is left.

        As many crops are counted as the visual tokens make whole: nobody says how many were cut to fit.
        """
        if not shape.patches:  # a family that it does not run on
            return 0
        parts = shares(sizes.budget, shape.crops(sizes.visual))
        merging = sum((2 * share - 1) * shape.patches * shape.vision_hidden for share in parts if share)
        projecting = sizes.budget * (shape.vision_hidden + shape.hidden) * shape.hidden
        return shape.encoder_attention_macs(sizes.visual) + merging + projecting


def attended(attention: ScoresN, count: int, *, plus: bool) -> KeptK:
    """Which patches are chosen, [count] in the released order: the most attended first, then the samples.

    42Shawn/LLaVA-PruMerge at 097c041, its fixed ratio. plus: ⌊count / 2⌋ of them are samples at floor((i + ½) · N / s),
    less those among the attended ones; what that leaves short is filled up by attention, and comes last.

    attention: [N], of the CLS token; ties go to the lower index. count: 0 … N. The host does not wait.
    """
    total = len(attention)
    if not 0 <= count <= total:
        raise OptionError(f"budget {count + 1}: can keep 1 … {total} of {total} tokens")
    samples = count // 2 if plus else 0
    place = torch.arange(total, device=attention.device)
    rank = torch.empty_like(place).index_copy_(0, attention.argsort(descending=True, stable=True), place)
    sampled = torch.zeros_like(place, dtype=torch.bool)
    if samples:
        sampled.index_fill_(0, to_device(stride(total, samples), place.device), True)
    order = torch.where(rank < count - samples, rank, torch.where(sampled, total + place, 2 * total + rank))
    return order.argsort()[:count]


@torch.no_grad()
def merged(attention: ScoresN, keys: KeysNE, hidden: FeaturesND, chosen: KeptK) -> Tensor:
    """Each chosen token plus its 32 nearest others by their attention; behind them all that were not chosen, summed so.

    42Shawn/LLaVA-PruMerge at 097c041. new_i = x_i + Σ a_j x_j over the 32 tokens j ≠ i, chosen or not, of the largest
    cosine of keys; the weights are not normalised; ties go to the lower index; fewer than 32 others are all taken.

    attention: [N]; keys: [N, E], all heads as one; hidden: [N, D]; chosen: [K]. Returns [K + 1, D] in hidden's dtype;
    sums are taken in at least float32. The host waits only for the inputs' check.
    Raises OptionError for inputs that are not finite.
    """
    if not (attention.isfinite().all() & keys.isfinite().all() & hidden.isfinite().all()):
        raise OptionError("attention, keys or hidden states hold NaN or infinity: the encoder's output is broken")
    count, wide = len(chosen), hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    unit = F.normalize(keys.to(wide.dtype), dim=-1)
    itself = chosen[:, None]
    likeness = (unit[chosen] @ unit.T).scatter_(1, itself, -torch.inf)
    nearest = likeness.argsort(dim=1, descending=True, stable=True)[:, : min(NEIGHBOURS, len(hidden) - 1)]
    weights = attention.to(wide.dtype).expand(count + 1, -1)
    taken = torch.zeros_like(weights).scatter_(1, nearest, weights[:count].gather(1, nearest))
    taken[:count].scatter_(1, itself, 1)
    taken[count] = attention.to(wide.dtype).index_fill(0, chosen, 0)
    return (taken @ wide).to(hidden.dtype)


def outlier_ratio(attention: Tensor) -> float:
    """The adaptive mode's share of tokens to keep: those whose attention lies above Q3 + 1.5 · (Q3 − Q1).

    42Shawn/LLaVA-PruMerge at 097c041; quartiles by linear interpolation, over all crops as one. It may be 0. The
    released code keeps int(N · ratio), which rounding can make one less than there are (31 of 39; never of 576), and
    then samples at every int(int(1 / ratio) / 3)-th patch, which fails above a third.

    attention: any shape. The host waits for the answer.
    """
    flat = attention.flatten().to(torch.promote_types(attention.dtype, torch.float32))
    low, high = flat.quantile(0.25), flat.quantile(0.75)
    return int((flat > high + 1.5 * (high - low)).sum()) / len(flat)
