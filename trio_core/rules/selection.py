"""Selection rules as pure functions: tensors in, ascending indices out, no model known.

Each is tested against the plain form (`equations.py`, or a loop beside its test) and against cases worked by hand. They
compute in float32 or, for float64 inputs, in float64; ties go to the lower index; inputs stay as they are.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.tensors import FeaturesND, KeptK, ScoresN, SimilarityNN

# Candidates of `nms_select` in its first block. Fewer save no time; more waste products on tokens that fall out.
_LEAST_BLOCK, _MOST_BLOCK = 64, 256
_PASSES = 4
"""Settling passes of `nms_select` between two looks at whether anything still changes."""


@torch.no_grad()
def nms_select(scores: ScoresN, features: FeaturesND, budget: int, threshold: float = 0.8) -> KeptK:
    """Algorithm 1 of the TRIO paper, exactly, without its loop over candidates.

    Greedy suppression keeps the lexicographically first maximal independent set of the graph "similarity ≥ threshold",
    taken in the order of the scores. So candidates are scanned in blocks until the budget is met: those near a token
    already kept fall out by one product, and within a block "kept = near no earlier kept" is repeated until it no
    longer changes, which is the unique solution because each token depends on earlier ones alone.

    scores: [N]; features: [N, D], not normalised; budget: K in 1 … N; threshold: cosine in (−1, 1].
    Returns K indices, ascending; ties go to the lower index; what suppression leaves short is completed by score.
    A cosine within rounding of the threshold may fall on either side, as it may in the plain form.
    The host waits for the device once for the inputs' check, and in each block once for the candidates that are left
    (not in the first) and once for every four links of the longest chain of suppression. A block is as long as all
    before it if need be, so that their number grows with the logarithm of N.
    Raises OptionError for a budget or threshold out of range and for scores or features that are not finite.
    """
    count = len(scores)
    _check_budget(budget, count)
    if not -1 < threshold <= 1:
        raise OptionError(f"threshold {threshold} is outside (-1, 1]")
    _check_finite(scores, features)
    if budget == count:
        return torch.arange(count, device=scores.device)
    order = scores.argsort(descending=True, stable=True)
    precision = _precision(features)
    kept, unit_kept, start = order[:0], features[:0].to(precision), 0
    while len(kept) < budget and start < count:
        # A quarter more candidates than are needed if the same share of them stays as so far.
        size = 5 * (budget - len(kept)) * start // (4 * len(kept)) if start else budget
        block = order[start : start + min(max(size, _LEAST_BLOCK), start or _MOST_BLOCK)]
        start += len(block)
        unit = features[block].to(precision)
        F.normalize(unit, dim=-1, out=unit)
        if len(kept):
            free = ((unit @ unit_kept.T).amax(dim=1) < threshold).nonzero().flatten()
            if not len(free):
                continue
            block, unit = block[free], unit[free]
        new = _settle((unit @ unit.T).ge_(threshold).tril_(diagonal=-1), budget - len(kept))
        kept = torch.cat([kept, block[new]])
        if len(kept) < budget:
            unit_kept = torch.cat([unit_kept, unit[new]])
    if len(kept) < budget:
        left = torch.ones_like(order, dtype=torch.bool).index_fill_(0, kept, False)
        kept = torch.cat([kept, order[_first_true(left[order], budget - len(kept))]])
    return kept.sort().values


def _settle(near_earlier: Tensor, most: int) -> Tensor:
    """The first places, at most so many, that greedy suppression keeps.

    near_earlier: [B, B] zeros and ones, zero from the diagonal on. The host waits once for every four passes.
    """
    kept, count = torch.ones_like(near_earlier[0]), -1
    while count < 0:
        before = kept
        for _ in range(_PASSES):
            before, kept = kept, torch.mv(near_earlier, kept).eq_(0)
        count = int(kept.sum().where((kept == before).all(), -1))
    return _first_true(kept, min(count, most))


def _first_true(marks: Tensor, count: int) -> Tensor:
    """The places of the first `count` ones among zeros, ascending. Who knows that there are so many need not wait."""
    return marks.int().argsort(descending=True, stable=True)[:count]


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


@torch.no_grad()
def cosine(features: FeaturesND) -> SimilarityNN:
    """The cosine of every pair of rows, [N, N], symmetric to the last bit; zeros are at a right angle to all."""
    unit = F.normalize(features.to(_precision(features)), dim=-1)
    similarity = unit @ unit.T
    return torch.maximum(similarity, similarity.T)


@torch.no_grad()
def farthest_point(features: FeaturesND, budget: int) -> KeptK:
    """DivPrune's greedy max–min diversity: the most isolated token, then always the one farthest from those kept.

    CVPR 2025, vbdi/divprune at 799e2d9. Distance is 1 − cosine; the first pick is the token whose nearest other is
    farthest away. The minimum over those kept runs along instead of being recomputed, and a kept token is never picked
    again, which the public code leaves to its distance of about 0.

    features: [N, D], not normalised; budget: K in 1 … N. Returns K indices, ascending. The host waits only for the
    inputs' check. Raises OptionError for a budget out of range and for features that are not finite.
    """
    _check_budget(budget, len(features))
    _check_finite(features)
    distance = cosine(features).neg_().add_(1)
    nearest = distance.fill_diagonal_(math.inf).amin(dim=0, keepdim=True)
    distance.fill_diagonal_(-math.inf)
    picks = [nearest.argmax(dim=1)]
    nearest = distance[picks[0]]
    for _ in range(1, budget):
        picks.append(nearest.argmax(dim=1))
        nearest = torch.minimum(nearest, distance[picks[-1]])
    return torch.cat(picks).sort().values


@torch.no_grad()
def dpp_map(kernel: SimilarityNN, budget: int) -> KeptK:
    """CDPruner's greedy MAP of a determinantal point process, by rows of the Cholesky factor.

    NeurIPS 2025, Theia-4869/CDPruner at 9541616; the kernel is relevance_i · cosine_ij · relevance_j there. Each pick
    has the largest residual diagonal, the variance that those kept leave unexplained. Deliberate difference: a residual
    that rounding alone may have left (N · ε of the token's own diagonal, LAPACK's rule for `pstrf`) counts as zero, so
    that a kernel of a rank below K gives no NaN; when nothing positive is left, the lowest indices complete the choice.

    kernel: [N, N], symmetric and positive semi-definite; budget: K in 1 … N. Returns K indices, ascending. The host
    waits only for the input's check. Raises OptionError for a budget out of range and for a kernel that is not finite.
    """
    count = len(kernel)
    _check_budget(budget, count)
    _check_finite(kernel)
    kernel = kernel.to(_precision(kernel))
    residual = kernel.diagonal()
    rounding = count * torch.finfo(kernel.dtype).eps / 2 * residual
    factor = kernel.new_zeros(budget, count)
    picks = torch.zeros(budget, dtype=torch.long, device=kernel.device)
    for k in range(budget):
        residual = residual.where(residual > rounding, 0).index_fill_(0, picks[:k], -1)
        pick = picks[k : k + 1] = residual.argmax(dim=0, keepdim=True)
        variance = residual[pick]
        unexplained = kernel[pick] - factor[:k, pick].T @ factor[:k]
        factor[k : k + 1] = unexplained / variance.where(variance > 0, math.inf).sqrt()
        residual = residual - factor[k].square()
    return picks.sort().values


@torch.no_grad()
def facility_location(similarity: SimilarityNN, weights: ScoresN, budget: int) -> KeptK:
    """SCOPE's greedy coverage: each pick adds most of Σ_i max(0, S_ij − c_i) · a_j, where c_i is i's best cover so far.

    NeurIPS 2025, kinredon/SCOPE at 6bf7306, its mode "multi"; `weights` is a_j, the attention to the power it asks for.
    Covers start from 0, so that a negative similarity covers nothing; once all is covered, the lowest indices follow.

    similarity: [N, N], S_ij says how well j covers i; weights: [N]; budget: K in 1 … N. Returns K indices, ascending.
    The host waits only for the inputs' check. Raises OptionError for a budget out of range and for a similarity or
    weights that are not finite.
    """
    _check_budget(budget, len(weights))
    _check_finite(similarity, weights)
    similarity = similarity.to(_precision(similarity))
    cover = similarity.new_zeros(len(weights), 1)
    picks = torch.zeros(budget, dtype=torch.long, device=weights.device)
    uncovered = torch.empty_like(similarity)
    for k in range(budget):
        torch.sub(similarity, cover, out=uncovered).clamp_min_(0)
        gain = (uncovered.sum(dim=0) * weights).index_fill_(0, picks[:k], -math.inf)
        pick = picks[k : k + 1] = gain.argmax(dim=0, keepdim=True)
        cover = torch.maximum(cover, similarity[:, pick])
    return picks.sort().values


def _precision(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def _check_budget(budget: int, count: int) -> None:
    if not 1 <= budget <= count:
        raise OptionError(f"budget {budget}: can keep 1 … {count} of {count} tokens")


def _check_finite(*inputs: Tensor) -> None:
    # One pass each, and one answer to wait for: both extremes of a tensor with a NaN are NaN, and an infinity is one.
    if not math.isfinite(sum(low.double() + high for low, high in map(torch.aminmax, inputs))):
        raise OptionError(
            "scores or features hold NaN or infinity: the hidden states that entered the stage are broken"
        )
