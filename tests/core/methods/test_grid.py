"""The grid's two shapes: the card's examples, budgets that are no rectangle, and which shape a stage takes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.core import tiny
from tests.core.methods.test_overhead import of_size
from trio_core import prune
from trio_core.methods.grid import Grid, centres
from trio_core.rules.selection import stride


@pytest.mark.parametrize("side", [8, 12])
def test_the_cards_squares(side):
    """24 × 24: 64 tokens stand at rows and columns 1, 4, 7, … 22, 144 at 1, 3, 5, … 23."""
    step = 24 // side
    lines = range(step // 2, 24, step)
    assert centres(24, 24, side * side).tolist() == [row * 24 + column for row in lines for column in lines]
    assert list(lines)[-1] == (22 if side == 8 else 23)


@pytest.mark.parametrize(
    ("rows", "columns", "budget", "places"),
    [(3, 3, 1, [4]), (3, 3, 5, [0, 2, 6, 7, 8]), (2, 4, 2, [5, 7]), (4, 2, 2, [3, 7]), (2, 2, 4, [0, 1, 2, 3])],
)
def test_by_hand(rows, columns, budget, places):
    """Five of 3 × 3: rows 0 and 2 of two and three points, at ¾ and 9/4, and at ½, 3/2 and 5/2."""
    assert centres(rows, columns, budget).tolist() == places


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_every_budget_is_met(rows, columns, data):
    budget = data.draw(st.integers(1, rows * columns))
    places = centres(rows, columns, budget)
    assert len(places) == budget and places.dtype == torch.long
    assert (places.diff() > 0).all() and places[0] >= 0 and places[-1] < rows * columns
    points = [int((places // columns == row).sum()) for row in (places // columns).unique()]
    assert max(points) - min(points) <= 1


def test_the_first_stage_of_a_square_is_square_and_the_next_a_stride():
    model, one = of_size(8)
    with torch.no_grad(), prune(model, Grid(budgets=(16, 4), layers=(1, 3), shape="square")) as trace:
        model(**one)
    first, second = (stage.kept[0] for stage in trace.stages)
    assert first.tolist() == [row * 8 + column for row in (1, 3, 5, 7) for column in (1, 3, 5, 7)]
    assert second.tolist() == first[stride(16, 4)].tolist()
    with torch.no_grad(), prune(model, Grid(budgets=(16,), layers=(1,))) as trace:
        model(**one)
    assert trace.stages[0].kept[0].tolist() == stride(64, 16).tolist()


def test_frames_of_a_video_are_no_square():
    view = tiny.video_view(torch.ones(4, 2), [[0, 1], [2, 3]], 1)
    assert Grid(retention=0.5, shape="square").select(view).kept[0].tolist() == [2]
