"""The regions of one prefill on a clock that counts marks: what is where, and that nothing is lost."""

import pytest
import torch

from tests.profile.faking import FakeClock
from trio_core import Trio
from trio_core.methods.grid import Grid
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import timeline


def measured(workload: Workload, method) -> timeline.Timeline:
    return timeline.measure(workload, method, FakeClock())[0]


def test_every_layer_and_module_is_a_region(tiny_workload: Workload):
    found = measured(tiny_workload, None)
    layers = [region.layer for region in found.regions if region.kind == "layer"]
    assert layers == list(range(1, tiny_workload.shape.num_layers + 1))
    modules = {region.name for region in found.regions if region.kind == "module"}
    assert {"model.vision_tower", "model.multi_modal_projector", "lm_head"} <= modules
    assert found.regions[-1].kind == "prefill"
    assert not [region for region in found.regions if "stage" in region.kind]


def test_stages_stand_between_layers_and_hold_their_spans(tiny_workload: Workload):
    found = measured(tiny_workload, Trio(retention=0.4))
    chosen = [region for region in found.regions if region.name == "selection"]
    layers = {region.layer: region for region in found.regions if region.kind == "layer"}
    assert chosen
    for stage in chosen:
        assert stage.layer is not None
        before, after = layers[stage.layer], layers[stage.layer + 1]
        assert before.start_ms + before.duration_ms < stage.start_ms
        assert stage.start_ms + stage.duration_ms < after.start_ms
        inside = [r for r in found.regions if r.kind == "within a stage" and r.layer == stage.layer]
        assert {r.name for r in inside} == {"proxy_forward", "proxy_loss", "backward", "nms"}
        assert all(stage.start_ms < r.start_ms < stage.start_ms + stage.duration_ms for r in inside)


@pytest.mark.parametrize("saliency", ["tail", "autograd"])
def test_modules_that_a_selection_calls_belong_to_the_selection(tiny_workload: Workload, saliency):
    """The head and the last norm run once each beside the selections, which also call them."""
    found = measured(tiny_workload, Trio(retention=0.4, saliency=saliency))
    names = [region.name for region in found.regions if region.kind == "module"]
    assert names.count("lm_head") == 1
    assert names.count("model.language_model.norm") == 1


def test_regions_and_gaps_make_the_whole(tiny_workload: Workload):
    for method in (None, Grid(retention=0.4), Trio(retention=0.4)):
        found = measured(tiny_workload, method)
        named = sum(r.duration_ms for r in found.regions if r.kind in ("module", "layer", "stage"))
        assert named + sum(found.gaps_ms.values()) == found.whole_ms
        assert min(found.gaps_ms.values()) > 0


def test_a_bare_prefill_is_marked_twice_and_nothing_is_left(tiny_workload: Workload):
    def hooks() -> int:
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in tiny_workload.model.modules())

    tiny_workload.prefill()  # the library leaves hooks of its own at its first forward
    before, clock = hooks(), FakeClock()
    timeline.bare(tiny_workload, Trio(retention=0.4), clock)
    assert clock.now == 2 * 10
    measured(tiny_workload, Trio(retention=0.4))
    assert hooks() == before


def test_marks_change_no_output(tiny_workload: Workload):
    before = tiny_workload.prefill().logits
    measured(tiny_workload, None)
    assert torch.equal(tiny_workload.prefill().logits, before)
