"""TopV from its description: each step by hand and in plain arithmetic, and inside every family by the dense model."""

from math import exp, hypot, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.core import tiny
from tests.core.models.test_families import dense_layers
from trio_core.methods.topv import TopV, contribution, costs, raster
from trio_core.models import adapter_for

# --- worked by hand --------------------------------------------------------------------------------------------------


def test_places_on_a_square_and_in_order():
    assert raster(torch.tensor([0, 1, 2, 5, 8]), 9).tolist() == [[0, 0], [0, 0.5], [0, 1], [0.5, 1], [1, 1]]
    assert raster(torch.tensor([0, 3, 6]), 7).tolist() == [[0], [0.5], [1]]
    assert raster(torch.tensor([0, 3]), 4, one_picture=False).tolist() == [[0], [1]]


def test_contributions_by_hand():
    """exp(−cost) is [[1, 3], [1, 1]]: columns to one, then rows and columns again."""
    cost = -torch.tensor([[1.0, 3], [1, 1]]).log()
    assert contribution(cost, 1.0, 1).tolist() == pytest.approx([1 / 2 + 3 / 4, 1 / 2 + 1 / 4])
    # Rows of [[1/2, 3/4], [1/2, 1/4]] to one: [[2/5, 3/5], [2/3, 1/3]]; its columns hold 16/15 and 14/15.
    assert contribution(cost, 1.0, 2).tolist() == pytest.approx([3 / 8 + 9 / 14, 5 / 8 + 5 / 14])
    assert contribution(2 * cost, 2.0, 1).tolist() == pytest.approx([5 / 4, 3 / 4])


# --- plain arithmetic ------------------------------------------------------------------------------------------------


def by_loop(
    source: Tensor, target: Tensor, numbers: list[int], count: int, method: TopV, *, one_picture: bool = True
) -> list[float]:
    """The scores with no logarithm and no tensor arithmetic but sums."""
    side = round(sqrt(count))
    square = one_picture and side * side == count
    if square:
        place = [(n // side / max(side - 1, 1), n % side / max(side - 1, 1)) for n in numbers]
    else:
        place = [(n / max(count - 1, 1), 0.5) for n in numbers]
    longest = hypot(1, 1) if square else 1.0
    kernel = [[0.0] * len(numbers) for _ in numbers]
    for i, x in enumerate(source.double()):
        for j, y in enumerate(target.double()):
            features = 1 - float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt())
            apart = hypot(place[i][0] - place[j][0], place[i][1] - place[j][1]) / longest
            centre = hypot(place[i][0] - 0.5, place[i][1] - 0.5) / (longest / 2)
            cost = method.features * features + method.places * apart + method.centre * centre
            kernel[i][j] = exp(-cost / method.temperature)
    every = range(len(numbers))
    for iteration in range(2 * method.iterations - 1):
        if iteration % 2:
            kernel = [[part / sum(row) for part in row] for row in kernel]
        else:
            sums = [sum(kernel[i][j] for i in every) for j in every]
            kernel = [[kernel[i][j] / sums[j] for j in every] for i in every]
    return [sum(row) for row in kernel]


def kept_by_loop(scores: list[float], budget: int, share: float) -> list[int]:
    again = min(round(budget * share), budget - 1)
    best = sorted(range(len(scores)), key=lambda i: -scores[i])[: budget - again]
    pruned = [i for i in range(len(scores)) if i not in best]
    return sorted(best + [pruned[int((i + 0.5) * len(pruned) / again)] for i in range(again)])


@given(st.integers(1, 20), st.integers(0, 10**6), st.integers(1, 4), st.data())
def test_the_rule_is_the_loop(count, seed, iterations, data):
    whole = data.draw(st.integers(count, 25))
    numbers = sorted(data.draw(st.permutations(range(whole)))[:count])
    source, target = torch.randn(2, count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    method = TopV(retention=0.5, iterations=iterations, features=0.5, places=0.7, centre=0.9, temperature=0.2)
    cost = costs(source, target, raster(torch.tensor(numbers), whole), (0.5, 0.7, 0.9))
    expected = by_loop(source, target, numbers, whole, method)
    assert contribution(cost, 0.2, iterations).tolist() == pytest.approx(expected, rel=1e-6)


# --- inside every family ---------------------------------------------------------------------------------------------


@tiny.every_family
def test_what_enters_a_layer_is_moved_to_what_leaves_it(family):
    model, samples, method = tiny.model(family), tiny.pair(family), TopV(retention=0.5, temperature=0.5)
    trace = tiny.prefill(model, samples, method)
    (stage,) = trace.stages
    assert stage.layer == 2
    for b, one in enumerate(samples):
        heard, visual = dense_layers(model, one), tiny.visual_rows(one)
        norm = adapter_for(model).layers[2].get_submodule("input_layernorm")
        source, target = heard[1][0][0, visual], norm(heard[2][0][0, visual]).detach()
        with_video = "video_grid_thw" in one or "pixel_values_videos" in one
        expected = by_loop(source, target, list(range(len(visual))), len(visual), method, one_picture=not with_video)
        seen = stage.scores[b].tolist()
        assert seen == pytest.approx(expected, rel=1e-3)
        assert stage.kept[b].tolist() == kept_by_loop(seen, trace.schedules[b].budgets[0], method.recovered)
