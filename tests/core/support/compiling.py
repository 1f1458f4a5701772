"""torch.compile: models that were compiled and run before the context, and models that are compiled inside it."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from transformers import LlavaForConditionalGeneration, PreTrainedModel

from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import Trio, methods, prune
from trio_core.models import toy
from trio_core.models.llava import Llava

GROUP = Group("torch.compile")
METHOD = Trio(retention=0.7, layers=(1,))
COMPILE: dict[str, Any] = {"backend": "eager"}
"""Dynamo decides whether hooks run; what its backend does with the graph has no part in that."""


def small() -> PreTrainedModel:
    """The toy LLaVA with two decoder layers. Its tower stays out of the graph, so that tracing takes a second."""
    config = Llava.toy_config()
    config.text_config.num_hidden_layers = 2
    config.vision_config.num_hidden_layers = 1
    config.vision_feature_layer = -1
    model: Any = toy.build(LlavaForConditionalGeneration, config, "sdpa", seed=0)
    model.model.get_image_features = torch.compiler.disable(model.model.get_image_features)
    model.model.get_placeholder_mask = torch.compiler.disable(model.model.get_placeholder_mask)
    return model


@cache
def plain_logits() -> tuple[torch.Tensor, torch.Tensor]:
    """Pruned and dense logits of the model that was never compiled."""
    model, one = small(), bench.sample("small")
    with prune(model, METHOD) as trace:
        pruned = bench.forward(model, one).logits
    right = bench.shortened(trace, one, plain=model)
    assert bench.near(bench.rows_left(trace, one, pruned[0]), right)
    return pruned, bench.forward(model, one).logits


def compiled(compile_it: Callable[[PreTrainedModel], tuple[Any, Any]], *, inside: bool) -> None:
    """Compile a model, prune, and look at the results in the context and after it.

    compile_it: compiles the model; returns what `prune` is given and what is called.
    inside: compile in the context; else compile and run before it.
    """
    model, one = small(), bench.sample("small")
    pruned, dense = plain_logits()
    given, called = (model, model) if inside else compile_it(model)
    if not inside:
        bench.forward(called, one)
    try:
        with prune(given, METHOD) as trace:
            if inside:
                given, called = compile_it(model)
            logits = bench.forward(called, one).logits
        bench.dropped(trace, method=METHOD)
        assert bench.near(logits[0], pruned[0]), "the logits are not the eager pruned model's"
    finally:
        assert bench.near(bench.forward(called, one).logits[0], dense[0]), "the dense model is not as it was"


def whole(model: PreTrainedModel) -> tuple[Any, Any]:
    model.compile(**COMPILE)
    return model, model


def wrapper(model: PreTrainedModel) -> tuple[Any, Any]:
    wrapped = torch.compile(model, **COMPILE)
    return wrapped, wrapped


def wrapper_of_inner(model: PreTrainedModel) -> tuple[Any, Any]:
    return model, torch.compile(model, **COMPILE)


def own_forward(model: PreTrainedModel) -> tuple[Any, Any]:
    model.forward = torch.compile(model.forward, **COMPILE)
    return model, model


def decoder(model: PreTrainedModel) -> tuple[Any, Any]:
    model.get_submodule("model.language_model").compile(**COMPILE)
    return model, model


def layers(model: PreTrainedModel) -> tuple[Any, Any]:
    for layer in model.get_submodule("model.language_model").layers:
        layer.compile(**COMPILE)
    return model, model


def tower(model: PreTrainedModel) -> tuple[Any, Any]:
    model.get_submodule("model.vision_tower").compile(**COMPILE)
    return model, model


_before = "run before the context"
for _title, _compile in (
    (f"`model.compile()`, {_before}", whole),
    (f"`torch.compile(model)`, {_before}; the wrapper is passed to `prune` and called", wrapper),
    (f"`torch.compile(model)`, {_before}; `model` is passed to `prune`, the wrapper is called", wrapper_of_inner),
    (f"`model.forward = torch.compile(model.forward)`, {_before}", own_forward),
    (f"`model.model.language_model.compile()`, {_before}", decoder),
):
    GROUP.refused(_title, partial(compiled, _compile, inside=False))
for _title, _compile, _inside in (
    (f"`layer.compile()` of each decoder layer, {_before}", layers, False),
    (f"`model.model.vision_tower.compile()`, {_before}; the decoder is not compiled", tower, False),
    ("`model.compile()` inside the context", whole, True),
    ("`torch.compile(model)` inside the context; the wrapper is called", wrapper, True),
    ("`model.forward = torch.compile(model.forward)` inside the context", own_forward, True),
    ("`layer.compile()` of each decoder layer inside the context", layers, True),
):
    GROUP.works(_title, partial(compiled, _compile, inside=_inside))


def tower_layers_compiled(*, inside: bool) -> None:
    """A method that looks into the tower, on a tower whose layers are compiled one by one."""
    model, one, traces, logits = bench.model(), bench.sample("small"), [], []
    method = methods.find("visionzip")(retention=0.5)
    for compiles in (False, True):
        if compiles and not inside:
            tower_layers(model)
            bench.forward(model, one)
        with prune(model, method) as trace:
            if compiles and inside:
                tower_layers(model)
            logits.append(bench.forward(model, one).logits[0])
            traces.append(trace)
        bench.dropped(trace, method=method)
    assert bench.near(*logits), "the logits are not the eager tower's"
    assert bench.kept(traces[0]) == bench.kept(traces[1]), "the eager tower keeps other tokens"


def tower_layers(model: PreTrainedModel) -> None:
    for layer in model.get_submodule("model.vision_tower.encoder").layers:
        layer.compile(**COMPILE)


_tower_layers = "`layer.compile()` of each layer of the vision tower"
GROUP.refused(f"{_tower_layers}, {_before}; VisionZip looks into it", partial(tower_layers_compiled, inside=False))
GROUP.works(f"{_tower_layers} inside the context; VisionZip looks into it", partial(tower_layers_compiled, inside=True))
