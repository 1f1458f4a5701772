"""Selection rules as pure functions: tensors in, ascending indices out. They know no model.

They compute in float32, or float64 for float64 inputs. Ties go to the lower index. Inputs are not changed. Each is
tested against a plain loop and against cases worked by hand.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.rules.checks import check_budget, check_finite
from trio_core.tensors import FeaturesND, KeptK, ScoresN, SimilarityNN, wide_type

_FEW = 64
"""The most tokens that `_cover_by_few` looks at instead of all. The least is a quarter of it."""
_SHARED = 32768
"""torch runs an operator on several threads from this many elements on. For so few, sharing takes longer than the work.
From 2048 tokens on, operators are shared all the same."""


def top_k(scores: ScoresN, budget: int) -> KeptK:
    """[K], ascending: the indices of the K highest scores.

    scores: [N].
    budget: K in 1 … N.

    Raises OptionError for a budget out of range and for scores that are not finite.
    """
    check_budget(budget, len(scores))
    check_finite("scores or features", scores)
    return scores.argsort(descending=True, stable=True)[:budget].sort().values


def stride(count: int, budget: int) -> KeptK:
    """[K] on the CPU, ascending: even steps, ⌊(i + ½) · N / K⌋ for i = 0 … K − 1.

    count: N.
    budget: K in 1 … N.

    Raises OptionError for a budget out of range.
    """
    check_budget(budget, count)
    steps = torch.arange(budget, dtype=torch.long)
    return (2 * steps + 1) * count // (2 * budget)


@torch.no_grad()
def cosine(features: FeaturesND) -> SimilarityNN:
    """[N, N], the cosine of every pair of rows, symmetric to the last bit. A row of zeros has cosine 0 with all.

    features: [N, D].
    """
    unit = F.normalize(features.to(wide_type(features)), dim=-1)
    similarity = unit @ unit.T
    return torch.maximum(similarity, similarity.T)


@torch.no_grad()
def farthest_point(features: FeaturesND, budget: int) -> KeptK:
    """[K], ascending: DivPrune's greedy selection of tokens far from each other (CVPR 2025).

    Distance is 1 − cosine. The first token is the one whose nearest other is farthest away. Each further token is the
    one farthest from its nearest kept token. A kept token is never taken again, which the code leaves to rounding.

    features: [N, D], not normalised.
    budget: K in 1 … N.

    The host waits only for the check of the inputs. Raises OptionError for a budget out of range, and for features that
    are not finite. Source: vbdi/divprune at 799e2d9.
    """
    check_budget(budget, len(features))
    check_finite("scores or features", features)
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
    """[K], ascending: CDPruner's greedy MAP inference of a determinantal point process (NeurIPS 2025).

    Each step takes the token with the largest residual variance, which the kept tokens leave unexplained. Rows of the
    Cholesky factor are computed on the way. The code's kernel is relevance_i · cosine_ij · relevance_j.

    One difference from the code: a residual no larger than rounding (N · ε of the token's own diagonal, the rule of
    LAPACK's `pstrf`) counts as zero, so that a kernel of a rank below K gives no NaN. When nothing positive is left,
    the lowest indices complete the selection.

    kernel: [N, N], symmetric and positive semi-definite.
    budget: K in 1 … N.

    The host waits only for the check of the input. Raises OptionError for a budget out of range, and for a kernel that
    is not finite. Source: Theia-4869/CDPruner at 9541616.
    """
    count = len(kernel)
    check_budget(budget, count)
    check_finite("scores or features", kernel)
    kernel = kernel.to(wide_type(kernel))
    residual = kernel.diagonal()[None].clone()
    # A token counts with its residual if that is above `rounding`, else with the value in `otherwise`.
    limits = torch.cat([count * torch.finfo(kernel.dtype).eps / 2 * residual, torch.zeros_like(residual)])
    rounding, otherwise = limits.split(1)
    taken = torch.cat([kernel.new_full((1, 1), math.inf), kernel.new_full((1, 1), -1)])
    factor, square, picks = torch.empty_like(kernel[:budget]), torch.empty_like(residual), []
    for k in range(budget):
        variance, pick = residual.where(residual > rounding, otherwise).max(dim=1)
        picks.append(pick)
        limits.index_copy_(1, pick, taken)
        known, row = factor[:k], factor[k : k + 1]
        torch.sub(kernel.index_select(0, pick), known.index_select(1, pick).T @ known, out=row)
        # If nothing was left, this divides by 0. Infinity and NaN do no harm: no residual is above `rounding` any more.
        residual.sub_(torch.square(row.div_(variance.sqrt_()), out=square))
    return torch.cat(picks).sort().values


@torch.no_grad()
def facility_location(similarity: SimilarityNN, weights: ScoresN, budget: int) -> KeptK:
    """[K], ascending: SCOPE's greedy selection of tokens that cover the others (NeurIPS 2025).

    Each step takes the token j with the largest Σ_i max(0, S_ij − c_i) · a_j, where c_i says how well the kept tokens
    cover i, 0 at first. A negative similarity covers nothing. When all is covered, the lowest indices complete the
    selection.

    similarity: [N, N], S_ij, how well j covers i.
    weights: [N], a_j, the attention raised to a power.
    budget: K in 1 … N.

    The host waits for a device only to check the inputs. Raises OptionError for a budget out of range, and for a
    similarity or weights that are not finite. Source: kinredon/SCOPE at 6bf7306, its mode "multi".
    """
    check_budget(budget, len(weights))
    check_finite("scores or features", similarity, weights)
    similarity = similarity.to(wide_type(similarity))
    cover = _cover_by_few if similarity.is_cpu and len(weights) > 2 * _FEW else _cover
    return cover(similarity, weights, budget).sort().values


def _cover(similarity: SimilarityNN, weights: ScoresN, budget: int) -> KeptK:
    """[K], the picks of `facility_location` in their order. The host does not wait."""
    cover = similarity.new_zeros(len(weights), 1)
    picks = torch.zeros(budget, dtype=torch.long, device=weights.device)
    uncovered = torch.empty_like(similarity)
    for k in range(budget):
        gain = _gains(similarity, cover, weights, uncovered).index_fill_(0, picks[:k], -math.inf)
        pick = picks[k : k + 1] = gain.argmax(dim=0, keepdim=True)
        cover = torch.maximum(cover, similarity[:, pick])
    return picks


def _cover_by_few(similarity: SimilarityNN, weights: ScoresN, budget: int) -> KeptK:
    """[K], the picks of `_cover`, faster on a CPU. There the host need not wait for a number, and sums take long.

    Gains only fall. So the best of a few tokens is the best of all if it gains more than each other token did when all
    gains were last computed. If the difference may be rounding, as it is at a tie, all gains are computed again.

    similarity: [N, N] with N ≥ 2 · _FEW.
    """
    count, numbers = len(weights), torch.finfo(similarity.dtype)
    size = min(_FEW, max((_SHARED - 1) // count, _FEW // 4))
    surely = 1 - 2 * count * numbers.eps
    cover, picks = similarity.new_zeros(count, 1), torch.zeros(budget, dtype=torch.long)
    uncovered = torch.empty_like(similarity)
    # The few use the same memory, which is free until all gains are computed again.
    columns, uncovered_few = uncovered.as_strided((2, count, size), (count * size, size, 1))
    few, weights_few, limit, misses, pause = picks[:0], weights[:0], 0.0, 0, 0
    for k in range(budget):
        pick = None
        if len(few):
            gains, places = _gains(columns, cover, weights_few, uncovered_few).topk(2)
            best, second = gains.tolist()
            if best * surely > max(second, limit, numbers.tiny):  # a token that was picked gains 0
                pick, misses = few[places[0]], 0
            else:
                pause, misses = 2**misses - 1, misses + 1  # if ties are many, the few are tried less and less often
        if pick is None:
            gain = _gains(similarity, cover, weights, uncovered).index_fill_(0, picks[:k], -math.inf)
            pick, few = gain.argmax(), few[:0]
            if pause == 0:
                gains, few = gain.topk(size + 1)
                few, weights_few, limit = few[:-1], weights[few[:-1]], gains.tolist()[-1]
                torch.index_select(similarity, 1, few, out=columns)
            pause = max(pause - 1, 0)
        picks[k] = pick
        torch.maximum(cover, similarity[:, picks[k : k + 1]], out=cover)
    return picks


def _gains(similarity: Tensor, cover: Tensor, weights: Tensor, uncovered: Tensor) -> Tensor:
    """[M], how much more each token would cover, times its weight. uncovered: [N, M], memory to compute in."""
    return torch.sub(similarity, cover, out=uncovered).clamp_min_(0).sum(dim=0) * weights
