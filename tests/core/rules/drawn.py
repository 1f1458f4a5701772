"""Features, scores and a count of waits for the tests of the rules."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


def cloud(kind: str, count: int, generator: torch.Generator, width: int = 8) -> Tensor:
    """[N, D] features; `duplicates` and `axes` have similarities that floats hold exactly."""
    if kind == "random":
        return torch.randn(count, width, generator=generator)
    if kind == "clustered":
        centres = torch.randn(max(1, count // 9), width, generator=generator)
        which = torch.randint(len(centres), (count,), generator=generator)
        return centres[which] + 0.2 * torch.randn(count, width, generator=generator)
    axes = torch.cat([torch.eye(width), -torch.eye(width)])
    if kind == "duplicates":
        axes = axes[:3]
    return axes[torch.randint(len(axes), (count,), generator=generator)] * 2.0


def ranks(count: int, ties: bool, generator: torch.Generator) -> Tensor:
    if ties:
        return torch.randint(4, (count,), generator=generator).float()
    return torch.rand(count, generator=generator)


def at_angles(degrees: Sequence[Any]) -> Tensor:
    """[…, 2] vectors of length one in the plane, by their angles."""
    radians = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([radians.cos(), radians.sin()], dim=-1)


def wave(factor: float, count: int) -> Tensor:
    """[N] numbers that any language makes alike: the official codes of some methods were run on them."""
    return torch.sin(factor * torch.arange(float(count), dtype=torch.float64) ** 1.5)


def waits(select: Callable[[], object]) -> int:
    """How often the host would wait for a tensor's value, were the tensors on a device."""
    with Waits() as mode:
        select()
    return mode.counts.total()


class Waits(TorchDispatchMode):
    """Counts the operators for which the host waits, were the tensors on a device, and what it copies into numpy."""

    def __init__(self):
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._copies = _Copies(self.counts)

    def __enter__(self):
        self._copies.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._copies.__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masks = name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1])
        if masks or name in ("_local_scalar_dense", "equal", "nonzero", "masked_select"):
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class _Copies(TorchFunctionMode):
    def __init__(self, counts):
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.counts["numpy"] += getattr(func, "__name__", "") == "numpy"
        return func(*args, **(kwargs or {}))
