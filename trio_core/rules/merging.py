"""Merging rules as pure functions: the tokens that a selection left over, folded into a few of their own."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.tensors import FeaturesND, KeptK, KeysNE, MergedKD


def contextual(keys: KeysNE, hidden: FeaturesND, count: int) -> tuple[KeptK, MergedKD]:
    """VisionZip's contextual tokens: targets at even steps, each plus the mean of the tokens nearest to it.

    CVPR 2025, dvlab-research/VisionZip at 3151f6d. The first `count` of positions 0, s, 2s, … with s = ⌊N / count⌋ are
    targets; every other token goes to the target of the largest cosine, ties to the lower index; a contextual token is
    its target's hidden state + the mean of those assigned to it, a sum as in the public code and not an average.

    keys: [N, E], averaged over heads, and hidden: [N, D], of the tokens left when the dominant ones are out, in raster
    order; count: C in 1 … N. Returns the targets' places, [C] ascending, and the contextual tokens, [C, D] in hidden's
    dtype; means are taken in float32 (float64 for float64 inputs). The host waits only for the inputs' check.
    Raises OptionError for a count out of range and for keys or hidden states that are not finite.
    """
    remaining = len(keys)
    if not 1 <= count <= remaining:
        raise OptionError(f"contextual {count}: can merge into 1 … {remaining} of {remaining} remaining tokens")
    if not (keys.isfinite().all() & hidden.isfinite().all()):
        raise OptionError("keys or hidden states hold NaN or infinity: the encoder's output is broken")
    targets = torch.arange(count, device=keys.device) * (remaining // count)
    unit = F.normalize(keys.to(torch.promote_types(keys.dtype, torch.float32)), dim=-1)
    nearest = (unit @ unit[targets].T).argmax(dim=1)
    wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    # A product with zeros and ones instead of scattered sums, whose order would change from run to run on a GPU.
    assigned = F.one_hot(nearest, count).index_fill_(0, targets, 0).T.to(wide.dtype)
    mean = assigned @ wide / assigned.sum(dim=1, keepdim=True).clamp_min(1)
    return targets, (wide[targets] + mean).to(hidden.dtype)


def cluster_means(hidden: FeaturesND, labels: Tensor, count: int) -> MergedKD:
    """The mean of each cluster's members, [K, D] in hidden's dtype; taken in float32 (float64 for float64 inputs).

    hidden: [N, D]. labels: [N] the cluster of each token, 0 … K − 1, and −1 for a token in none. count: K, none empty.
    """
    wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    # A product with zeros and ones instead of scattered sums, whose order would change from run to run on a GPU.
    members = (labels == torch.arange(count, device=labels.device)[:, None]).to(wide.dtype)
    return (members @ wide / members.sum(dim=1, keepdim=True)).to(hidden.dtype)
