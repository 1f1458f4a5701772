"""A pretended CUDA device on a CPU-only torch.

A tensor of it holds a tensor of the CPU, on which each operator really computes. The device has a clock of its own:
an operator is issued at once, and is done when all work before it is done and its own device time is over. The host
waits for the device only where CUDA does.
"""

import os
import sys
import time
import uuid as uuids
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

BLOCK = 512
"""Memory is allocated in multiples of so many bytes."""
COMPUTES_NOTHING = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view")
COPIES = ("_to_copy", "copy_")
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
FUSED = ("silu_backward",)
"""Operators that CUDA has a kernel for, and that torch takes apart on a device without one."""
READS = (
    *("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "bincount"),
    *("_unique2", "unique_dim", "unique_consecutive"),
)
"""Operators whose result, or its shape, is a value that the host must know."""


# --- devices ----------------------------------------------------------------------------------------------------------


@dataclass
class Card:
    """One device.

    ready: when the work that was issued so far is done, in seconds of `time.perf_counter`.
    busy_s: device time of all work so far.
    operators, waits: how many it ran, and how often the host waited for it.
    allocated, reserved: bytes of live tensors, and of these and the cache. peak_…: the highest since the last reset.
    """

    ready: float = 0.0
    busy_s: float = 0.0
    operators: int = 0
    waits: int = 0
    allocated: int = 0
    reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0

    def work(self, seconds: float) -> None:
        """Issue work."""
        self.ready = max(self.ready, time.perf_counter()) + seconds
        self.busy_s += seconds

    def wait(self) -> None:
        """Let the host wait until all work is done."""
        self.waits += 1
        if _state.warns:
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
        time.sleep(max(self.ready - time.perf_counter(), 0))

    def allocate(self, wanted: int) -> None:
        """Take memory, first from the cache. Raises torch.OutOfMemoryError."""
        if self.allocated + wanted > memory():
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {wanted / 2**20:.2f} MiB. The device has a total capacity of "
                f"{memory() / 2**30:.2f} GiB of which {(memory() - self.allocated) / 2**20:.2f} MiB is free."
            )
        self.allocated += wanted
        self.reserved = max(self.reserved, self.allocated)
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def free(self, taken: int) -> None:
        """Give memory back to the cache."""
        self.allocated -= taken


@dataclass
class _State:
    """The state of the pretended CUDA in this process.

    library: the compiled C++, which knows the current device of each thread.
    pid: of the process that has the context; 0 before the first use.
    attended: whether an attention ran, which settles the order of its kernels.
    warns: whether each wait warns (`set_sync_debug_mode`).
    watches: what is called for each operator, with its name and the bytes that it reads and writes.
    known: the storages that the devices' memory accounts for.
    pinned: storages of the host's pinned memory.
    kernels: registers the operators of FUSED for CUDA.
    """

    library: Any = None
    pid: int = 0
    attended: bool = False
    warns: bool = False
    watches: list[Callable[[str, int], None]] = field(default_factory=list)
    cards: dict[int, Card] = field(default_factory=dict)
    known: weakref.WeakSet[torch.UntypedStorage] = field(default_factory=weakref.WeakSet)
    pinned: weakref.WeakSet[torch.UntypedStorage] = field(default_factory=weakref.WeakSet)
    kernels: torch.library.Library = field(default_factory=lambda: torch.library.Library("aten", "IMPL"))


_state = _State()


@contextmanager
def watching(watch: Callable[[str, int], None]) -> Iterator[None]:
    """Call a function for each operator: (name, bytes that it reads and writes)."""
    _state.watches.append(watch)
    try:
        yield
    finally:
        _state.watches.remove(watch)


def devices() -> int:
    """How many devices there are."""
    return int(os.environ.get("REHEARSAL_DEVICES", "1"))


def memory() -> int:
    """Bytes of a device."""
    return int(os.environ.get("REHEARSAL_MEMORY", 80 * 2**30))


def uuid(number: int) -> uuids.UUID:
    """The UUID of a device."""
    return uuids.UUID(int=number + 1)


def number_of(device: Any = None) -> int:
    """The number of a device; that of the current one if the device names none."""
    index = device if device is None or isinstance(device, int) else torch.device(device).index
    number = _state.library.rehearsal_current_device() if index is None else index
    if number >= devices():
        raise RuntimeError(f"CUDA error: invalid device ordinal {number}")
    return number


