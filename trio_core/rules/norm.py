"""A root-mean-square norm in few operators, and its gradient's lengths. Its scale comes from the model's own module."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

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

    An object belongs to one stage, and so do the constants that it remembers. A weight may change between two forwards,
    and torch does not tell of every change (`weight.data`, fused optimisers).
    """

    module: Callable[[Tensor], Tensor]
    eps: float
    _known: dict[tuple[torch.dtype, torch.device], Factors] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, values: Tensor) -> Tensor:
        """The norm of values, [..., D], in their dtype.

        A module with hooks or submodules may do more than a norm, so it runs itself. It also runs itself where autograd
        records.
        """
        recorded = torch.is_grad_enabled() and values.requires_grad
        if recorded or not _is_plain(self.module):
            return self.module(values)
        gain, floor = self.factors(values)
        blocks = [*in_cache(values, values.shape[1])] if values.ndim == 3 else []
        if len(blocks) <= 1:
            return _unit(values, floor).mul_(gain).to(values.dtype)
        normed = torch.empty_like(values)
        for block in blocks:
            torch.mul(_unit(values[:, block], floor), gain, out=normed[:, block])
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
        across = torch.linalg.vector_norm(slope.addcmul_(values, along, value=-1), dim=-1)
        return across.div_(length[..., 0])

    def factors(self, values: Tensor) -> Factors:
        """The constants of the norm, on the device of `values`.

        The module runs on a row of ones: its output there is the scale. So it does not matter how the module stores its
        weight (Gemma stores scale − 1, offloading stores nothing).

        values: any tensor [..., D] of a dtype that the module takes.
        """
        key = values.dtype, values.device
        if key not in self._known:
            width = values.shape[-1]
            with torch.no_grad():
                ones = self._scale(values)
                # A model on several devices: the module's hook may have moved the ones to the module's own device.
                gain = ones.to(values.device, wide_type(ones)) * (width * (1 + self.eps)) ** 0.5
                self._known[key] = Factors(gain, gain.new_full((), (width * self.eps) ** 0.5))
        return self._known[key]

    def _scale(self, values: Tensor) -> Tensor:
        """[D], the module's output for ones. A plain module gets them in at least float32, so nothing is rounded."""
        width = values.shape[-1]
        if _is_plain(self.module):
            with suppress(RuntimeError):  # of a kernel that takes no other dtype than its weight's
                return self.module(values.new_ones(1, width, dtype=wide_type(values)))[0]
        return self.module(values.new_ones(1, width))[0]


def _is_plain(module: object) -> bool:
    """Whether a module is its class's forward and nothing else: no hooks, no submodules, weights that are in memory."""
    if not isinstance(module, nn.Module) or module._modules or "forward" in vars(module):
        return False
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    if all_modules._global_forward_hooks or all_modules._global_forward_pre_hooks:
        return False
    return not any(weight is not None and weight.is_meta for weight in module._parameters.values())


def _unit(values: Tensor, floor: Tensor) -> Tensor:
    """Values / length, [..., D], in the dtype of `floor`. The length is √(‖values‖² + floor²)."""
    length = torch.linalg.vector_norm(values, dim=-1, keepdim=True, dtype=floor.dtype)
    return values / torch.hypot(length, floor)
