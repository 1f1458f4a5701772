"""SCOPE before the decoder and TRIO within it: each stage against the method that it is, inside the models."""

import pytest
import torch

from tests.core import reference, tiny
from tests.core.methods import towers
from tests.core.methods.test_methods import scores_and_features
from trio_core.methods.scope import Scope
from trio_core.methods.trio_ve import TrioVe
from trio_core.rules import equations

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


# --- what it costs ---------------------------------------------------------------------------------------------------
