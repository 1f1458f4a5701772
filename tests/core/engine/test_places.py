"""What a pruned pass returns stands at the places of the full sequence, NaN where nothing was computed."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.core import tiny
from tests.core.models.test_families import METHOD, stages_of
from tests.core.support import bench
from trio_core import UnsupportedModel, prune


@pytest.mark.parametrize("method", ["divprune", "visionzip"])
def test_hidden_states_of_a_method_before_the_decoder_have_all_places(method: str):
    """transformers records the input of layer 1, from which such a method has dropped tokens already."""
    model, one = tiny.model("llava"), tiny.sample("llava")
    length = one["input_ids"].shape[1]
    with torch.no_grad(), prune(model, method, retention=0.5) as trace:
        states = model(**one, output_hidden_states=True).hidden_states
    (places,) = trace.places
    for state in states:
        left = state[0].isnan().any(dim=-1).logical_not().nonzero().squeeze(1)
        assert state.shape[1] == length and left.tolist() == places.tolist()


@tiny.every_family
def test_every_familys_outputs_are_as_long_as_the_prompt(family):
    model, one = tiny.model(family, "eager"), tiny.sample(family)
    length = one["input_ids"].shape[1]
    with torch.no_grad(), prune(model, METHOD) as trace:
        output = model(**one, output_hidden_states=True, output_attentions=True)
        as_tuple = model(**one, output_hidden_states=True, return_dict=False)
        last = model(**one, logits_to_keep=1).logits
    visual, kept = tiny.visual_rows(one), trace.stages[-1].kept[0]
    left = torch.tensor(sorted({*range(length)} - {*visual.tolist()} | {*visual[kept].tolist()}))
    assert torch.equal(trace.places[0], left)
    assert torch.equal((~output.logits[0].isnan().any(dim=-1)).nonzero().squeeze(1), left)
    assert tiny.same(output.logits, as_tuple[0])
    assert bench.near(last[:, 0], output.logits[:, -1])
    assert all(hidden.shape[:2] == (1, length) for hidden in output.hidden_states)
    assert all(weights.shape[2:] == (length, length) for weights in output.attentions)
    computed = output.hidden_states[-1][0].isnan().any(dim=-1).logical_not()
    assert torch.equal(computed.nonzero().squeeze(1), left)


def test_a_steps_attention_is_zero_at_dropped_tokens():
    model, one = tiny.model("llava", "eager"), tiny.sample("llava")
    length = one["input_ids"].shape[1]
    with torch.no_grad(), prune(model, METHOD) as trace:
        output = tiny.generate(model, one, 3, output_attentions=True)
    stages = stages_of(trace, one)
    for step, maps in enumerate(output.attentions[1:], start=1):
        left = torch.arange(length)
        for layer, weights in enumerate(maps):
            left = stages.get(layer, left)
            assert weights.shape[2:] == (1, length + step)
            places = weights[0, :, 0].sum(dim=0).nonzero().squeeze(1).tolist()
            assert places == [*left.tolist(), *range(length, length + step)]


class PastItsHead(torch.nn.Module):
    """A head whose weights the model multiplies itself, as fused losses do."""

    def __init__(self, head: Any):
        super().__init__()
        self.head = head

    def forward(self, hidden: Tensor) -> Tensor:
        return self.head(hidden)


def test_logits_that_come_past_the_head_are_refused(monkeypatch):
    model, one = copy.deepcopy(tiny.model("llava")), tiny.sample("llava")
    monkeypatch.setattr(model, "get_output_embeddings", lambda: PastItsHead(model.lm_head))
    with torch.no_grad(), prune(model, "random", retention=0.5):
        model(**one, logits_to_keep=1)
        with pytest.raises(UnsupportedModel, match=r"past its head.*: pass logits_to_keep=1 and no labels$"):
            model(**one)
