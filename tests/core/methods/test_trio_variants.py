"""trio, trio-printed and trio-released in every family: the equations, applied to the layer and rows of each variant.

The oracle runs the model's own layers on the shorter sequence and differentiates the proxy loss by autograd.
"""

from functools import cache

import pytest
import torch

from tests.core import tiny
from tests.core.models.test_families import stages_of, walk
from trio_core import Trio, UnsupportedModel, methods, prune
from trio_core.models import adapter_for
from trio_core.rules import equations
from trio_core.trace import Trace

LAYERS = (1, 3, 4)
VARIANTS = ("trio", "trio-printed", "trio-released")
PROBED_FROM_STAGE = {"trio": 0, "trio-printed": -1, "trio-released": 0}
"""Index of the probed layer, counted from 0, less the stage's layer, counted from 1."""
ROWS_AFTER = {"trio": 0, "trio-printed": 0, "trio-released": 1}
"""How many rows stand behind the supervised ones."""

every_variant = pytest.mark.parametrize("name", VARIANTS)


def made(name: str) -> Trio:
    """A threshold at which some of these random features are duplicates."""
    return methods.find(name)(retention=0.5, layers=LAYERS, threshold=0.3)


@cache
def traced(family: str, name: str) -> Trace:
    """One prefill of `tiny.pair`."""
    return tiny.prefill(tiny.model(family), tiny.pair(family), made(name))


@every_variant
@tiny.every_family
def test_each_keeps_what_the_equations_say_of_its_layer_and_rows(family, name):
    model, trace, method = tiny.model(family), traced(family, name), made(name)
    compact, readout = name == "trio-released" and family not in tiny.MULTI_AXIS, adapter_for(model).readout
    for b, one in enumerate(tiny.pair(family)):
        visual = tiny.visual_rows(one)
        left, kept = stages_of(trace, one, b, one["input_ids"].shape[1]), torch.arange(len(visual))
        for stage, budget in zip(trace.stages, trace.schedules[b].budgets, strict=True):
            earlier = {layer: places for layer, places in left.items() if layer < stage.layer}
            step = walk(model, one, earlier, compact)[stage.layer + PROBED_FROM_STAGE[name]]
            hidden, rows, run = step.hidden, step.places, step.run
            last = len(rows) - ROWS_AFTER[name]
            supervised = slice(last - method.k_pos, last)
            scores = equations.saliency(lambda x, run=run, at=supervised: readout(run(x)[:, at]), hidden)[0]
            picture = torch.isin(rows, visual)
            seen = stage.scores[b][kept].float() * len(tiny.pair(family))
            assert torch.allclose(seen, scores[picture], rtol=2e-3, atol=1e-7)
            kept = kept[equations.nms_select(scores[picture], hidden[0, picture], budget, method.threshold)]
            assert torch.equal(stage.kept[b], kept), f"sample {b}, layer {stage.layer}"


@pytest.mark.parametrize("family", tiny.MULTI_AXIS)
def test_where_compact_is_undefined_the_released_one_keeps_the_original_positions(family):
    model, inputs = tiny.model(family), tiny.batch(tiny.pair(family))
    kept = {"retention": 0.5, "layers": LAYERS}
    with torch.no_grad():
        with prune(model, "trio-released", **kept):
            released = model(**inputs).logits
        with prune(model, "trio-released", positions="original", **kept):
            assert tiny.same(model(**inputs).logits, released)
        with (
            pytest.raises(UnsupportedModel, match="positions 'compact' are not defined"),
            prune(model, "trio", positions="compact", **kept),
        ):
            pass
