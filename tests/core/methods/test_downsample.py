"""A smaller picture: its cells worked by hand, their laws, and the decoder that receives the means."""

from operator import floordiv, mod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.core import tiny
from tests.core.methods import towers
from trio_core.methods.downsample import Downsample, grid_cells
from trio_core.methods.view import Signal

# --- cells -----------------------------------------------------------------------------------------------------------


def test_cells_by_hand():
    for rows, columns, budget, expected in (
        (2, 2, 1, [0, 0, 0, 0]),
        (2, 2, 2, [0, 1, 0, 1]),  # √2 = 1.41: one band of two columns
        (2, 3, 3, [0, 1, 2, 0, 1, 2]),  # √(3 · 2 / 3) = 1.4: one band of three columns
        (4, 4, 4, [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3]),
        (3, 3, 5, [0, 0, 1, 0, 0, 1, 2, 3, 4]),  # two bands, of two and of three cells
        (1, 5, 2, [0, 0, 0, 1, 1]),
    ):
        assert grid_cells(rows, columns, budget) == expected


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_every_patch_is_in_one_cell_and_every_cell_is_a_rectangle(rows, columns, data):
    budget = data.draw(st.integers(1, rows * columns))
    cells = grid_cells(rows, columns, budget)
    assert sorted(set(cells)) == list(range(budget)) and len(cells) == rows * columns
    firsts = [cells.index(number) for number in range(budget)]
    assert firsts == sorted(firsts)
    for number in range(budget):
        members = [divmod(place, columns) for place, cell in enumerate(cells) if cell == number]
        (high, left), (low, right) = members[0], members[-1]
        assert len(members) == (low - high + 1) * (right - left + 1)
    heights = [len({place // columns for place, cell in enumerate(cells) if cell == number}) for number in cells]
    assert max(heights) - min(heights) <= 1


# --- inside the model ------------------------------------------------------------------------------------------------


def plain(crop: towers.Crop, there: list[int], budget: int) -> dict[int, Tensor]:
    """Means over the cells, which are those of the rectangle that is there."""
    rows, columns = (sorted({part(patch, crop.columns) for patch in there}) for part in (floordiv, mod))
    assert len(rows) * len(columns) == len(there)
    members: dict[int, list[int]] = {}
    for patch, cell in zip(there, grid_cells(len(rows), len(columns), budget), strict=True):
        members.setdefault(cell, []).append(patch)
    return {inside[0]: sum(crop.hidden[patch] for patch in inside) / len(inside) for inside in members.values()}


@pytest.mark.parametrize("retention", [0.17, 0.6])
@towers.families
def test_the_decoder_receives_the_means(family, retention):
    towers.check_merging(tiny.model(family), tiny.pair(family), Downsample(retention=retention), plain)


@pytest.mark.parametrize("one", [towers.wide(), towers.two_pictures()])
def test_tiles_that_padding_is_cut_off_and_several_pictures(one):
    towers.check_merging(tiny.model("llava_next"), [one], Downsample(retention=0.4), plain)


def test_without_a_rectangle_it_takes_runs():
    """Nine patches on a crop of two rows by six."""
    hidden = torch.rand(12, 3)
    places = (torch.arange(9),)
    encoder = tiny.encoder(hidden, torch.ones(1, 12), hidden[:, None], grid=(2, 6), places=places)
    selection = Downsample(retention=0.5).select(tiny.view(9, 4, {Signal.ENCODER: encoder}))
    assert selection.kept[0].tolist() == [0, 3, 5, 7]
    assert torch.allclose(selection.features[0][0], hidden[:3].mean(dim=0))
