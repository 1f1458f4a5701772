"""SCOPE before the decoder and TRIO within it: each stage against the method that it is, inside the models."""

from dataclasses import replace

import pytest
import torch

from tests.core import reference, tiny
from tests.core.methods import towers
from tests.core.methods.test_methods import scores_and_features
from trio_core import Trio
from trio_core.methods.scope import Scope
from trio_core.methods.trio_ve import TrioVe
from trio_core.rules import equations
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Schedule

# --- where and how much ----------------------------------------------------------------------------------------------


# --- what it keeps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [(0, 3), (0, 1), (0, 2, 4)])
@towers.families
def test_before_the_decoder_it_is_scope_and_within_it_trio(family, layers):
    """At every stage, in a padded batch, TRIO's equations on what SCOPE left."""
    model, samples = tiny.model(family), tiny.pair(family)
    method = TrioVe(retention=0.3, layers=layers, k_pos=3, threshold=0.3, alpha=0.5)
    trace = tiny.prefill(model, samples, method)
    assert [stage.layer for stage in trace.stages] == [*layers]
    first = tuple(schedule.budgets[0] for schedule in trace.schedules)
    for b, one in enumerate(samples):
        alone = tiny.prefill(model, [one], Scope(budgets=(first[b],), layers=(0,), alpha=0.5))
        kept = trace.stages[0].kept[b]
        assert torch.equal(kept, alone.stages[0].kept[0])
        earlier = {0: reference.kept_rows(one, kept)}
        for stage, budget in zip(trace.stages[1:], trace.schedules[b].budgets[1:], strict=True):
            scores, features = scores_and_features(model, one, method, stage.layer, earlier)
            assert torch.allclose(stage.scores[b][kept].float() * len(samples), scores, rtol=1e-3, atol=1e-7)
            kept = kept[equations.nms_select(scores, features, budget, method.threshold)]
            assert torch.equal(stage.kept[b], kept)
            earlier[stage.layer] = reference.kept_rows(one, kept)


@pytest.mark.parametrize("probe", ["next", "current"])
@pytest.mark.parametrize("saliency", ["tail", "autograd"])
def test_trios_options_reach_trio(probe, saliency):
    """Probing the layer that has run sees it on what SCOPE left, also right behind it."""
    model, one = tiny.model("llava"), tiny.sample("llava")
    method = TrioVe(retention=0.4, layers=(0, 1), probe=probe, saliency=saliency, nms=False, rows="shifted")
    trace = tiny.prefill(model, [one], method)
    earlier = {0: reference.kept_rows(one, trace.stages[0].kept[0])}
    scores, _ = scores_and_features(model, one, method, 1, earlier)
    kept = trace.stages[0].kept[0]
    best = scores.topk(trace.schedules[0].budgets[1]).indices.sort().values
    assert torch.equal(trace.stages[1].kept[0], kept[best])


# --- what it costs ---------------------------------------------------------------------------------------------------


def test_its_cost_is_scopes_and_then_trios():
    shape = LayerShape(8, 16, 8, 4, 2, 32, 3, vision_hidden=6, vision_heads=2, patches=10)
    sizes = Sizes(tokens=30, visual=20, budget=8, text_after=5)
    method = TrioVe(retention=0.5, k_pos=2)
    assert method.overhead(shape, 0, sizes) == Scope(retention=0.5).overhead(shape, 0, sizes) > 0
    assert method.overhead(shape, 16, sizes) == Trio(retention=0.5, k_pos=2).overhead(shape, 16, sizes) > 0
    schedule = replace(Schedule((0, 16), (8, 3), 20, 32))
    assert method.selection_macs(shape, schedule, 10, 5) == method.overhead(shape, 0, sizes) + method.overhead(
        shape, 16, Sizes(18, 8, 3, 5)
    )
