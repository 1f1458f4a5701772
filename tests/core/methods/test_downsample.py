"""A smaller picture: its cells worked by hand, their laws, and the decoder that receives the means."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.core import tiny
from tests.core.methods import merging_checks
from tests.core.methods.merging_checks import Crop, through_qwen
from tests.core.methods.test_overhead import counted, waits_per_stage
from tests.core.methods.test_visionzip import embedded, two_pictures, wide
from trio_core import OptionError, methods
from trio_core.methods.downsample import Downsample, grid_cells
from trio_core.rules.schedule import shares

every_family = pytest.mark.parametrize("family", merging_checks.FAMILIES)


# --- cells -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "columns", "budget", "expected"),
    [
        (2, 2, 1, [0, 0, 0, 0]),
        (2, 2, 4, [0, 1, 2, 3]),
        (2, 2, 2, [0, 1, 0, 1]),  # √2 = 1.41: one band of two columns
        (2, 3, 3, [0, 1, 2, 0, 1, 2]),  # √(3 · 2 / 3) = 1.4: one band of three columns
        (4, 4, 4, [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3]),
        (3, 3, 5, [0, 0, 1, 0, 0, 1, 2, 3, 4]),  # two bands, of two and of three cells
        (1, 5, 2, [0, 0, 0, 1, 1]),
        (5, 1, 2, [0, 0, 0, 1, 1]),
    ],
)
def test_cells_by_hand(rows, columns, budget, expected):
    assert grid_cells(rows, columns, budget) == expected


def test_squares_of_llavas_grid():
    """64 of 24 × 24 are 8 × 8 cells of 3 × 3."""
    expected = [(row // 3) * 8 + column // 3 for row in range(24) for column in range(24)]
    assert grid_cells(24, 24, 64) == expected


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_every_patch_is_in_one_cell_and_every_cell_is_a_rectangle(rows, columns, data):
    budget = data.draw(st.integers(1, rows * columns))
    found = grid_cells(rows, columns, budget)
    assert sorted(set(found)) == list(range(budget)) and len(found) == rows * columns
    firsts = [found.index(number) for number in range(budget)]
    assert firsts == sorted(firsts)
    for number in range(budget):
        members = [divmod(place, columns) for place, cell in enumerate(found) if cell == number]
        (high, left), (low, right) = members[0], members[-1]
        assert len(members) == (low - high + 1) * (right - left + 1)
    heights = [len({place // columns for place, cell in enumerate(found) if cell == number}) for number in found]
    assert max(heights) - min(heights) <= 1


@pytest.mark.parametrize("budget", [0, 7])
def test_as_many_cells_as_patches_at_the_most(budget):
    with pytest.raises(OptionError, match=f"budget {budget}: can keep 1 … 6 of 6 tokens"):
        grid_cells(2, 3, budget)


def test_shares():
    assert shares(322, [576] * 5) == [65, 65, 64, 64, 64]
    assert shares(20, [16, 2, 16]) == [9, 2, 9]
    assert shares(2, [16, 16, 16]) == [1, 1, 0]


# --- inside the model ------------------------------------------------------------------------------------------------


def plain(crop: Crop, there: list[int], budget: int) -> dict[int, Tensor]:
    """Means over the cells, which are those of the rectangle that is there."""
    rows, columns = sorted({patch // 4 for patch in there}), sorted({patch % 4 for patch in there})
    assert len(rows) * len(columns) == len(there)
    members: dict[int, list[int]] = {}
    for patch, cell in zip(there, grid_cells(len(rows), len(columns), budget), strict=True):
        members.setdefault(cell, []).append(patch)
    return {inside[0]: sum(crop.hidden[patch] for patch in inside) / len(inside) for inside in members.values()}


@pytest.mark.parametrize("retention", [0.07, 0.25, 0.6])
@every_family
def test_the_decoder_receives_the_means(family, retention):
    merging_checks.check(tiny.model(family), merging_checks.samples_of(family), Downsample(retention=retention), plain)


@pytest.mark.parametrize("one", [wide(), two_pictures()])
def test_tiles_that_padding_is_cut_off_and_several_pictures(one):
    merging_checks.check(tiny.model("llava_next"), [one], Downsample(retention=0.4), plain)


@pytest.mark.parametrize("positions", ["original", "compact"])
@every_family
def test_it_generates_as_from_the_shorter_prompt(family, positions):
    merging_checks.check_generation(family, Downsample(retention=0.3, positions=positions), plain)


@every_family
def test_everything_nothing_and_broken(family):
    merging_checks.check_ends(family, Downsample)
    merging_checks.check_alone(family, Downsample)


def test_without_a_rectangle_it_takes_runs():
    """The toy picture of nine patches on a crop of two rows by six."""
    view = tiny.toy_view(samples=[1], spans=(12, 9, 12), budgets=(5, 4, 12))
    encoder = view.encoder
    assert encoder is not None and encoder.grid == (2, 6)
    selection = Downsample(retention=0.5).select(view)
    assert selection.kept[0].tolist() == [0, 3, 5, 7]
    mean = encoder.hidden[0, :3].mean(dim=0)
    assert torch.allclose(selection.features[0][0], encoder.project(mean))


# --- what it costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retention", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("size", ["small", "large"])
def test_declared_overhead_is_what_is_counted(size, retention):
    ((seen, declared),) = counted("llava", tiny.sample("llava", size), Downsample(retention=retention))
    assert seen == declared > 0
    ((seen, declared),) = counted("llava_next", tiny.sample("llava_next", size), Downsample(retention=retention))
    assert seen == pytest.approx(declared, rel=0.2)


def test_the_host_waits_as_often_for_many_tokens_as_for_few():
    method = methods.find("downsample")
    assert len({waits_per_stage(side, method(retention=r))[0] for side in (8, 24) for r in (0.5, 0.9)}) == 1


# --- a tower that merges and projects its patches itself -------------------------------------------------------------


@pytest.mark.parametrize("retention", [0.2, 0.4, 0.8])
@pytest.mark.parametrize("size", ["small", "large"])
def test_qwens_picture_gets_smaller(size, retention):
    """Of 2 × 3 and of 3 × 4 visual tokens."""
    one = tiny.sample("qwen2_5_vl", size)
    kept, made, _ = through_qwen(Downsample(retention=retention), one)
    dense, found = (
        embedded(tiny.model("qwen2_5_vl"), one),
        grid_cells(*((3, 4) if size == "large" else (2, 3)), len(kept)),
    )
    members = [[i for i, cell in enumerate(found) if cell == number] for number in range(len(kept))]
    assert kept == [inside[0] for inside in members]
    assert torch.allclose(made, torch.stack([dense[inside].mean(dim=0) for inside in members]), rtol=1e-4, atol=1e-5)
    ((seen, declared),) = counted("qwen2_5_vl", one, Downsample(retention=retention))
    assert seen == declared > 0
