"""The work of the host in one prefill: how many operators it launches, and how often it waits for a tensor's value.

Both counts are exact, and a gate can check them without a GPU. They are the same on all accelerators. Tensors of the
host do not count. On a CPU those of the device are the model, its inputs, and whatever is computed from them or made
for a device by name. There the counts can be higher: trio_core computes large tensors in blocks, and Algorithm 1
compares few candidates at a time. An operator launches at least one kernel on CUDA. A wait lasts until all work before
the value is done. The check of the kept tokens' order does not count, because it differs between devices.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from trio_core.methods.method import Method
from trio_core.spans import ORDER_CHECK, listening
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
    model = workload.model
    held = [*model.parameters(), *model.buffers(), *workload.inputs.values()]
    with workload.pruned(method):
        count(workload.prefill, held)  # what runs for the first time may launch more
        return count(workload.prefill, held)


def count(run: Callable[[], object], held: Iterable[Tensor]) -> Launches:
    """Count over a call of a function. held: the tensors that are on the device before."""
    device = _Device(held)
    with listening(device.listen), _Operators(device) as operators, _Waits(device) as waits:
        run()
    return Launches(operators.count, waits.count)


class _Device:
    """Knows which tensors are on the device.

    is_counting: whether operators and waits count now.
    is_named: whether a function runs that was given a device.
    """

    def __init__(self, held: Iterable[Tensor]):
        storages = [tensor.untyped_storage() for tensor in held if tensor.device.type == "cpu"]
        self._is_cpu, self._storages = bool(storages), WeakSet(storages)
        self.is_counting, self.is_named = True, False

    def has(self, values: Any) -> bool:
        """Return whether one of some values, however nested, is a tensor on the device."""
        return any(isinstance(value, Tensor) and self._holds(value) for value in tree_leaves(values))

    def _holds(self, tensor: Tensor) -> bool:
        return tensor.device.type != "cpu" or (self._is_cpu and tensor.untyped_storage() in self._storages)

    def add(self, values: Any) -> None:
        """On a CPU, count the tensors among some values as tensors on the device."""
        for value in tree_leaves(values) if self._is_cpu else ():
            if isinstance(value, Tensor) and value.device.type == "cpu":
                self._storages.add(value.untyped_storage())

    def listen(self, name: str, entering: bool) -> None:
        """Count nothing while the order of the kept tokens is checked."""
        if name == ORDER_CHECK:
            self.is_counting = not entering


class _Waits(TorchFunctionMode):
    def __init__(self, device: _Device):
        super().__init__()
        self.device, self.count = device, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        reads = self.device.is_counting and _reads(func, args, kwargs) and self.device.has((args, kwargs))
        self.count += reads
        before, self.device.is_named = self.device.is_named, _names_a_device(func, args, kwargs)
        try:
            result = func(*args, **kwargs)
        finally:
            was_named, self.device.is_named = self.device.is_named, before
        if was_named:
            self.device.add(result)
        # On a CPU `cpu` returns the tensor itself, whose later reads would count again.
        if reads and result is next(iter(args), None):
            with _disable_current_modes():
                return result.clone()
        return result


class _Operators(TorchDispatchMode):
    def __init__(self, device: _Device):
        super().__init__()
        self.device, self.count = device, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, device = kwargs or {}, self.device
        result = func(*args, **kwargs)
        is_made = not any(isinstance(value, Tensor) for value in tree_leaves((args, kwargs)))
        if device.is_named if is_made else device.has((args, kwargs)):
            device.add(result)
            computes = not func.is_view and func.overloadpacket.__name__ not in _COMPUTES_NOTHING
            self.count += device.is_counting and computes and device.has(result)
        return result


def _names_a_device(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether a function is told where its result is to be. `to` may be given a device by position."""
    is_to = getattr(func, "__name__", "") == "to"
    by_position = is_to and any(isinstance(arg, (torch.device, str, Tensor)) for arg in args[1:])
    return by_position or kwargs.get("device") is not None


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
