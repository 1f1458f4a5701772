"""The work of the host in one prefill: how many operators it launches, and how often it waits for a tensor's value.

Both counts are exact, and a gate can check them without a GPU. They are the same on all accelerators. On a CPU they can
be higher: there trio_core computes large tensors in blocks, and Algorithm 1 compares few candidates at a time. An
operator launches at least one kernel on CUDA. A wait lasts until all work before the value is done.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from trio_core.methods.method import Method
from trio_profile.inputs.workload import Workload

_COMPUTES_NOTHING = frozenset({
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "promote_types",
})  # fmt: skip
"""Operators that launch no kernel: they allocate memory, view a tensor or compare types."""
_READS = frozenset({
    "item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "__array__", "__contains__",
    "nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "equal", "allclose",
})  # fmt: skip
"""Functions for which the host must know a value. [The list of `torch.cuda.set_sync_debug_mode`]."""


class Launches(NamedTuple):
    """The counts of one prefill.

    launches: operators that compute.
    host_waits: how often the host waited for a value.
    """

    launches: int
    host_waits: int


def measure(workload: Workload, method: Method | None) -> Launches:
    """Count over one prefill.

    method: None for the dense model.
    """
    with workload.pruned(method):
        count(workload.prefill)  # in the first one the engine also checks the order of the kept tokens
        return count(workload.prefill)


def count(run: Callable[[], object]) -> Launches:
    """Count over a call of a function."""
    with _Operators() as operators, _Waits() as waits:
        run()
    return Launches(operators.count, waits.count)


class _Waits(TorchFunctionMode):
    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += _reads(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += not func.is_view and func.overloadpacket.__name__ not in _COMPUTES_NOTHING
        return result


def _reads(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    if name in _READS:
        return True
    if name == "where":
        return len(args) + len(kwargs) == 1
    if name in ("__getitem__", "__setitem__"):
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return any(isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8) for part in index)
    if name == "repeat_interleave":
        return any(isinstance(part, Tensor) for part in args[1:]) and kwargs.get("output_size") is None
    return False
