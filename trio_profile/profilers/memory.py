"""Memory of one prefill: its peak, with its cache and without, and the bytes of the cache, held and predicted."""

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trio_core.engine.calls import cache_of
from trio_core.methods.method import Method
from trio_core.trace import Trace
from trio_profile.cost import formula
from trio_profile.inputs.workload import Workload
from trio_profile.records.schema import Shape


class Memory(NamedTuple):
    """Bytes at the peak of one prefill, as in `records.schema.Dense`."""

    peak_memory_bytes: int
    working_memory_bytes: int
    peak_reserved_bytes: int | None = None


def measure(workload: Workload, method: Method | None) -> Memory:
    """Run two prefills, one with a cache and one without, and return their peaks.

    On CUDA these are the allocator's peaks. On a CPU the bytes of all live tensor storages are summed after every
    operator. This is exact, but does not see scratch memory inside a kernel.

    method: None for the dense model.
    """
    with workload.pruned(method):
        if workload.device.type == "cuda":
            return _on_cuda(workload)
        return Memory(_live(workload, use_cache=True), _live(workload, use_cache=False))


def cache_bytes(workload: Workload, method: Method | None) -> tuple[list[int], Trace | None]:
    """Bytes that each layer's cache holds after one prefill, and pruning's trace of it.

    method: None for the dense model, which has no trace.
    """
    with workload.pruned(method) as trace:
        return held_bytes(cache_of(workload.prefill())), trace


def held_bytes(cache: Any) -> list[int]:
    """Bytes of keys and values in each layer of a transformers cache."""
    return [layer.keys.nbytes + layer.values.nbytes for layer in cache.layers]


def predicted_bytes(shape: Shape, visual_by_layer: Sequence[int]) -> int:
    """Bytes that the cache should hold: each layer's visual tokens, and all text tokens."""
    tokens = [visual + shape.text_tokens for visual in visual_by_layer]
    return formula.kv_bytes(tokens, shape.kv_width, shape.itemsize, shape.batch)


def _on_cuda(workload: Workload) -> Memory:
    peaks: list[int] = []
    reserved = 0
    for use_cache in (True, False):
        torch.cuda.synchronize(workload.device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(workload.device)
        before = torch.cuda.memory_allocated(workload.device)
        workload.prefill(use_cache=use_cache)
        peaks.append(torch.cuda.max_memory_allocated(workload.device) - before)
        reserved = max(reserved, torch.cuda.max_memory_reserved(workload.device))
    return Memory(peaks[0], peaks[1], reserved)


def _live(workload: Workload, *, use_cache: bool) -> int:
    held = [*workload.model.parameters(), *workload.model.buffers(), *workload.inputs.values()]
    with _LiveBytes(held) as live:
        workload.prefill(use_cache=use_cache)
    return live.peak


class _LiveBytes(TorchDispatchMode):
    """Sums the bytes of the storages that operators make, as long as they are alive."""

    def __init__(self, held: list[Tensor]):
        super().__init__()
        self.seen = weakref.WeakSet(tensor.untyped_storage() for tensor in held)
        self.now = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._account(tensor.untyped_storage())
        return result

    def _account(self, storage: torch.UntypedStorage) -> None:
        if storage in self.seen:
            return
        self.seen.add(storage)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._release, storage.nbytes())

    def _release(self, num_bytes: int) -> None:
        self.now -= num_bytes
