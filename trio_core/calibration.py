"""Options that a method's authors search for on example prompts: so far the layer of VTW."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from trio_core.errors import OptionError
from trio_core.methods.vtw import VTW
from trio_core.models import adapter_for
from trio_core.pruning import prune, unwrap
from trio_core.tensors import widened

Inputs = Mapping[str, Any]
"""The keyword arguments of a model's forward, as a processor returns them."""


@torch.no_grad()
def vtw_layer(model: nn.Module, prompts: Sequence[Inputs], threshold: float = 0.003, first: int = 5) -> int:
    """The layer after which VTW may drop the pictures, by the search of its authors.

        layer = vtw_layer(model, prompts)
        with prune(model, "vtw", retention=0.5, layers=(layer,)):

    It is the first layer, from `first` on, after which dropping changes the last token's distribution by a KL
    divergence KL(dropped ‖ dense) of at most `threshold`, averaged over the prompts. The last layer is no candidate.

    `retention` must be given and below 1, and changes nothing here: the layer alone decides.

    model: as for `prune`.
    prompts: about 20 in the paper, each with a picture. Samples of a batch are padded on the left.
    threshold: in nats. The authors take 0.003 for LLaVA-1.5-7B, 0.0005 for its 13B, 0.0001 for LLaVA-NeXT-7B.
    first: the first candidate, 1-based.

    The dense model runs once for each prompt, the pruned one once for each candidate and prompt until one is found.
    Raises OptionError if no layer is that close, and for prompts without pictures or with padding at their end;
    otherwise what `prune` and the model's forward raise.
    Source: lzhxmu/VTW at a3d8cfc. Its distributions are in half precision, ours in float32.
    """
    last = len(adapter_for(unwrap(model)[0]).layers) - 1
    if not 1 <= first <= last:
        raise OptionError(f"first {first}: this decoder's candidates are the layers 1 … {last}")
    if not prompts:
        raise OptionError("prompts: none is given; take some twenty that are like those of your task")
    for number, prompt in enumerate(prompts):
        mask = prompt.get("attention_mask")
        if mask is not None and not mask[:, -1].all():
            raise OptionError(f"prompt {number} is padded at its end: pad on the left, or pass one sample each")
    dense = [_log_probabilities(model, prompt) for prompt in prompts]
    divergences: dict[int, float] = {}
    for layer in range(first, last + 1):
        divergences[layer] = fmean(
            divergence(_dropped(model, number, prompt, layer), full)
            for number, (prompt, full) in enumerate(zip(prompts, dense, strict=True))
        )
        if divergences[layer] <= threshold:
            return layer
    nearest = min(divergences, key=lambda layer: divergences[layer])
    raise OptionError(
        f"threshold {threshold}: no layer from {first} to {last} is that close; the closest is layer {nearest} with a "
        f"divergence of {divergences[nearest]:.3g}: raise the threshold"
    )


def divergence(dropped: Tensor, full: Tensor) -> float:
    """KL(dropped ‖ full) in nats, averaged over the samples. Both are [B, V] log-probabilities."""
    return (dropped.exp() * (dropped - full)).sum(dim=-1).mean().item()


def _dropped(model: nn.Module, number: int, prompt: Inputs, layer: int) -> Tensor:
    """[B, V], what the last token predicts if the pictures leave after `layer`. Raises OptionError without pictures."""
    with prune(model, VTW(retention=0.5, layers=(layer,))) as trace:
        predicted = _log_probabilities(model, prompt)
    if not trace.visual_tokens:
        raise OptionError(f"prompt {number} has no picture: give prompts with pictures")
    return predicted


def _log_probabilities(model: nn.Module, prompt: Inputs) -> Tensor:
    """[B, V], what the last token predicts, in float32."""
    logits = model(**{**prompt, "use_cache": False, "logits_to_keep": 1}).logits[:, -1]
    return widened(logits).log_softmax(dim=-1)
