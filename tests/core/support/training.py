"""Training: gradients through a pruned forward, gradient checkpointing, labels, weights that change."""

from collections.abc import Callable
from dataclasses import replace
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
        ours = gradients(model, pixels, model(**{**one, "pixel_values": pixels}).logits)
    counts = bench.dropped(trace)
    assert bench.kept(trace) == bench.plain_kept(), "the plain model keeps other tokens"
    model.gradient_checkpointing_disable()
    expected = of_shortened(model, one, trace)
    assert set(ours) == set(expected)
    assert all(bench.near(ours[name], expected[name], 1e-3) for name in expected), "a gradient is another one"
    return (
        f"{counts}; the gradients of the picture and of {len(expected) - 1} weights are those of the physically "
        "shortened sequence."
    )


GROUP.works("`model.train()`, forward and backward", lambda: gradients_are_right(bench.model().train()))


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
    ours = gradients(model, pixels, logits)
    counts = bench.dropped(trace)
    model.gradient_checkpointing_disable()
    with prune(model, bench.METHOD):
        expected = gradients(model, pixels, model(**{**one, "pixel_values": pixels}).logits)
    assert all(bench.near(ours[name], expected[name], 1e-3) for name in expected), "a gradient is another one"
    return f"{counts}; the gradients are those of a backward inside the context without checkpointing."


@GROUP.refused("`model.train()`, forward and backward with a method that merges tokens (VisionZip)", method="visionzip")
def merging(model, one):
    model(**one, use_cache=False).logits.sum().backward()


@GROUP.works("`labels=` of the answer, in a padded batch; forward and backward")
def labels() -> str:
    model, samples = bench.model().train(), [bench.sample("small", seed=1), bench.sample()]
    inputs = tiny.batch(samples)
    answer = inputs["input_ids"].clone()
    answer[:, :-4] = -100
    with prune(model, bench.METHOD) as trace:
        loss = model(**inputs, labels=answer).loss
        loss.backward()
    counts = [bench.dropped(trace, row=row) for row in range(2)]
    rows = torch.cat([bench.shortened(trace, one, row=row)[0][-5:-1] for row, one in enumerate(samples)])
    assert bench.near(loss.detach(), cross_entropy(rows, answer[:, -4:].flatten())), "another loss"
    slopes = [leaf.grad for leaf in model.parameters() if leaf.grad is not None]
    assert slopes and all(slope.isfinite().all() for slope in slopes)
    return f"{' and '.join(counts)}; the loss is that of the physically shortened sequences, its gradients are finite."


@GROUP.refused("`labels=` with a label at the token behind the picture")
def labels_behind_the_picture(model, one):
    model(**one, labels=one["input_ids"])


def weights_change(model: PreTrainedModel, change: Callable[[PreTrainedModel], None]) -> str:
    """Change the weights between two prefills of one context, three times.

    The oracle is `autograd`, which calls every module, on a copy that never had other weights.
    """
    one = bench.sample()
    with prune(model, bench.METHOD) as trace:
        for _ in range(3):
            bench.forward(model, one)
            (earlier,) = trace.stages[0].scores
            change(model)
            bench.forward(model, one)
            plain = bench.model()
            plain.load_state_dict({name: weight.clone() for name, weight in model.state_dict().items()})
            with prune(plain, replace(bench.METHOD, saliency="autograd")) as expected:
                bench.forward(plain, one)
            (ours,), (theirs,) = trace.stages[0].scores, expected.stages[0].scores
            assert not bench.near(earlier, theirs, 1e-2), "the weights' change has no effect on the scores"
            assert bench.near(ours, theirs, 1e-5), "the scores are those of other weights"
            assert bench.kept(trace) == bench.kept(expected)
    return f"{bench.dropped(trace)}; the scores are those of the changed weights."


@GROUP.works("A fused optimiser's steps inside the context, which torch does not report (`AdamW(fused=True)`)")
def fused_optimiser() -> str:
    model = bench.model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02, fused=True)

    def change(model: PreTrainedModel) -> None:
        for name, weight in model.named_parameters():
            weight.grad = torch.randn(weight.shape) if "norm" in name else torch.zeros_like(weight)
        optimiser.step()

    return weights_change(model, change)


@GROUP.works("`weight.data.copy_` inside the context, as a moving average of weights does it")
def moving_average() -> str:
    def change(model: PreTrainedModel) -> None:
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.data.copy_(weight.data + torch.rand(weight.shape))

    return weights_change(bench.model(), change)


@GROUP.works("A storage of a norm's weight is written by numpy inside the context")
def numpy_writes() -> str:
    def change(model: PreTrainedModel) -> None:
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.detach().numpy()[::2] += 0.7

    return weights_change(bench.model(), change)
