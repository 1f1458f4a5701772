"""Selection rules as pure functions: tensors in, ascending indices out, no model known.

Each is tested against the plain form (`equations.py`) or against cases worked by hand.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.tensors import FeaturesND, KeptK, ScoresN

_LEAST_BLOCK = 256


def nms_select(scores: ScoresN, features: FeaturesND, budget: int, threshold: float = 0.8) -> KeptK:
    """Algorithm 1 of the TRIO paper, exactly, without its loop over candidates.

    Greedy suppression keeps the lexicographically first maximal independent set of the graph "similarity ≥ threshold",
    taken in the order of the scores. So candidates are scanned in blocks: those near a token already kept fall out by
    one product, and within a block "kept = alive and near no earlier kept" is repeated until it no longer changes,
    which is the unique solution because each token depends on earlier ones alone.

    scores: [N]; features: [N, D], not normalised; budget: K in 1 … N; threshold: cosine in (−1, 1].
    Returns K indices, ascending; ties go to the lower index; what suppression leaves short is completed by score.
    Raises OptionError for a budget or threshold out of range and for scores or features that are not finite.
    """
    count = len(scores)
    _check_budget(budget, count)
    if not -1 < threshold <= 1:
        raise OptionError(f"threshold {threshold} is outside (-1, 1]")
    unit = F.normalize(features.to(torch.promote_types(features.dtype, torch.float32)), dim=-1)
    _check_finite(scores, unit)
    if budget == count:
        return torch.arange(count, device=scores.device)
    order = scores.argsort(descending=True, stable=True)
    unit = unit[order]
    # A block of the budget's size often is the only one.
    size = max(budget, _LEAST_BLOCK)
    kept = torch.zeros(count, dtype=torch.bool, device=scores.device)
    so_far = 0
    for start in range(0, count, size):
        block = unit[start : start + size]
        alive = torch.ones(len(block), dtype=torch.bool, device=scores.device)
        if so_far:
            alive = (block @ unit[:start][kept[:start]].T < threshold).all(dim=1)
        near_earlier = torch.tril(block @ block.T >= threshold, diagonal=-1)
        settled, now = alive, alive & ~(near_earlier & alive).any(dim=1)
        while not torch.equal(now, settled):
            settled, now = now, alive & ~(near_earlier & now).any(dim=1)
        kept[start : start + size] = now
        so_far += int(now.sum())
        if so_far >= budget:
            break
    # Kept ones first, each group still in the order of the scores: cuts what is too many, completes what is short.
    ranked = order[(~kept).to(torch.uint8).argsort(stable=True)]
    return ranked[:budget].sort().values


def top_k(scores: ScoresN, budget: int) -> KeptK:
    """The `budget` highest scores, as ascending indices; ties go to the lower index.

    Raises OptionError for a budget out of range and for scores that are not finite.
    """
    _check_budget(budget, len(scores))
    _check_finite(scores)
    return scores.argsort(descending=True, stable=True)[:budget].sort().values


def stride(count: int, budget: int) -> KeptK:
    """A uniform one-dimensional grid: floor((i + ½) · N / K) for i = 0 … K − 1, on the CPU. [methods.md, card 10]."""
    _check_budget(budget, count)
    steps = torch.arange(budget, dtype=torch.long)
    return (2 * steps + 1) * count // (2 * budget)


def _check_budget(budget: int, count: int) -> None:
    if not 1 <= budget <= count:
        raise OptionError(f"budget {budget}: can keep 1 … {count} of {count} tokens")


def _check_finite(*inputs: Tensor) -> None:
    # One sum each, and one answer to wait for: a NaN survives it; an infinity too, or becomes one against its opposite.
    if not torch.stack([part.sum().double() for part in inputs]).sum().isfinite():
        raise OptionError(
            "scores or features hold NaN or infinity: the hidden states that entered the stage are broken"
        )
