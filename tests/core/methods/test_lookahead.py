"""Attention in TRIO's place: against the library's own eager maps, and what it is when taken apart."""

import pytest
import torch

from tests.core import tiny
from trio_core.methods.lookahead import Lookahead
from trio_core.rules import equations


@pytest.mark.parametrize(("probe", "back"), [("next", 0), ("current", 1)])
@tiny.every_family
def test_four_rows_of_the_models_own_map_then_algorithm_1(family, probe, back):
    model, one = tiny.model(family), tiny.sample(family)
    visual = tiny.visual_rows(one)
    _, trace = tiny.run(model, one, Lookahead(retention=0.5, layers=(2,), probe=probe))
    (stage,) = trace.stages
    with torch.no_grad():
        seen = tiny.model(family, "eager")(**one, output_attentions=True, output_hidden_states=True)
    expected = seen.attentions[2 - back][0, :, -4:].mean(dim=(0, 1))[visual]
    assert torch.allclose(stage.scores[0], expected, rtol=1e-4, atol=1e-7)
    if family == "qwen3_vl":
        return  # DeepStack adds to a layer's output before the next one reads it; the library lists it without
    probed = seen.hidden_states[2 - back][0, visual]
    assert torch.equal(stage.kept[0], equations.nms_select(expected, probed, stage.tokens_after, 0.8))
