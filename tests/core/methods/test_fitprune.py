"""FitPrune: its rule by hand and as a loop, its tables through the schedule, and inside every family.

The oracle is the library's own eager attention map, whole; the method runs in blocks of rows beside any kernel.
"""

from itertools import accumulate

import pytest
import torch

from tests.core import tiny
from tests.core.models.test_families import stages_of, walk
from trio_core import RetentionError
from trio_core.methods import fitprune
from trio_core.methods.fitprune import DELETED, FitPrune
from trio_core.rules.schedule import Schedule

# --- the rule --------------------------------------------------------------------------------------------------------


def in_a_loop(attention: list, visual: list[int], words: list[int]) -> list[float]:
    """The card's score of each visual token from whole maps [H][S][S]."""

    def most(row: int, column: int) -> float:
        return max(head[row][column] for head in attention)

    return [
        sum(most(row, token) for row in words) * sum(most(row, token) for row in visual) / len(visual)
        for token in visual
    ]


# --- the schedule ----------------------------------------------------------------------------------------------------


def remaining(percent: int) -> tuple[int, ...]:
    """What a table leaves after each of the 32 layers."""
    return tuple(576 - gone for gone in accumulate(DELETED[percent]))


AVERAGES = dict(
    zip(DELETED, (541.16, 492.53, 423.53, 362.47, 301.81, 274.38, 244.97, 187.88, 130.59, 72.84), strict=True)
)


@pytest.mark.parametrize("percent", DELETED)
def test_each_table_comes_out_at_its_average(percent):
    left = remaining(percent)
    average = (576 + sum(left[:31])) / 32
    assert average == pytest.approx(AVERAGES[percent], abs=0.006)
    assert left[31] == left[30], "the last layer has nothing behind it"
    schedule = FitPrune(retention=average / 576).schedule(576, 32)
    assert schedule == Schedule(tuple(range(1, 32)), left[:31], 576, 32)
    final = FitPrune(retention=left[30] / 576, budget_rule="final").schedule(576, 32)
    assert final.budgets == left[:31]


@pytest.mark.parametrize(("visual", "depth"), [(576, 32), (1336, 28), (7, 40), (5, 2)])
@pytest.mark.parametrize("retention", [1.0, 0.97, 0.6, 1 / 9])
def test_other_averages_and_depths_are_met_exactly(visual, depth, retention):
    method, wanted = FitPrune(retention=retention), round(depth * retention * visual)
    if wanted < visual + depth - 1:
        with tiny.refused(RetentionError, "the lowest possible is"):
            method.schedule(visual, depth)
        return
    schedule = method.schedule(visual, depth)
    assert schedule.layers == tuple(range(1, depth))
    assert sum(schedule.tokens_by_layer) == wanted
    for rule, stage in (("final", -1), ("after-prune", 0)):
        budgets = FitPrune(retention=retention, budget_rule=rule).schedule(visual, depth).budgets
        assert budgets[stage] == max(1, round(retention * visual))
        assert retention < 1 or set(budgets) == {visual}


# --- inside every family ---------------------------------------------------------------------------------------------


@tiny.every_family
def test_the_models_own_maps_rank_after_every_layer(family, monkeypatch):
    monkeypatch.setattr(fitprune, "BLOCK", 5)  # rows, so that there are several blocks
    samples, eager = tiny.pair(family), tiny.model(family, "eager")
    trace = tiny.prefill(tiny.model(family), samples, FitPrune(retention=0.6))
    assert [stage.layer for stage in trace.stages] == list(range(1, tiny.NUM_LAYERS))
    selections = 0
    for b, one in enumerate(samples):
        visual = tiny.visual_rows(one)
        left = stages_of(trace, one, b, one["input_ids"].shape[1])
        here = torch.arange(len(visual))
        for stage, budget in zip(trace.stages, trace.schedules[b].budgets, strict=True):
            if stage.scores is not None:
                earlier = {layer: rows for layer, rows in left.items() if layer < stage.layer}
                step = walk(eager, one, earlier)[stage.layer - 1]
                attention, places = step.attention, step.places
                tokens = torch.isin(places, visual).nonzero().flatten().tolist()
                words = [row for row in range(len(places)) if places[row] > visual[-1]]
                expected = torch.tensor(in_a_loop(attention.tolist(), tokens, words))
                assert torch.allclose(stage.scores[b][here], expected, rtol=1e-4, atol=1e-7)
                assert stage.scores[b].isnan().sum() == len(visual) - len(here)
                here = here[expected.topk(budget).indices.sort().values]
                selections += 1
            assert torch.equal(stage.kept[b], here), f"sample {b}, layer {stage.layer}"
    assert selections >= 8
