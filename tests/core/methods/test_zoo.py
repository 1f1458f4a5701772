"""FastV, PyramidDrop, Lookahead and DivPrune inside every family, against the dense model; and PyramidDrop's budgets.

The oracle of FastV, PyramidDrop and Lookahead is the library's own eager attention map; they run beside any kernel.
"""

import pytest
import torch

from tests.core import tiny
from tests.core.models.test_families import LAYERS, dense_layers, stages_of, walk
from tests.core.rules.test_selection import farthest_point_in_a_loop
from trio_core import methods
from trio_core.methods.divprune import DivPrune
from trio_core.methods.pyramiddrop import PyramidDrop
from trio_core.rules import equations

# --- worked by hand --------------------------------------------------------------------------------------------------


def test_pyramiddrop_budgets_are_powers_that_meet_the_average():
    """The paper's list, and the averages that the author gives λ for: 322/180/100 and 110/21/4 if each is rounded."""
    for average, layers, budgets, base in (
        (270, None, (288, 144, 72), 0.5),
        (192, (2, 8, 16), (324, 179, 101), 0.5596),
        (64, (2, 8, 16), (112, 20, 4), 0.1916),
        (576, None, (576, 576, 576), 1),
    ):
        method = PyramidDrop(retention=average / 576, layers=layers)
        schedule = method.schedule(576, 32)
        assert schedule.budgets == budgets
        assert sum(schedule.tokens_by_layer) == 32 * average
        powers = method.profile(schedule.layers, 32)
        assert powers == pytest.approx([base, base**2, base**3], rel=1e-3)


@pytest.mark.parametrize(("rule", "base"), [("after-prune", 1 / 4), ("final", (1 / 4) ** (1 / 3))])
def test_pyramiddrop_powers_by_another_budget_rule(rule, base):
    schedule = PyramidDrop(retention=1 / 4, budget_rule=rule).schedule(576, 32)
    assert schedule.budgets == tuple(round(576 * base**power) for power in (1, 2, 3))


# --- inside every family ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "back", "rows"), [("fastv", 1, 1), ("pyramiddrop", 0, 1), ("lookahead", 0, 4)])
@tiny.every_family
def test_the_last_rows_of_the_models_own_map_rank_at_every_stage(family, name, back, rows):
    """FastV reads the map of the layer that has run, the others that of the next; padded, under the default kernel."""
    samples, eager = tiny.pair(family), tiny.model(family, "eager")
    trace = tiny.prefill(tiny.model(family), samples, methods.find(name)(retention=0.5, layers=LAYERS))
    for b, one in enumerate(samples):
        length, visual = one["input_ids"].shape[1], tiny.visual_rows(one)
        left = stages_of(trace, one, b, length)
        with torch.no_grad():
            first = eager(**one, use_cache=False, output_attentions=True).attentions[LAYERS[0] - back]
        for stage, budget in zip(trace.stages, trace.schedules[b].budgets, strict=True):
            earlier = {layer: rows for layer, rows in left.items() if layer < stage.layer}
            step, row = walk(eager, one, earlier)[stage.layer - back], torch.full((length,), torch.nan)
            row[step.places] = step.attention[:, -rows:].mean(dim=(0, 1))
            row = row[visual]
            if stage.layer == LAYERS[0]:
                assert torch.allclose(first[0, :, -rows:, visual].mean(dim=(0, 1)), row, rtol=1e-5)
            here = ~stage.scores[b].isnan()
            assert torch.allclose(stage.scores[b][here], row[here], rtol=1e-4, atol=1e-7)
            best = row.where(here, -1).topk(budget).indices.sort().values
            if name == "lookahead":
                features = step.hidden[0, torch.isin(step.places, visual)]
                best = here.nonzero()[equations.nms_select(row[here], features, budget, 0.8)].squeeze(1)
            assert torch.equal(stage.kept[b], best), f"sample {b}, layer {stage.layer}"


@tiny.every_family
def test_divprune_spreads_what_enters_the_decoder(family):
    model, samples = tiny.model(family), tiny.pair(family)
    trace = tiny.prefill(model, samples, DivPrune(retention=0.4))
    (stage,) = trace.stages
    assert stage.layer == 0
    for b, one in enumerate(samples):
        features = dense_layers(model, one)[0][0][0, tiny.visual_rows(one)].double()
        expected = torch.tensor(farthest_point_in_a_loop(features, trace.schedules[b].budgets[0]))
        # LLaVA-NeXT's newlines are all the same: whichever is taken, its features are.
        assert torch.equal(*(features[kept][features[kept][:, 0].argsort()] for kept in (stage.kept[b], expected)))
