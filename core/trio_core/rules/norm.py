"""A root-mean-square norm in few operators, forward and back. Its scale comes from the model's own module."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules import module as all_modules

from trio_core.tensors import in_cache, wide_type


class Factors(NamedTuple):
    """The two constants of a norm, in at least float32.

    gain: [D], the module's scale times √D.
    floor: a tensor without axes, √(D · eps).
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
        """The norm of values, [..., D], in their dtype. Autograd can differentiate it once.

        A module with hooks or submodules may do more than a norm, so it runs itself. While torch.compile traces, the
        module runs itself too: the compiler fuses its operators.
        """
        if torch.compiler.is_compiling():
            return self.module(values)
        if (state := _state_of(self.module, values)) is None:
            return self.module(values)
        factors = self._factors(values, state)
        if (torch.is_grad_enabled() and values.requires_grad) or values.ndim != 3:
            return cast(Tensor, _Norm.apply(values, *factors))
        blocks = [*in_cache(values, values.shape[1])]
        if len(blocks) == 1:
            return _unit(values, factors.floor)[0].mul_(factors.gain).to(values.dtype)
        normed = torch.empty_like(values)
        for block in blocks:
            torch.mul(_unit(values[:, block], factors.floor)[0], factors.gain, out=normed[:, block])
        return normed

    def slope_lengths(self, values: Tensor, slope: Tensor) -> Tensor:
        """‖∂ loss / ∂ values‖, [B, N], in at least float32. The gradient itself is never stored whole.

        values: [B, N, D], the norm's input.
        slope: [B, N, D] in at least float32, ∂ loss / ∂ output. It is overwritten.
        """
        gain, floor = self.factors(values)
        slope = slope.mul_(gain)
        length = torch.hypot(torch.linalg.vector_norm(values, dim=-1, keepdim=True, dtype=gain.dtype), floor)
        along = (values * slope).sum(dim=-1, keepdim=True).div_(length.square())
        across = torch.linalg.vector_norm(slope.addcmul_(values.to(slope.dtype), along, value=-1), dim=-1)
        return across.div_(length[..., 0])

    def factors(self, values: Tensor) -> Factors:
        """The constants of the norm, on the device of `values`.

        The module runs on a row of ones: its output there is the scale. So it does not matter how the module stores its
        weight (Gemma stores scale − 1, offloading stores nothing). It is remembered until the weight changes, or a
        context of `prune` opens: torch does not tell of a change in place through `weight.data`.

        values: any tensor [..., D] of a dtype that the module takes.
        """
        return self._factors(values, _state_of(self.module, values))

    def _factors(self, values: Tensor, state: tuple[Any, ...] | None) -> Factors:
        """`factors`, for a module in a known state. state: of `_state_of`."""
        key, module = (self.eps, state), cast(nn.Module, self.module)
        if state is not None and (known := _FACTORS.get(module)) is not None and known[0] == key:
            return known[1]
        width = values.shape[-1]
        # Outside of inference mode, because autograd cannot save a tensor that was made there.
        with torch.inference_mode(False), torch.no_grad():
            ones = self._scale(values, plain=state is not None)
            # A model on several devices: the module's hook may have moved the ones to the module's own device.
            gain = ones.to(values.device, wide_type(ones)) * (width * (1 + self.eps)) ** 0.5
            found = Factors(gain, gain.new_full((), (width * self.eps) ** 0.5))
        if state is not None:
            _FACTORS[module] = key, found
        return found

    def _scale(self, values: Tensor, *, plain: bool) -> Tensor:
        """[D], the module's output for ones. A plain module gets them in at least float32, so nothing is rounded."""
        width = values.shape[-1]
        if plain:
            with suppress(RuntimeError):  # of a kernel that takes no other dtype than its weight's
                return self.module(values.new_ones(1, width, dtype=wide_type(values)))[0]
        return self.module(values.new_ones(1, width))[0]


def forget_factors() -> None:
    """Forget what is remembered of all norms."""
    _FACTORS.clear()


_FACTORS: WeakKeyDictionary[nn.Module, tuple[tuple[Any, ...], Factors]] = WeakKeyDictionary()
"""The factors of each module, with the state of the module when they were computed."""


def _state_of(module: object, values: Tensor) -> tuple[Any, ...] | None:
    """What a plain module's output for ones depends on, to be compared later.

    None for a module with hooks or submodules, and for one whose weight is offloaded or was made in inference mode.
    """
    if not isinstance(module, nn.Module) or module._modules or "forward" in vars(module):
        return None
    if module._forward_hooks or module._forward_pre_hooks:
        return None
    if all_modules._global_forward_hooks or all_modules._global_forward_pre_hooks:
        return None
    state: list[Any] = [values.dtype, values.device]
    for weight in (*module._parameters.values(), *module._buffers.values()):
        if weight is not None:
            if weight.is_meta or weight.is_inference():
                return None
            state += (id(weight), weight.data_ptr(), weight._version)
    return tuple(state)


def _unit(values: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Values / length, [..., D], and the length √(‖values‖² + floor²), [..., 1]. Both have the dtype of `floor`."""
    length = torch.hypot(torch.linalg.vector_norm(values, dim=-1, keepdim=True, dtype=floor.dtype), floor)
    return values / length, length


class _Norm(torch.autograd.Function):
    """gain ⊙ x / length, with a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, gain: Tensor, floor: Tensor) -> Tensor:
        """The norm of values, [..., D], in their dtype."""
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
