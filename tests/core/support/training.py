"""Training: gradients through a pruned forward, gradient checkpointing, labels."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune

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


def of_shortened(model: Any, one: bench.Inputs, stages: dict[int, Tensor]) -> dict[str, Tensor]:
    """The gradients of a forward whose hidden states are cut by hand: the model's own layers, one after another."""
    pixels = one["pixel_values"].clone().requires_grad_()
    decoder = model.model.language_model
    features = torch.cat(list(model.model.get_image_features(pixels, return_dict=True).pooler_output))
    hidden = decoder.embed_tokens(one["input_ids"])
    visual = (one["input_ids"] == model.config.image_token_id)[..., None]
    hidden = hidden.masked_scatter(visual, features.to(hidden.dtype))
    places = torch.arange(hidden.shape[1])
    for index, layer in enumerate(decoder.layers):
        if index in stages:
            left = torch.isin(places, stages[index])
            places, hidden = places[left], hidden[:, left]
        causal = torch.ones(len(places), len(places), dtype=torch.bool).tril()[None, None]
        mask = torch.zeros(causal.shape).masked_fill(~causal, torch.finfo(torch.float32).min)
        hidden = layer(
            hidden,
            attention_mask=mask,
            position_ids=places[None],
            position_embeddings=decoder.rotary_emb(hidden, places[None]),
        )
    return gradients(model, pixels, model.lm_head(decoder.norm(hidden)))


def gradients_are_right(model: PreTrainedModel) -> str:
    """A pruned forward and its backward, against the forward that is cut by hand."""
    one = bench.sample()
    pixels = one["pixel_values"].clone().requires_grad_()
    with prune(model, bench.METHOD) as trace:
        found = gradients(model, pixels, model(**{**one, "pixel_values": pixels}).logits)
    counts = bench.dropped(trace)
    assert bench.kept(trace) == bench.plain_kept(), "the plain model keeps other tokens"
    stages = {stage.layer: bench.reference.kept_rows(one, stage.kept[0]) for stage in trace.stages}
    model.gradient_checkpointing_disable()
    expected = of_shortened(model, one, stages)
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
    model = bench.model().train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return gradients_are_right(model)


@GROUP.works("`gradient_checkpointing_enable()`, reentrant")
def checkpointing_reentrant() -> str:
    model = bench.model().train()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    return gradients_are_right(model)


@GROUP.works("The backward runs after the context, with gradient checkpointing")
def backward_outside() -> str:
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


@GROUP.refused("`labels=`")
def labels() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD):
        model(**one, labels=one["input_ids"])
    return "The loss was computed."
