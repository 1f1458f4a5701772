"""VTW: which layer a retention means, the search for it, and a decoder from which the whole picture is gone."""

import pytest

from trio_core.methods.vtw import VTW
from trio_core.rules.schedule import Schedule

# --- which layer -----------------------------------------------------------------------------------------------------


def test_the_layer_nearest_to_an_average():
    for retention, depth, layer in (
        (0.5, 32, 16),
        (64 / 576, 32, 4),  # 3.56: no integer, and 4 · 576 / 32 = 72
        (1e-6, 32, 1),
        (0.001, 2, 1),
        (0.98, 32, 31),
        (0.25, 6, 2),  # 1.5: to the even one
    ):
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
