"""The same work without weights or memory: each module of a prefill run once on the meta device, and counted.

The library's forward as a whole reads its inputs and cannot run there (placeholder checks, mask building); its modules
can. Nothing is chosen on the meta device: a method's choice is what it declares, and is not part of the count.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from trio_core.models.adapter import Adapter
from trio_profile.models import Inputs
from trio_profile.profilers.flops_counted import Breakdown, breakdown


def prefill(adapter: Adapter, inputs: Inputs, tokens_by_layer: Sequence[int]) -> Breakdown:
    """Count the tower and the projector on `inputs`, each decoder layer on so many tokens, and one row of the head."""
    return breakdown(adapter, lambda: _run(adapter, inputs, tokens_by_layer))


def _to_meta(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.to("meta") if isinstance(value, Tensor) else value for value in args)


@torch.no_grad()
def _run(adapter: Adapter, inputs: Inputs, tokens_by_layer: Sequence[int]) -> None:
    model: Any = adapter.model
    features = model.model.get_image_features
    known = signature(features).parameters
    # Sizes are read by the host, and stay; pixels are not, nor positions, which Qwen's towers make of the sizes.
    handles = [
        module.register_forward_pre_hook(_to_meta)
        for name, module in model.named_modules()
        if name.endswith("rotary_pos_emb")
    ]
    try:
        features(**{name: _shape_only(value) for name, value in inputs.items() if name in known})
    finally:
        for handle in handles:
            handle.remove()
    batch, width = len(inputs["input_ids"]), model.config.get_text_config().hidden_size
    axes = (3,) if adapter.multi_axis_positions else ()
    for index, (layer, tokens) in enumerate(zip(adapter.layers, tokens_by_layer, strict=True)):
        hidden = torch.empty(batch, tokens, width, dtype=model.dtype, device="meta")
        positions = torch.empty(*axes, batch, tokens, dtype=torch.long, device="meta")
        layer.forward(
            hidden, position_embeddings=adapter.rotary(hidden, positions, index), attention_mask=None, use_cache=False
        )
    model.lm_head(torch.empty(batch, 1, width, dtype=model.dtype, device="meta"))


def _shape_only(value: Tensor) -> Tensor:
    return value.to("meta") if value.is_floating_point() else value
