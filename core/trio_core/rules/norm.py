"""A root-mean-square norm in few operators, forward and back. What it multiplies by, the model's own module shows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from trio_core.tensors import in_cache, wide_type


class Gain(NamedTuple):
    """What a norm computes with, in at least float32.

    gain: [D], the module's scale times √D.
    floor: a number without axes, √(D · eps).
    """

    gain: Tensor
    floor: Tensor


@dataclass(frozen=True)
class RmsNorm:
    """x · rsqrt(mean x² + eps) ⊙ scale over the last axis, D wide.

    It is computed as gain ⊙ x / length, with length = √(‖x‖² + D · eps). The result is the module's own up to rounding.

    module: the model's own norm, [..., D] → [..., D].
    eps: what the module adds to the mean square.
    """

    module: Callable[[Tensor], Tensor]
    eps: float

    def __call__(self, values: Tensor) -> Tensor:
        """The norm of values, [..., D]. It has a backward pass of six operators."""
        shown = self.shown(values)
        if (torch.is_grad_enabled() and values.requires_grad) or values.ndim != 3:
            return cast(Tensor, _Norm.apply(values, *shown))
        blocks = [*in_cache(values)]
        if len(blocks) == 1:
            return _unit(values, shown.floor)[0].mul_(shown.gain).to(values.dtype)
        normed = torch.empty_like(values)
        for block in blocks:
            torch.mul(_unit(values[:, block], shown.floor)[0], shown.gain, out=normed[:, block])
        return normed

    def slope_lengths(self, values: Tensor, slope: Tensor) -> Tensor:
        """‖∂ loss / ∂ values‖, [B, N], in at least float32. The gradient itself is never stored whole.

        values: [B, N, D], the norm's input.
        slope: [B, N, D] in at least float32, ∂ loss / ∂ output. It is overwritten.
        """
        gain, floor = self.shown(values)
        slope = slope.mul_(gain)
        length = torch.hypot(torch.linalg.vector_norm(values, dim=-1, keepdim=True, dtype=gain.dtype), floor)
        along = (values * slope).sum(dim=-1, keepdim=True).div_(length.square())
        across = torch.linalg.vector_norm(slope.addcmul_(values.to(slope.dtype), along, value=-1), dim=-1)
        return across.div_(length[..., 0])

    def shown(self, values: Tensor) -> Gain:
        """What the module multiplies by. It shows it: ones have a mean square of 1.

        That holds however the module stores its weight (Gemma stores scale − 1, offloading stores nothing). The answer
        is remembered for as long as the module's weight is the same.

        values: any tensor [..., D] with the dtype and device that the module takes.
        """
        key = _weight_of(self.module, values)
        if key is not None and (known := _SHOWN.get(cast(nn.Module, self.module))) is not None and known[0] == key:
            return known[1]
        width = values.shape[-1]
        with torch.no_grad():
            ones = self.module(values.new_ones(1, width))[0]
            gain = ones.to(wide_type(ones)) * (width * (1 + self.eps)) ** 0.5
            floor = gain.new_full((), (width * self.eps) ** 0.5)
        if key is not None:
            _SHOWN[cast(nn.Module, self.module)] = key, Gain(gain, floor)
        return Gain(gain, floor)


_SHOWN: WeakKeyDictionary[nn.Module, tuple[tuple[Any, ...], Gain]] = WeakKeyDictionary()
"""What modules have shown, by module, with the weight that they had."""


def _weight_of(module: object, values: Tensor) -> tuple[Any, ...] | None:
    """What a plain module's output depends on. None for one with hooks, parts, or a weight that is elsewhere."""
    if not isinstance(module, nn.Module) or module._modules or "forward" in vars(module):
        return None
    if module._forward_hooks or module._forward_pre_hooks:
        return None
    same: list[Any] = [values.dtype, values.device]
    for weight in (*module._parameters.values(), *module._buffers.values()):
        if weight is not None:
            if weight.is_meta or weight.is_inference():
                return None
            same += (id(weight), weight.data_ptr(), weight._version)
    return tuple(same)


def _unit(values: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Values over their length, [..., D], and the length, [..., 1]; both in the dtype of `floor`."""
    length = torch.hypot(torch.linalg.vector_norm(values, dim=-1, keepdim=True, dtype=floor.dtype), floor)
    return values / length, length


class _Norm(torch.autograd.Function):
    """gain ⊙ x / length."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, gain: Tensor, floor: Tensor) -> Tensor:
        """[..., D]."""
        unit, length = _unit(values, floor)
        ctx.save_for_backward(unit, length, gain)
        return (unit * gain).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        """∂ loss / ∂ x, [..., D]: the slope ⊙ gain, less its part along x, over the length."""
        unit, length, gain = ctx.saved_tensors
        slope = slopes[0] * gain
        along = (unit * slope).sum(dim=-1, keepdim=True)
        return slope.addcmul_(unit, along, value=-1).div_(length).to(slopes[0].dtype), None, None
