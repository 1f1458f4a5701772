"""Training: gradients through a pruned forward, gradient checkpointing, labels, weights that change."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from tests.core import tiny
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


def gradients_are_right(checkpointing: dict[str, bool] | None = None, *, inside: bool = True) -> None:
    """A pruned forward and its backward, against the forward that is cut by hand.

    inside: the backward runs inside the context. checkpointing: the options of gradient checkpointing.
    """
    model, one = bench.model().train(), bench.sample()
    if checkpointing is not None:
        model.gradient_checkpointing_enable(checkpointing)
    pixels = one["pixel_values"].clone().requires_grad_()
    inputs = {**one, "pixel_values": pixels}
    with prune(model, bench.METHOD) as trace:
        logits = model(**inputs).logits
        ours = gradients(model, pixels, logits) if inside else {}
    ours = ours or gradients(model, pixels, logits)
    bench.dropped(trace)
    assert bench.kept(trace) == bench.plain_kept(), "the plain model keeps other tokens"
    model.gradient_checkpointing_disable()
    pixels = one["pixel_values"].clone().requires_grad_()
    expected = gradients(model, pixels, bench.layer_by_layer(model, {**one, "pixel_values": pixels}, trace))
    assert set(ours) == set(expected)
    assert all(bench.near(ours[name], expected[name], 1e-3) for name in expected), "a gradient is another one"


GROUP.works("`model.train()`, forward and backward", gradients_are_right)
for _title, _reentrant, _inside in (
    ("`gradient_checkpointing_enable()`, not reentrant", False, True),
    ("`gradient_checkpointing_enable()`, reentrant", True, True),
    ("The backward runs after the context, with gradient checkpointing", False, False),
):
    GROUP.works(_title, partial(gradients_are_right, {"use_reentrant": _reentrant}, inside=_inside))


@GROUP.refused("`model.train()`, forward and backward with a method that merges tokens (VisionZip)", method="visionzip")
def merging(model, one):
    model(**one, use_cache=False).logits.sum().backward()


@GROUP.works("`labels=` of the answer, in a padded batch; forward and backward")
def labels() -> None:
    model, samples = bench.model().train(), [bench.sample("small", seed=1), bench.sample()]
    inputs = tiny.batch(samples)
    answer = inputs["input_ids"].clone()
    answer[:, :-4] = -100
    with prune(model, bench.METHOD) as trace:
        loss = model(**inputs, labels=answer).loss
        loss.backward()
    bench.dropped(trace)
    rows = torch.cat([bench.shortened(trace, one, row=row)[-5:-1] for row, one in enumerate(samples)])
    assert bench.near(loss.detach(), cross_entropy(rows, answer[:, -4:].flatten())), "another loss"
    slopes = [leaf.grad for leaf in model.parameters() if leaf.grad is not None]
    assert slopes and all(slope.isfinite().all() for slope in slopes)


@GROUP.refused("`labels=` with a label at the token behind the picture")
def labels_behind_the_picture(model, one):
    model(**one, labels=one["input_ids"])


def weights_change(model: PreTrainedModel, change: Callable[[PreTrainedModel], None]) -> None:
    """Change the weights between two prefills of one context, twice.

    The oracle is `autograd`, which calls every module, on a copy that never had other weights.
    """
    one = bench.sample()
    with prune(model, bench.METHOD) as trace:
        for _ in range(2):
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
    bench.dropped(trace)


def norms(model: PreTrainedModel) -> list[torch.nn.Parameter]:
    return [weight for name, weight in model.named_parameters() if "norm" in name]


@GROUP.works("A fused optimiser's steps inside the context, which torch does not report (`AdamW(fused=True)`)")
def fused_optimiser() -> None:
    model = bench.model()
    optimiser = torch.optim.AdamW(norms(model), lr=0.02, fused=True)

    def change(model: PreTrainedModel) -> None:
        for weight in norms(model):
            weight.grad = torch.randn(weight.shape)
        optimiser.step()

    weights_change(model, change)


def move_average(model: PreTrainedModel) -> None:
    for weight in norms(model):
        weight.data.copy_(weight.data + torch.rand(weight.shape))


def write_by_numpy(model: PreTrainedModel) -> None:
    for weight in norms(model):
        weight.detach().numpy()[::2] += 0.7


for _title, _change in (
    ("`weight.data.copy_` inside the context, as a moving average of weights does it", move_average),
    ("A storage of a norm's weight is written by numpy inside the context", write_by_numpy),
):
    GROUP.works(_title, lambda change=_change: weights_change(bench.model(), change))
