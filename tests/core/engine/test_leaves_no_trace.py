"""`prune` leaves no trace: the model that comes out is the one that went in, after success, failure and refusal alike.

Refusals name the thing, its value and the way out, in one line.
"""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods.test_methods import FOR_PICTURES
from tests.core.tiny import BY_HAND
from trio_core import OptionError, Trio, UnsupportedInput, methods, prune
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, View

LAYERS = (1, 3, 4)

# --- nothing stays behind --------------------------------------------------------------------------------------------


def snapshot(model: PreTrainedModel) -> dict[str, Any]:
    """All that pruning could leave behind on a model."""

    def hooks(module: torch.nn.Module) -> dict[str, list[int]]:
        return {key: list(value) for key, value in vars(module).items() if "hook" in key and isinstance(value, dict)}

    return {
        "attributes": {name: sorted(vars(module)) for name, module in model.named_modules()},
        "hooks": {name: hooks(module) for name, module in model.named_modules()},
        "training": {name: module.training for name, module in model.named_modules()},
        "parameters": {name: (p.requires_grad, p.grad is None, id(p)) for name, p in model.named_parameters()},
        "weights": {name: value.clone() for name, value in model.state_dict().items()},
        "attention": [part._attn_implementation for part in (model.config, model.config.get_text_config())],
        "config": model.config.to_dict(),
    }


def same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    weights = before["weights"], after["weights"]
    return all(before[key] == after[key] for key in before if key != "weights") and all(
        torch.equal(weights[0][name], weights[1][name]) for name in weights[0]
    )


@pytest.fixture(params=BY_HAND)
def untouched(request) -> Iterator[tuple[PreTrainedModel, dict[str, Tensor]]]:
    """A model and a sample; afterwards the model must be the one that came in, and work as it did."""
    model, one = tiny.model(request.param), tiny.sample(request.param)
    with torch.no_grad():
        dense = model(
            **one, output_hidden_states=True, output_attentions=False
        ).logits  # installs transformers' own hooks
    before = snapshot(model)
    yield model, one
    assert same(before, snapshot(model))
    with torch.no_grad():
        assert torch.equal(model(**one).logits, dense)


def test_a_snapshot_sees_a_hook_and_an_attribute():
    model = tiny.model("llava")
    before = snapshot(model)
    handle = model.model.language_model.layers[2].register_forward_pre_hook(lambda *_: None)
    assert not same(before, snapshot(model))
    handle.remove()
    model.model.language_model.left_behind = 1
    assert not same(before, snapshot(model))
    del model.model.language_model.left_behind
    assert same(before, snapshot(model))


def test_nothing_stays_after_generate_and_after_an_exception_in_a_layer(untouched):
    model, one = untouched
    layer, method = model.get_submodule("model.language_model.layers.4"), Trio(retention=0.5, layers=LAYERS)
    with torch.no_grad(), prune(model, method) as trace:
        expected = model(**one).logits
        model.generate(**one, max_new_tokens=4)
        with tiny.interrupted(layer, ZeroDivisionError):
            model(**one)
        with pytest.raises(UnsupportedInput, match="called past the hooks of the model"):
            model.model(**one)  # the broken forward is not taken up again
        assert tiny.same(model(**one).logits, expected)  # the same context goes on
        assert len(trace.stages) == len(LAYERS)
    failing = layer.register_forward_hook(lambda *_: 1 / 0)
    with failing, pytest.raises(ZeroDivisionError), torch.no_grad(), prune(model, method):
        model(**one)


PLACES = ("model.vision_tower", "model.multi_modal_projector", "model.language_model.layers.4", "lm_head")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("method", ["random", "visionzip"])
def test_nothing_stays_after_an_interruption(method, error):
    """torch calls `always_call` hooks for an `Exception` only."""
    model, one, other = tiny.model("llava"), tiny.sample("llava"), tiny.sample("llava", seed=1)
    before = snapshot(model)
    with torch.no_grad(), prune(model, method, retention=0.5):
        expected = model(**other).logits
    with torch.no_grad(), prune(model, method, retention=0.5):
        for place in PLACES:
            for call in (partial(model, **one), partial(model.generate, **one, max_new_tokens=2)):
                with tiny.interrupted(model.get_submodule(place), error):
                    call()
                for past_the_hooks in (model.model, model.forward):
                    with pytest.raises(UnsupportedInput, match="called past the hooks of the model"):
                        past_the_hooks(**other)
                assert tiny.same(model(**other).logits, expected)
    assert same(before, snapshot(model))


def test_a_context_does_not_keep_caches_alive():
    model = tiny.model("llava")
    with torch.no_grad(), prune(model, Trio(retention=0.5, layers=LAYERS)):
        cache = weakref.ref(model(**tiny.sample("llava")).past_key_values)
        gc.collect()
        assert cache() is None


# --- bad input -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_prompt_of_text_alone_runs_dense_and_the_trace_says_so():
    model, text = tiny.model("llava"), {"input_ids": torch.tensor([[5, 7, 9, 11]])}
    dense = model(**text).logits
    for name in FOR_PICTURES:
        with prune(model, name, retention=0.5) as trace:
            model(**tiny.sample("llava"))
            assert torch.equal(model(**text).logits, dense), name
        assert trace.notes == ("no visual tokens in the prompt: it ran dense",), name
        assert trace.stages == [] and trace.schedules == () and trace.realised_retention == 1.0, name


@pytest.mark.parametrize("untouched", ["llava"], indirect=True)
@torch.no_grad()
def test_what_no_method_can_prune_is_refused_by_each(untouched):
    """A picture behind all words, no tokens to keep; a budget above the tokens that are there keeps all."""
    model, one = untouched
    dense, end = model(**one).logits, int(tiny.visual_rows(one)[-1]) + 1
    ends = {n: v[:, :end] if n in ("input_ids", "attention_mask", "mm_token_type_ids") else v for n, v in one.items()}
    for name in FOR_PICTURES:
        layers = methods.find(name)(retention=1.0).default_layers(6)[:1]
        for options, inputs, error, message in (
            ({"retention": 0.5}, ends, UnsupportedInput, "sample 0 of the batch ends with its picture"),
            ({"budgets": (0,), "layers": layers}, one, OptionError, r"budgets \(0,\): keep at least 1 token"),
            ({"budgets": (-3,), "layers": layers}, one, OptionError, r"budgets \(-3,\): keep at least 1 token"),
        ):
            with prune(model, name, **options), tiny.refused(error, message):
                model(**inputs)
        with prune(model, name, budgets=(9999,), layers=layers) as trace:
            assert torch.equal(model(**one).logits, dense), name
        assert trace.realised_retention == 1, name


# --- caches that are not what they were ------------------------------------------------------------------------------


def test_a_cache_goes_when_its_last_user_does():
    """Without the collector, which is off while times are taken."""
    model, one = tiny.model("llava"), tiny.sample("llava")
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad(), prune(model, "divprune", retention=0.4):
            gone = weakref.ref(model(**one).past_key_values.layers[0])
        assert gone() is None
    finally:
        gc.enable()


# --- a method of the user's own, in the model ------------------------------------------------------------------------


def test_an_exception_in_a_method_leaves_nothing(untouched):
    @dataclass(frozen=True, kw_only=True)
    class Failing(Method):
        reference: ClassVar[Reference] = Reference(title="none")

        def select(self, view: View) -> Selection:  # noqa: ARG002
            raise ZeroDivisionError("in the method")

    model, one = untouched
    with pytest.raises(ZeroDivisionError), prune(model, Failing(retention=0.5, layers=LAYERS)):
        model(**one)
