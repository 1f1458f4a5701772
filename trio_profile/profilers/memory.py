"""Peak memory of one prefill, beyond what was held before it."""

import weakref
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trio_core.method import Method
from trio_core.pruning import prune
from trio_profile.workload import Workload


def measure(workload: Workload, method: Method | None) -> int:
    """Peak bytes of tensors above the level before the prefill; the cache that it leaves behind is included.

    On CUDA this is the allocator's own peak. On a CPU, where resident memory moves in pages and hardly ever falls, the
    bytes of live tensor storages are summed operator by operator: exact, and blind to scratch space within a kernel.
    """
    with nullcontext() if method is None else prune(workload.model, method):
        if workload.device.type == "cuda":
            torch.cuda.synchronize(workload.device)
            torch.cuda.reset_peak_memory_stats(workload.device)
            before = torch.cuda.memory_allocated(workload.device)
            workload.prefill()
            return torch.cuda.max_memory_allocated(workload.device) - before
        held = [*workload.model.parameters(), *workload.model.buffers(), *workload.inputs.values()]
        with _LiveBytes(held) as live:
            workload.prefill()
        return live.peak


class _LiveBytes(TorchDispatchMode):
    """Sums the bytes of storages that operators make, for as long as anything holds them."""

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
