"""HoloV: its division of the budget and its selection by hand, against plain loops, and inside the models."""

import math
from fractions import Fraction

import pytest
import torch

from tests.core.methods import towers
from trio_core.methods.holov import HoloV, chunk_budgets, holov

TWELVE = torch.tensor([0.10, 0.02, 0.02, 0.02, 0.20, 0.05, 0.15, 0.10, 0.12, 0.07, 0.08, 0.07])
STEEP = torch.tensor([0.9, 0.05, 0.02, 0.01, 0.01, 0.01])


# --- worked by hand --------------------------------------------------------------------------------------------------


def test_the_cards_examples():
    """Shares .16, .50, .34 of 5: floors 0, 2, 1, and one more to each of the larger two."""
    assert chunk_budgets(TWELVE, 5, [4, 4, 4]).tolist() == [0, 3, 2]
    assert holov(TWELVE, 5, 3).tolist() == [4, 6, 7, 8, 10]
    assert chunk_budgets(STEEP, 4, [2, 2, 2]).tolist() == [4, 0, 0]  # which is more than the chunk has
    assert holov(STEEP, 4, 3).tolist() == [0, 1, 2, 3]  # the released code: 0, 1 and two vectors of zeros


# --- the plain form --------------------------------------------------------------------------------------------------


def cut(count: int, chunks: int) -> list[list[int]]:
    """The tokens of each chunk."""
    parts = [list(range(i, count, chunks)) for i in range(min(chunks, count))]
    numbers = iter(range(count))
    return [[next(numbers) for _ in part] for part in parts]


def plain(attention: list[float], budget: int, chunks: int) -> list[int]:
    """The card's rule in exact fractions, and what a full chunk passes on."""
    parts = cut(len(attention), chunks)
    means = [sum(Fraction(attention[i]) for i in part) / len(part) for part in parts]
    shares = [mean / sum(means) for mean in means]
    given = [math.floor(share * budget) for share in shares]
    for chunk in sorted(range(len(parts)), key=lambda c: (-shares[c], c))[: budget - sum(given)]:
        given[chunk] += 1
    kept = [
        i for part, most in zip(parts, given, strict=True) for i in sorted(part, key=lambda i: -attention[i])[:most]
    ]
    rest = sorted(set(range(len(attention))) - set(kept), key=lambda i: (-attention[i], i))
    return sorted(kept + rest[: budget - len(kept)])


# --- inside the models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("retention", "chunks"), [(0.17, 16), (0.5, 16), (0.4, 6), (0.6, 3)])
@towers.families
def test_inside_the_models(family, retention, chunks):
    """One allocation over all crops, the base crop first; without newlines.

    Not five chunks: each would be a crop of LLaVA-OneVision, and whole crops get the same attention there.
    """

    def choose(crops: list[towers.Crop], budget: int, _one: object) -> list[int]:
        numbers = [crop.numbers[patch] for crop in crops for patch in crop.patches]
        attention = [float(crop.attention[patch]) / crop.heads for crop in crops for patch in crop.patches]
        return [numbers[i] for i in plain(attention, budget, chunks)]

    towers.check_selection(family, HoloV(retention=retention, chunks=chunks), choose)