def card(device: Any = None) -> Card:
    """The device. Raises RuntimeError in a process that was forked from one with a context."""
    if _state.pid not in (0, os.getpid()):
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
    _state.pid = os.getpid()
    return _state.cards.setdefault(number_of(device), Card())


class Stream:
    """The one stream of a device."""

    def __init__(self, device: Any = None, **_: Any):
        self.device = torch.device("cuda", number_of(device))

    def synchronize(self) -> None:
        card(self.device).wait()


class Event:
    """A moment in the stream of a device. It has a time once all work before it is done."""

    def __init__(self, enable_timing: bool = False, **_: Any):
        self.times, self.moment, self.device = enable_timing, 0.0, None

    def record(self, stream: Stream | None = None) -> None:
        """Record it behind the work of a stream, by default the one of the current device."""
        self.device = (stream or Stream()).device
        self.moment = max(time.perf_counter(), card(self.device).ready)

    def query(self) -> bool:
        return time.perf_counter() >= self.moment

    def synchronize(self) -> None:
        time.sleep(max(self.moment - time.perf_counter(), 0))

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds. Raises as CUDA does for events that are not recorded, not complete, or on two devices."""
        if None in (self.device, end.device) or not (self.times and end.times):
            raise ValueError("Both events must be recorded, with enable_timing=True, before calculating elapsed time.")
        if self.device != end.device:
            raise RuntimeError("CUDA error: invalid resource handle (events of two devices)")
        if not (self.query() and end.query()):
            raise RuntimeError("CUDA error: device not ready")
        return 1e3 * (end.moment - self.moment)


# --- tensors ----------------------------------------------------------------------------------------------------------


class CudaTensor(Tensor):
    """A tensor of the device. held: the tensor of the CPU that has its data."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor, number: int):
        tensor = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device("cuda", number),
        )
        tensor.held = held
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return execute(func, args, kwargs or {})

    # With these two, `Module.to` swaps parameters, as it does for every subclass that wraps a tensor.
    def __tensor_flatten__(self) -> tuple[list[str], int]:
        return ["held"], self.device.index

    @staticmethod
    def __tensor_unflatten__(held: dict[str, Tensor], number: int, *_: Any) -> "CudaTensor":
        return CudaTensor(held["held"], number)

    def __repr__(self, **_: Any) -> str:
        return f"{self.held!r} on {self.device}"


