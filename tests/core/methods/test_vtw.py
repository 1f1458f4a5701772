"""VTW: which layer a retention means, the search for it, and a decoder from which the whole picture is gone."""

import pytest
import torch

from tests.core import tiny
from tests.core.test_pruning import check_against_reference
from trio_core.methods.vtw import VTW
from trio_core.rules.schedule import Schedule

# --- which layer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "depth", "layer"),
    [
        (0.5, 32, 16),
        (64 / 576, 32, 4),  # 3.56: no integer, and 4 · 576 / 32 = 72
        (54 / 576, 32, 3),
        (1e-6, 32, 1),
        (0.001, 2, 1),
        (0.98, 32, 31),
        (0.5, 28, 14),
        (0.25, 6, 2),  # 1.5: to the even one
    ],
)
def test_the_layer_nearest_to_an_average(retention, depth, layer):
    schedule = VTW(retention=retention).schedule(visual_tokens=576, num_layers=depth)
    assert schedule == Schedule((layer,), (0,), 576, depth)
    assert schedule.layer_average == layer / depth


@pytest.mark.parametrize(
    "options",
    [{"retention": 1.0}, {"retention": 0.99}, {"retention": 1.0, "layers": (16,)}, {"budgets": (576,), "layers": (3,)}],
)
def test_a_decoder_that_keeps_everything(options):
    schedule = VTW(**options).schedule(visual_tokens=576, num_layers=32)
    assert schedule.budgets == (576,) and schedule.layer_average == 1


# --- nothing of the picture is left ----------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", ["original", "compact"])
@pytest.mark.parametrize("family", ["llava", "llava_next"])
def test_against_a_decoder_written_out(family, positions):
    samples = [*tiny.pair(family), tiny.sample(family, "small", 5, after=30)]
    trace = check_against_reference(family, tiny.model(family), samples, VTW(retention=0.3, positions=positions))
    (stage,) = trace.stages
    assert stage.layer == 2 and [kept.tolist() for kept in stage.kept] == [[]] * 3
    assert trace.realised_retention == 2 / 6


def test_a_stage_keeps_all_or_nothing():
    for budget in (0, 12):
        (kept,) = VTW(retention=0.5).select(tiny.view(12, budget)).kept
        assert len(kept) == budget and kept.dtype == torch.long
