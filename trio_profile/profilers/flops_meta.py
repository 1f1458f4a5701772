"""Count a prefill's work without weights or memory: each module runs once on the meta device.

The library's whole forward cannot run there, because it reads its inputs (placeholder checks, masks). Its modules can.
Nothing is selected on the meta device. The work of a selection is what the method declares; it is not counted here.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import DynamicCache

from trio_core.engine.calls import cache_argument
from trio_core.models.adapter import Adapter
from trio_profile.inputs.builtin import Inputs
from trio_profile.profilers.flops_counted import Breakdown, breakdown


def count(adapter: Adapter, inputs: Inputs, tokens_by_layer: Sequence[int], steps: int) -> tuple[Breakdown, int]:
    """Count a prefill, and the MACs of `steps` forwards of one token after it.

    Only two of these forwards run. Each further one attends to one more token, so its work grows by a constant.

    inputs: of the vision tower and the projector.
    tokens_by_layer: tokens that each decoder layer runs on.
    """
    cache, batch = DynamicCache(config=adapter.model.config), len(inputs["input_ids"])
    one_each = [1] * len(adapter.layers)
    with _OneKernel():
        prefill = breakdown(adapter, lambda: _prefill(adapter, inputs, tokens_by_layer, cache))
        first, second = (
            breakdown(adapter, lambda: _decoder(adapter, one_each, cache, batch)).macs if steps > ran else 0
            for ran in range(2)
        )
    return prefill, steps * first + (second - first) * steps * (steps - 1) // 2


class _OneKernel(TorchFunctionMode):
    """Replace SDPA by the one operator that a CPU runs. The meta device would split it into twenty operators."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*args[:3])[0]
        return func(*args, **(kwargs or {}))


def _to_meta(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.to("meta") if isinstance(value, Tensor) else value for value in args)


@torch.no_grad()
def _prefill(adapter: Adapter, inputs: Inputs, tokens_by_layer: Sequence[int], cache: DynamicCache) -> None:
    model: Any = adapter.model
    features = model.model.get_video_features if "pixel_values_videos" in inputs else model.model.get_image_features
    known = signature(features).parameters
    # Pixels go to the meta device. Sizes stay on the host, which reads them. A hook moves the positions that Qwen's
    # towers compute from the sizes.
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name.endswith("rotary_pos_emb"):
                stack.enter_context(module.register_forward_pre_hook(_to_meta))
        features(**{name: _shape_only(value) for name, value in inputs.items() if name in known})
    _decoder(adapter, tokens_by_layer, cache, batch=len(inputs["input_ids"]))


@torch.no_grad()
def _decoder(adapter: Adapter, tokens_by_layer: Sequence[int], cache: DynamicCache, batch: int) -> None:
    """Run each layer on its number of new tokens, after those in the cache; then the head on one row."""
    model: Any = adapter.model
    width = model.config.get_text_config().hidden_size
    axes = (3,) if adapter.multi_axis_positions else ()
    for index, (layer, tokens) in enumerate(zip(adapter.layers, tokens_by_layer, strict=True)):
        hidden = torch.empty(batch, tokens, width, dtype=model.dtype, device="meta")
        positions = torch.empty(*axes, batch, tokens, dtype=torch.long, device="meta")
        layer.forward(
            hidden,
            position_embeddings=adapter.rotary(hidden, positions, index),
            attention_mask=None,
            **{cache_argument(layer): cache},
        )
    model.lm_head(torch.empty(batch, 1, width, dtype=model.dtype, device="meta"))


def _shape_only(value: Tensor) -> Tensor:
    return value.to("meta") if value.is_floating_point() else value
