"""What the host does in one prefill: operators that it launches, and times it waits for a tensor's value.

Both are exact and the same on every device, so that a gate can hold them where there is no GPU. On CUDA an operator
launches one kernel at the least, and the host waits until all work before a value is done.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from trio_core.methods.method import Method
from trio_core.pruning import prune
from trio_profile.inputs.workload import Workload

_ALLOCATES = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view"})
_READS = frozenset({
    "item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "__array__", "__contains__",
    "nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "equal", "allclose",
})  # fmt: skip
"""Functions whose result, or its shape, the host must know. [torch, `torch.cuda.set_sync_debug_mode`'s list]."""


@dataclass(frozen=True)
class Launches:
    """launches: operators that compute. host_waits: times the host needed a value before it could go on."""

    launches: int
    host_waits: int


def measure(workload: Workload, method: Method | None) -> Launches:
    """Count over one prefill, dense (method None) or pruned."""
    with nullcontext() if method is None else prune(workload.model, method):
        # The first prefill on a model also holds the method to its order, for which the host waits.
        workload.prefill()
        with Counter() as counter:
            workload.prefill()
    return counter.counted


class Counter:
    """Counts while the context is open: `counted` afterwards."""

    def __init__(self) -> None:
        self._operators = _Operators()
        self._waits = _Waits()

    def __enter__(self) -> "Counter":
        """Begin to count."""
        self._operators.__enter__()
        self._waits.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End."""
        self._waits.__exit__(*error)
        self._operators.__exit__(*error)

    @property
    def counted(self) -> Launches:
        """What was seen so far."""
        return Launches(self._operators.count, self._waits.count)


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and func.overloadpacket.__name__ not in _ALLOCATES:
            self.count += 1
        return result


class _Waits(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += _reads(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


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
