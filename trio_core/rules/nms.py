"""Algorithm 1 of the TRIO paper, faster. The device compares the tokens, and the host decides which of them stay."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.rules.checks import check_budget, check_finite, not_finite
from trio_core.tensors import FeaturesND, KeptK, ScoresN, to_device, widened

_LEAST_BLOCK, _MOST_BLOCK = 64, 256
"""On a CPU, the smallest size of a block of candidates, and the largest size of the first block. Smaller blocks save no
time. Larger ones compare tokens that are suppressed anyway."""
_AT_ONCE = 4096
"""How many candidates an accelerator compares at once. There a wait costs more than a comparison."""

BoolBX = np.ndarray[Any, np.dtype[np.bool_]]
PlacesK = np.ndarray[Any, np.dtype[np.int64]]


@torch.no_grad()
def nms_select(scores: ScoresN, features: FeaturesND, budget: int, threshold: float = 0.8) -> KeptK:
    """[K], ascending: Algorithm 1 (arXiv 2602.04657), exactly. Ties go to the lower index.

    A candidate is suppressed if it is near a kept token with a higher score. Candidates are taken in blocks, highest
    scores first, until the budget is met. The device compares each block with itself and with the tokens kept so far.
    The host reads which pairs are near, and goes through the block token by token. If suppression leaves too few, the
    highest scores complete the selection. Cosines are computed in float32, or in float64 for float64 features.

    scores: [N].
    features: [N, D], not normalised.
    budget: K in 1 … N.
    threshold: cosine from which two tokens are near, in (−1, 1]. A cosine within rounding of it may count as either.

    The host waits once for the first block, and once or twice for each later one. On an accelerator the first block
    holds up to 4096 candidates. On a CPU, where a wait costs nothing, blocks are small.

    Raises OptionError for a budget or threshold out of range, for scores that are not finite, and for features that are
    not finite in a block that is compared.
    """
    check_budget(budget, count := len(scores))
    if not -1 < threshold <= 1:
        raise OptionError(f"threshold {threshold} is outside (-1, 1]")
    if budget == count:
        check_finite("scores or features", scores, features)
        return torch.arange(count, device=scores.device)
    ranked, order = widened(scores).sort(descending=True, stable=True)
    spread = ranked[:1] - ranked[-1:]  # finite only if all scores are
    kept, ranked_places, unit_kept, start = np.empty(0, dtype=np.int64), [], None, 0
    while len(kept) < budget and start < count:
        block = order[start : start + _block_size(budget, len(kept), start, on_cpu=features.is_cpu)]
        unit, finite = _unit_rows(features[block], spread)
        places = np.arange(start, start := start + len(block))
        if unit_kept is not None:  # an accelerator comes here only with more than _AT_ONCE candidates
            is_free, block_places = _read((unit @ unit_kept.T).amax(dim=1, keepdim=True) < threshold, finite, block)
            free = is_free.nonzero()[0]
            if not len(free):
                ranked_places.append(block_places)
                continue
            places, unit = places[free], unit[to_device(torch.from_numpy(free), unit.device)]
        near, block_places = _read(unit @ unit.T >= threshold, finite, block)
        ranked_places.append(block_places)
        new = _greedy(near, budget - len(kept))
        kept = np.concatenate([kept, places[new]])
        if len(kept) < budget and start < count:
            chosen = unit[to_device(torch.from_numpy(new), unit.device)]
            unit_kept = chosen if unit_kept is None else torch.cat([unit_kept, chosen])
    if len(kept) < budget:
        left = np.ones(count, dtype=np.bool_)
        left[kept] = False
        kept = np.concatenate([kept, left.nonzero()[0][: budget - len(kept)]])
    return to_device(torch.from_numpy(np.sort(np.concatenate(ranked_places)[kept])), order.device)


def _block_size(budget: int, kept: int, start: int, *, on_cpu: bool) -> int:
    """How many candidates to compare next, when the first `start` left `kept` of them."""
    if not on_cpu:
        return _AT_ONCE
    if start == 0:
        return min(max(budget, _LEAST_BLOCK), _MOST_BLOCK)
    # If the same share stays as so far, this is a quarter more than are needed.
    return min(max(5 * (budget - kept) * start // (4 * kept), _LEAST_BLOCK), 4 * start)


def _unit_rows(rows: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of length one, [B, D] in at least float32, and [B, 1], which rows are finite.

    rows: [B, D], a copy. It may be overwritten.
    spread: [1], a number that is finite only if all scores are. If it is not finite, no row counts as finite.
    """
    rows = widened(rows)
    norm = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows.div_(norm.clamp_min(1e-12)), torch.maximum(norm, spread) < torch.inf


def _read(answers: Tensor, finite: Tensor, places: Tensor) -> tuple[BoolBX, PlacesK]:
    """[B, X] and [C], the answers and the places copied to the host. The host waits once.

    answers: [B, X].
    finite: [C, 1], which rows are finite.
    places: [C], of the tokens of a block.

    Raises OptionError if a row is not finite.
    """
    parts = (places, answers.flatten(), finite.flatten())
    # As bytes, so that one copy is enough.
    read = torch.cat([part.view(torch.uint8) for part in parts]).numpy(force=True)
    of_places, of_answers, of_finite = np.split(read, np.cumsum([places.nbytes, answers.nbytes]))
    if not of_finite.all():
        raise not_finite("scores or features")
    return of_answers.view(np.bool_).reshape(answers.shape), of_places.view(np.int64)


def _greedy(near: BoolBX, most: int) -> PlacesK:
    """[K], ascending: the places in a block that greedy suppression keeps.

    near: [B, B], which pairs of the block's tokens are near each other.
    most: after so many kept places it stops.
    """
    suppressed, kept = np.zeros(len(near), dtype=np.bool_), []
    for place in range(len(near)):
        if not suppressed[place]:
            kept.append(place)
            if len(kept) == most:
                break
            suppressed |= near[place]
    return np.array(kept, dtype=np.int64)