def place(held: Tensor, number: int) -> CudaTensor:
    """Put a tensor of the CPU on a device. A storage that is there already takes no further memory."""
    storage = held.untyped_storage()
    if storage not in _state.known:
        taken = -(-max(storage.nbytes(), 1) // BLOCK) * BLOCK
        card(number).allocate(taken)
        _state.known.add(storage)
        weakref.finalize(storage, card(number).free, taken)
    return CudaTensor(held, number)


def execute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator that reads or makes a tensor of the device."""
    if func is torch.ops.prim.device.default:
        return torch.device("cuda", args[0].device.index)
    name = func.overloadpacket.__name__
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
    ours = [tensor for tensor in tensors if isinstance(tensor, CudaTensor)]
    if name not in COPIES:
        _require_one_device(name, tensors)
    target = _target(args, kwargs, ours)
    waits = _waits(name, args, kwargs, tensors)
    plain_args, plain_kwargs = tree_map_only(CudaTensor, lambda tensor: tensor.held, (args, dict(kwargs)))
    if kwargs.get("device") is not None:
        plain_kwargs["device"] = torch.device("cpu")
    plain_kwargs.pop("pin_memory", None)
    result = (_flash if name.startswith("_scaled_dot_product_flash") else func)(*plain_args, **plain_kwargs)
    source = ours[0].device.index if ours else target
    if not (func.is_view or name in COMPUTES_NOTHING):
        card(source).operators += 1
        for watch in _state.watches:
            watch(name, sum(value.nbytes for value in tree_leaves((args, kwargs, result)) if isinstance(value, Tensor)))
        card(source).work(float(os.environ.get("REHEARSAL_OPERATOR_MS", "0.01")) / 1e3)
    if waits:
        card(source).wait()
    if target is None:
        return result
    owners = {id(tensor.held): tensor for tensor in ours} if func._schema.is_mutable else {}
    return tree_map_only(Tensor, lambda made: owners[id(made)] if id(made) in owners else place(made, target), result)


def _require_one_device(name: str, tensors: list[Tensor]) -> None:
    """Raise RuntimeError where an operator mixes devices. Numbers, and indices of the host, may come from the host."""
    here = {str(tensor.device) for tensor in tensors if tensor.dim() or isinstance(tensor, CudaTensor)}
    if len(here - ({"cpu"} if name in INDEXING else set())) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {sorted(here)} ({name})"
        )


def _target(args: Any, kwargs: dict[str, Any], ours: list[CudaTensor]) -> int | None:
    """The number of the device that gets the result; None for the host."""
    wanted = kwargs.get("device")
    if wanted is not None:
        return number_of(wanted) if torch.device(wanted).type == "cuda" else None
    first = args[0] if args and isinstance(args[0], Tensor) else ours[0]
    owner = first if isinstance(first, CudaTensor) or first.dim() else ours[0]  # a number of the host joins the others
    return owner.device.index if isinstance(owner, CudaTensor) else None


def _waits(name: str, args: Any, kwargs: dict[str, Any], tensors: list[Tensor]) -> bool:
    """Whether CUDA lets the host wait in this operator: it reads a value, or copies from or to pageable memory."""
    if name in COPIES and not args[0].numel():
        return False
    if name == "_to_copy":
        wanted = kwargs.get("device")
        to_host = wanted is not None and torch.device(wanted).type == "cpu"
        from_host = not isinstance(args[0], CudaTensor)
        # torch itself pins what it copies to the host without blocking.
        is_pinned = not from_host or args[0].untyped_storage() in _state.pinned
        return (to_host or from_host) and not (kwargs.get("non_blocking") and is_pinned)
    if name == "copy_":
        host = [tensor for tensor in args[:2] if not isinstance(tensor, CudaTensor)]
        blocks = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        return bool(host) and (blocks or host[0].untyped_storage() not in _state.pinned)
    if name in INDEXING:
        indices = [index for index in args[1] if index is not None]
        return any(index.dtype in (torch.bool, torch.uint8) or index.device.type == "cpu" for index in indices)
    return name in READS or (name == "repeat_interleave" and kwargs.get("output_size") is None)


def _flash(*args: Any, **kwargs: Any) -> Any:
    """FlashAttention on the CPU: its forward [query, key, value, dropout, is_causal] or its backward [slope, query, …].

    A head of keys serves several heads of queries. The kernels of the CPU want a copy for each.
    """
    aten, options = torch.ops.aten, {"scale": kwargs.get("scale")}
    is_backward = len(args) > 10
    query, *few = args[1:4] if is_backward else args[:3]
    groups, none = query.shape[1] // few[0].shape[1], torch.zeros((), dtype=torch.long)
    key, value = (part.repeat_interleave(groups, 1) for part in few)
    if is_backward:
        slopes = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            args[0], query, key, value, *args[4:6], *args[10:12], **options
        )
        return slopes[0], *(part.unflatten(1, (-1, groups)).sum(2) for part in slopes[1:])
    dropout, is_causal, *_ = (*args[3:], *(0.0, False)[len(args) - 3 :])  # torch leaves out what is usual
    made = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, is_causal, **options)
    return *made, none, none, query.shape[2], key.shape[2], none, none, torch.zeros(0)


class Operators(TorchDispatchMode):
    """Sends the operators that make a tensor of the device, or of pinned memory, to where they belong."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        if name == "is_pinned":
            return not isinstance(args[0], CudaTensor) and args[0].untyped_storage() in _state.pinned
        if name == "_pin_memory":
            return _pinned(args[0].clone())
        device = kwargs.get("device")
        if any(isinstance(value, CudaTensor) for value in tree_leaves((args, kwargs))) or (
            device is not None and torch.device(device).type == "cuda"
        ):
            return execute(func, args, kwargs)
        if kwargs.get("pin_memory"):
            return _pinned(func(*args, **{**kwargs, "pin_memory": False}))
        return func(*args, **kwargs)


def _pinned(host: Tensor) -> Tensor:
    _state.pinned.add(host.untyped_storage())
    return host


class Functions(TorchFunctionMode):
    """What torch's C++ does without an operator: tensors made of Python's numbers, and read as such; attention."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if func in (torch.tensor, torch.as_tensor, torch.asarray) and not isinstance(args[0] if args else None, Tensor):
            device = kwargs.pop("device", None)
            made = func(*args, **kwargs)
            return made if device is None else made.to(device)
        ours = args[0] if args and isinstance(args[0], CudaTensor) else None
        if name == "new_tensor" and ours is not None:
            return torch.tensor(*args[1:], dtype=kwargs.get("dtype") or ours.dtype).to(ours.device)
        if name in ("tolist", "numpy", "__array__") and ours is not None:
            if name != "tolist" and not kwargs.get("force"):
                raise TypeError(f"can't convert {ours.device} device type tensor to numpy. Use Tensor.cpu() first.")
            return getattr(ours.detach().cpu(), name)()
        if func is torch.nn.functional.scaled_dot_product_attention:
            return _attend(func, *args, **kwargs)
        return func(*args, **kwargs)


def _attend(func: Any, query: Tensor, key: Tensor, value: Tensor, *more: Any, **kwargs: Any) -> Tensor:
    """Attention. Without a mask and in half precision the flash kernel runs."""
    if not isinstance(query, CudaTensor):
        return func(query, key, value, *more, **kwargs)
    _state.attended = True
    mask = more[0] if more else kwargs.get("attn_mask")
    if mask is not None or query.dtype not in (torch.bfloat16, torch.float16):
        return func(query, key, value, *more, **kwargs)
    causal, scale = kwargs.get("is_causal", False), kwargs.get("scale")
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, False, scale=scale)[0]


# --- torch.cuda -------------------------------------------------------------------------------------------------------


def properties(device: Any = None) -> SimpleNamespace:
    return SimpleNamespace(
        name="NVIDIA H100 80GB HBM3", total_memory=memory(), uuid=uuid(number_of(device)), major=9, minor=0
    )


def _set_device(device: Any) -> None:
    if not isinstance(device, int) and torch.device(device).index is None:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    _state.library.rehearsal_set_device(number_of(device))


def _exchange_device(number: int) -> int:
    before = number_of()
    if number >= 0:
        _set_device(number)
    return before


def _empty_cache() -> None:
    for one_card in _state.cards.values():
        one_card.reserved = one_card.allocated


def _reset_peaks(device: Any = None) -> None:
    its = card(device)
    its.peak_allocated, its.peak_reserved = its.allocated, its.reserved


def _set_sync_debug_mode(mode: str | int) -> None:
    _state.warns = mode in ("warn", 1)


def _attention_order(usual: Callable[[], list[int]]) -> list[int]:
    """The kernels by number. On Hopper the first attention puts cuDNN's first, unless a variable forbids it."""
    cudnn_first = _state.attended and os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") != "1"
    return [3, 1, 2, 0, 4] if cudnn_first else usual()


PRETENDED: dict[str, Any] = {
    "Event": Event,
    "Stream": Stream,
    "_exchange_device": _exchange_device,
    "_lazy_init": lambda: None,
    "_maybe_exchange_device": _exchange_device,
    "current_device": lambda: number_of(),
    "current_stream": Stream,
    "default_stream": Stream,
    "device_count": devices,
    "empty_cache": _empty_cache,
    "get_device_capability": lambda *_: (9, 0),
    "get_device_name": lambda device=None: properties(device).name,
    "get_device_properties": properties,
    "get_rng_state": lambda *_: torch.get_rng_state(),
    "is_available": lambda: devices() > 0,
    "is_bf16_supported": lambda *_, **__: True,
    "is_initialized": lambda: _state.pid == os.getpid(),
    "manual_seed": lambda *_: None,
    "manual_seed_all": lambda *_: None,
    "max_memory_allocated": lambda device=None: card(device).peak_allocated,
    "max_memory_reserved": lambda device=None: card(device).peak_reserved,
    "mem_get_info": lambda device=None: (memory() - card(device).reserved, memory()),
    "memory_allocated": lambda device=None: card(device).allocated,
    "memory_reserved": lambda device=None: card(device).reserved,
    "reset_peak_memory_stats": _reset_peaks,
    "set_device": _set_device,
    "set_rng_state": lambda *_, **__: None,
    "set_sync_debug_mode": _set_sync_debug_mode,
    "synchronize": lambda device=None: card(device).wait(),
}
"""What stands for the functions of `torch.cuda`."""


def install(library: Any) -> None:
    """Pretend CUDA devices in this process, for good. library: the compiled C++."""
    _state.library = library
    for name, stand_in in PRETENDED.items():
        setattr(torch.cuda, name, stand_in)
    torch.version.cuda = "13.0"
    usual = torch._C._get_sdp_priority_order
    torch._C._get_sdp_priority_order = lambda: _attention_order(usual)
    from tests.rehearsal import nvml

    sys.modules["pynvml"] = nvml
    for name in FUSED:
        # `execute` computes it. Registered, it is an operator of its own.
        _state.kernels.impl(name, lambda *_: NotImplemented, "CUDA")
    Operators().__enter__()
    Functions().__enter__()
