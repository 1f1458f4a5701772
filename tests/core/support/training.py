"""Training: gradients through a pruned forward, gradient checkpointing, labels."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.trace import Trace

GROUP = Group("Training")


def loss_of(logits: Tensor) -> Tensor:
    """Cross-entropy of the last four rows against fixed tokens."""
    return cross_entropy(logits[0, -4:].float(), torch.tensor([5, 17, 29, 41]))


def gradients(model: PreTrainedModel, pixels: Tensor, logits: Tensor) -> dict[str, Tensor]:
    """The loss's gradients with respect to the picture and to every weight that it reaches."""
    named = {"pixel_values": pixels, **dict(model.named_parameters())}
    for leaf in named.values():
        leaf.grad = None
    loss_of(logits).backward()
    return {name: leaf.grad for name, leaf in named.items() if leaf.grad is not None}


def of_shortened(model: Any, one: bench.Inputs, trace: Trace) -> dict[str, Tensor]:
    """The gradients of a forward that is shortened by hand."""
    pixels = one["pixel_values"].clone().requires_grad_()
    return gradients(model, pixels, bench.layer_by_layer(model, {**one, "pixel_values": pixels}, trace))


def gradients_are_right(model: PreTrainedModel) -> str:
    """A pruned forward and its backward, against the forward that is cut by hand."""
    one = bench.sample()
    pixels = one["pixel_values"].clone().requires_grad_()
    with prune(model, bench.METHOD) as trace:
        found = gradients(model, pixels, model(**{**one, "pixel_values": pixels}).logits)
    counts = bench.dropped(trace)
    assert bench.kept(trace) == bench.plain_kept(), "the plain model keeps other tokens"
    model.gradient_checkpointing_disable()
    expected = of_shortened(model, one, trace)
    assert set(found) == set(expected)
    assert all(bench.near(found[name], expected[name], 1e-3) for name in expected), "a gradient is another one"
    return (
        f"{counts}; the gradients of the picture and of {len(expected) - 1} weights are those of the physically "
        "shortened sequence."
    )


@GROUP.works("`model.train()`, forward and backward")
def forward_and_backward() -> str:
    return gradients_are_right(bench.model().train())


@GROUP.works("`gradient_checkpointing_enable()`, not reentrant")
def checkpointing() -> str:
    tiny.needs(5, 23, "gradient checkpointing runs hooks again, and prune() refuses it")
    model = bench.model().train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return gradients_are_right(model)


@GROUP.works("`gradient_checkpointing_enable()`, reentrant")
def checkpointing_reentrant() -> str:
    tiny.needs(5, 23, "gradient checkpointing runs hooks again, and prune() refuses it")
    model = bench.model().train()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    return gradients_are_right(model)


@GROUP.works("The backward runs after the context, with gradient checkpointing")
def backward_outside() -> str:
    tiny.needs(5, 23, "gradient checkpointing runs hooks again, and prune() refuses it")
    model, one = bench.model().train(), bench.sample()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    pixels = one["pixel_values"].clone().requires_grad_()
    with prune(model, bench.METHOD) as trace:
        logits = model(**{**one, "pixel_values": pixels}).logits
    found = gradients(model, pixels, logits)
    counts = bench.dropped(trace)
    model.gradient_checkpointing_disable()
    with prune(model, bench.METHOD):
        expected = gradients(model, pixels, model(**{**one, "pixel_values": pixels}).logits)
    assert all(bench.near(found[name], expected[name], 1e-3) for name in expected), "a gradient is another one"
    return f"{counts}; the gradients are those of a backward inside the context without checkpointing."


@GROUP.refused("`model.train()`, forward and backward with a method that merges tokens (VisionZip)")
def merging() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, "visionzip", retention=0.5):
        model(**one, use_cache=False).logits.sum().backward()
    raise AssertionError("not refused")


@GROUP.refused("`labels=`")
def labels() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD):
        model(**one, labels=one["input_ids"])
    raise AssertionError("not refused")
