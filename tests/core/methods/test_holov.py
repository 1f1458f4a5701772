"""HoloV: its division of the budget and its selection by hand, against plain loops, and inside the models."""

import math
from fractions import Fraction

import pytest
import torch

from tests.core.methods import towers
from trio_core.methods.holov import HoloV, add_diversity, chunk_budgets, holov

TWELVE = torch.tensor([0.10, 0.02, 0.02, 0.02, 0.20, 0.05, 0.15, 0.10, 0.12, 0.07, 0.08, 0.07])
STEEP = torch.tensor([0.9, 0.05, 0.02, 0.01, 0.01, 0.01])


# --- worked by hand --------------------------------------------------------------------------------------------------


def test_the_cards_examples():
    """Shares .16, .50, .34 of 5: floors 0, 2, 1, and one more to each of the larger two."""
    assert chunk_budgets(TWELVE, 5, [4, 4, 4]).tolist() == [0, 3, 2]
    assert holov(TWELVE, TWELVE, 5, 3).tolist() == [4, 6, 7, 8, 10]
    assert chunk_budgets(STEEP, 4, [2, 2, 2]).tolist() == [4, 0, 0]  # which is more than the chunk has
    assert holov(STEEP, STEEP, 4, 3).tolist() == [0, 1, 2, 3]  # the released code: 0, 1 and two vectors of zeros


def test_diversity_by_hand():
    """Of two chunks attended to alike, the one whose tokens differ from each other in different degrees counts more.

    Cosines in the first: 1, 0 and 0, so that the variances are 1/4, 1/4 and 0; in the second all 1, and 0.
    """
    features = torch.tensor([(1.0, 0), (1, 0), (0, 1), (1, 1), (1, 1), (2, 2)])
    attention = torch.full((6,), 0.1, dtype=torch.float64)
    scores = add_diversity(attention, features, 0.5, [3, 3])
    # mean A / mean v = 0.1 / (1/12) = 1.2, so that 0.5 · 1.2 · 1/4 = 0.15 comes on top.
    assert scores.tolist() == pytest.approx([0.25, 0.25, 0.1, 0.1, 0.1, 0.1])
    assert chunk_budgets(attention, 4, [3, 3]).tolist() == [2, 2]
    assert chunk_budgets(scores, 4, [3, 3]).tolist() == [3, 1]
    # What is kept within a chunk is the attention's matter, as released.
    attended = torch.tensor([0.1, 0.1, 0.4, 0.2, 0.2, 0.2], dtype=torch.float64)
    assert holov(attended, add_diversity(attended, features, 0.5, [3, 3]), 1, 2).tolist() == [2]


# --- the plain form --------------------------------------------------------------------------------------------------


def cut(count: int, chunks: int) -> list[list[int]]:
    """The tokens of each chunk."""
    parts = [list(range(i, count, chunks)) for i in range(min(chunks, count))]
    numbers = iter(range(count))
    return [[next(numbers) for _ in part] for part in parts]


def plain(attention: list[float], scores: list[float], budget: int, chunks: int) -> list[int]:
    """The card's rule in exact fractions, and what a full chunk passes on."""
    parts = cut(len(attention), chunks)
    means = [sum(Fraction(scores[i]) for i in part) / len(part) for part in parts]
    shares = [mean / sum(means) for mean in means]
    given = [math.floor(share * budget) for share in shares]
    for chunk in sorted(range(len(parts)), key=lambda c: (-shares[c], c))[: budget - sum(given)]:
        given[chunk] += 1
    kept = [
        i for part, most in zip(parts, given, strict=True) for i in sorted(part, key=lambda i: -attention[i])[:most]
    ]
    rest = sorted(set(range(len(attention))) - set(kept), key=lambda i: (-attention[i], i))
    return sorted(kept + rest[: budget - len(kept)])


def plain_diversity(attention: list[float], features: torch.Tensor, weight: float, chunks: int) -> list[float]:
    variances = [0.0] * len(attention)
    unit = torch.nn.functional.normalize(features.double(), dim=-1)
    for part in cut(len(attention), chunks):
        for i in part:
            others = [float(unit[i] @ unit[j]) for j in part if j != i]
            mean = sum(others) / max(len(others), 1)
            variances[i] = sum((c - mean) ** 2 for c in others) / max(len(others), 1)
    scale = sum(attention) / sum(variances) if any(variances) else 0.0
    return [a + weight * scale * v for a, v in zip(attention, variances, strict=True)]


# --- inside the models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "chunks", "diversity"), [(0.17, 16, 0.0), (0.5, 16, 0.0), (0.4, 6, 0.0), (0.6, 3, 2.0)]
)
@towers.families
def test_inside_the_models(family, retention, chunks, diversity):
    """One allocation over all crops, the base crop first; without newlines.

    Not five chunks: each would be a crop of LLaVA-OneVision, and whole crops get the same attention there.
    """

    def choose(crops: list[towers.Crop], budget: int, _one: object) -> list[int]:
        numbers = [crop.numbers[patch] for crop in crops for patch in crop.patches]
        attention = [float(crop.attention[patch]) / crop.heads for crop in crops for patch in crop.patches]
        features = torch.cat([crop.projected[crop.patches] for crop in crops])
        scores = plain_diversity(attention, features, diversity, chunks) if diversity else attention
        return [numbers[i] for i in plain(attention, scores, budget, chunks)]

    towers.check_selection(family, HoloV(retention=retention, chunks=chunks, diversity=diversity), choose)
