"""`prune` leaves no trace: the model that comes out is the one that went in, after success, failure and refusal alike.

Refusals name the thing, its value and the way out, in one line.
"""

import gc
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from trio_core import OptionError, Trio, UnsupportedInput, methods, prune

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


@pytest.fixture(params=["llava", "qwen2_5_vl"])
def untouched(request) -> Iterator[tuple[PreTrainedModel, dict[str, Tensor]]]:
    """A model and a sample; afterwards the model must be the one that came in, and work as it did."""
    model, one = tiny.model(request.param), tiny.sample(request.param)
    with torch.no_grad():
        dense = model(**one, output_hidden_states=True).logits  # installs transformers' own hooks
    before = snapshot(model)
    yield model, one
    assert same(before, snapshot(model))
    with torch.no_grad():
        assert torch.equal(model(**one).logits, dense)


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


@pytest.mark.parametrize("method", ["random", "visionzip"])
def test_nothing_stays_after_an_interruption(method):
    """torch calls `always_call` hooks for an `Exception` only."""
    model, one, other = tiny.model("llava"), tiny.sample("llava"), tiny.sample("llava", seed=1)
    before = snapshot(model)
    with torch.no_grad(), prune(model, method, retention=0.5):
        expected = model(**other).logits
    with torch.no_grad(), prune(model, method, retention=0.5):
        for place in ("model.vision_tower", "model.language_model.layers.4", "lm_head"):
            for call in (partial(model, **one), partial(model.generate, **one, max_new_tokens=2)):
                with tiny.interrupted(model.get_submodule(place)):
                    call()
                for past_the_hooks in (model.model, model.forward):
                    with pytest.raises(UnsupportedInput, match="called past the hooks of the model"):
                        past_the_hooks(**other)
                assert tiny.same(model(**other).logits, expected)
    assert same(before, snapshot(model))


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("untouched", ["llava"], indirect=True)
@torch.no_grad()
def test_what_cannot_be_pruned_is_refused(untouched):
    """No tokens to keep; a budget above the tokens that are there keeps all."""
    model, one = untouched
    dense = model(**one).logits
    for name in ("trio", "fitprune", "vtw", "visionzip"):
        layers = methods.find(name)(retention=1.0).default_layers(6)[:1]
        with prune(model, name, budgets=(0,), layers=layers), tiny.refused(OptionError, r"budgets \(0,\): keep at"):
            model(**one)
        with prune(model, name, budgets=(9999,), layers=layers) as trace:
            assert torch.equal(model(**one).logits, dense), name
        assert trace.realised_retention == 1, name


# --- caches ----------------------------------------------------------------------------------------------------------


def test_a_cache_goes_when_its_last_user_does():
    """Inside the context and after it; without the collector, which is off while times are taken."""
    model, one = tiny.model("llava"), tiny.sample("llava")
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad(), prune(model, Trio(retention=0.5, layers=LAYERS)):
            gone = weakref.ref(model(**one)[tiny.CACHE])
            assert gone() is None
        with torch.no_grad(), prune(model, "divprune", retention=0.4):
            gone = weakref.ref(model(**one)[tiny.CACHE].layers[0])
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["random", "trio", "visionzip", "fastv", "visionzip+trio"])
def test_a_context_leaves_no_tensor_to_the_garbage_collector(name):
    """It is off while times are taken. The first run makes what stays: the positions of a kernel, a cached draw."""
    model, one = tiny.model("llava"), tiny.sample("llava")

    def tensors_after_a_run() -> int:
        with prune(model, name, retention=0.5):
            tiny.generate(model, one, 2)
        return sum(isinstance(thing, Tensor) for thing in gc.get_objects())

    tensors_after_a_run()
    gc.collect()
    gc.disable()
    try:
        assert tensors_after_a_run() == tensors_after_a_run()
    finally:
        gc.enable()
