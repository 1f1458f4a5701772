"""Bytes of the key-value cache after a prefill: held (from the tensors) and predicted (from the schedule)."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from trio_core.methods.method import Method
from trio_core.pruning import prune
from trio_core.trace import Trace
from trio_profile.cost import formula as cost_model
from trio_profile.inputs.workload import Workload
from trio_profile.records.schema import Shape


def measure(workload: Workload, method: Method | None) -> tuple[list[int], Trace | None]:
    """Bytes that each layer's cache holds after one prefill, and pruning's trace of it.

    method: None for the dense model, which has no trace.
    """
    with nullcontext() if method is None else prune(workload.model, method) as trace:
        return held_bytes(workload.prefill().past_key_values), trace


def held_bytes(cache: Any) -> list[int]:
    """Bytes of keys and values in each layer of a transformers cache."""
    return [layer.keys.nbytes + layer.values.nbytes for layer in cache.layers]


def predicted_bytes(shape: Shape, visual_by_layer: Sequence[int]) -> int:
    """Bytes that the cache should hold: each layer's visual tokens, and all text tokens."""
    tokens = [visual + shape.text_tokens for visual in visual_by_layer]
    return cost_model.kv_bytes(tokens, shape.kv_width, shape.itemsize, shape.batch)
