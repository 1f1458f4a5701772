"""Selection rules as pure functions: tensors in, ascending indices out. They know no model.

They compute in float32, or float64 for float64 inputs. Ties go to the lower index. Inputs are not changed. Each is
tested against a plain loop and against cases worked by hand.
"""

import math

import torch
import torch.nn.functional as F

from trio_core.rules.checks import check_budget, check_finite
from trio_core.tensors import FeaturesND, KeptK, ScoresN, SimilarityNN, widened


def top_k(scores: ScoresN, budget: int) -> KeptK:
    """[K], ascending: the indices of the K highest scores.

    scores: [N].
    budget: K in 1 … N.

    Raises OptionError for a budget out of range and for scores that are not finite.
    """
    check_budget(budget, len(scores))
    check_finite("scores", scores)
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


def band_starts(rows: int, columns: int, count: int) -> list[int]:
    """The first cell of each band of a grid with `count` cells, and `count` itself at the end.

    The grid is cut into r ≈ √(count · H / W) bands of rows, as even as can be. Each band has its share of the cells.

    rows, columns: H and W.
    count: 1 … H · W.

    Raises OptionError for a count out of range.
    """
    check_budget(count, rows * columns)
    bands = min(max(round(math.sqrt(count * rows / columns)), math.ceil(count / columns)), rows, count)
    return [band * count // bands for band in range(bands + 1)]


def unit_rows(features: FeaturesND) -> FeaturesND:
    """[N, D], the rows at length one, in at least float32. A row of zeros stays as it is. features: [N, D]."""
    return F.normalize(widened(features), dim=-1)


@torch.no_grad()
def cosine(features: FeaturesND) -> SimilarityNN:
    """[N, N], the cosine of every pair of rows, symmetric to the last bit. A row of zeros has cosine 0 with all.

    features: [N, D].
    """
    unit = unit_rows(features)
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
    check_finite("features", features)
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
    check_finite("similarities or relevances", kernel)
    kernel = widened(kernel)
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
    check_finite("features or weights", similarity, weights)
    similarity = widened(similarity)
    cover, uncovered = similarity.new_zeros(len(weights), 1), torch.empty_like(similarity)
    picks = torch.zeros(budget, dtype=torch.long, device=weights.device)
    for k in range(budget):
        gain = torch.sub(similarity, cover, out=uncovered).clamp_min_(0).sum(dim=0) * weights
        pick = picks[k : k + 1] = gain.index_fill_(0, picks[:k], -math.inf).argmax(dim=0, keepdim=True)
        cover = torch.maximum(cover, similarity[:, pick])
    return picks.sort().values
