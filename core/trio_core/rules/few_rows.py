"""The backward pass of linear layers for a few rows in bfloat16 on a CPU, at the speed of its memory.

It multiplies a few rows by a whole weight, so that reading the weight is all of its time. torch's own product reads it
at half that speed there: 8 ms instead of 4.5 for [4, 11008] by [11008, 4096] on two cores with AMX. As a batch of
products, one for each block of the weight's rows, it is as fast as the forward pass.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_ROWS = range(2, 17)
"""How many rows are faster in blocks."""
_BLOCK = 256
"""The most rows of the weight in a block."""
_LARGE = 2**21
"""Numbers in a weight that no core's cache holds."""


def fast_backward_of_few_rows(values: Tensor) -> AbstractContextManager[Any]:
    """A context in which linear layers that run with a few rows get the backward pass in blocks.

    It changes `torch.nn.functional.linear` for plain weights alone, so the model's modules run as they are. Where
    blocks save no time it does nothing.

    values: any tensor of the dtype and device of the rows.
    """
    return _FewRows() if values.is_cpu and values.dtype == torch.bfloat16 else nullcontext()


class _FewRows(TorchFunctionMode):
    """Runs each function of torch as it is, but for linear layers that blocks make faster."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear and not kwargs and _gains(*args):
            return _Linear.apply(*args)
        return func(*args, **(kwargs or {}))


def _gains(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
    """Whether this linear layer is one that blocks make faster."""
    return (
        type(weight) in (Tensor, nn.Parameter)
        and weight.is_cpu
        and weight.dtype == torch.bfloat16
        and weight.numel() >= _LARGE
        and weight.is_contiguous()
        and values.requires_grad
        and values.numel() // values.shape[-1] in _ROWS
        and _blocks(len(weight)) > 1
        and (bias is None or type(bias) in (Tensor, nn.Parameter))
    )


def _blocks(rows: int) -> int:
    """The number of equal blocks of at most 256 rows; 1 where they would be smaller than 64."""
    size = next((size for size in range(_BLOCK, 63, -1) if rows % size == 0), rows)
    return rows // size


class _Linear(torch.autograd.Function):
    """values · weightᵀ + bias, for frozen weights."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """[..., O]. values: [..., I]. weight: [O, I]. bias: [O]."""
        ctx.save_for_backward(weight)
        return F.linear(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        """[..., I], ∂ loss / ∂ values. Blocks are added in float32."""
        (weight,) = ctx.saved_tensors
        blocks = _blocks(len(weight))
        rows_CMO = slopes[0].reshape(-1, blocks, len(weight) // blocks).transpose(0, 1)
        made_CMI = torch.bmm(rows_CMO, weight.view(blocks, -1, weight.shape[1]))
        made = made_CMI.sum(dim=0, dtype=torch.float32).to(weight.dtype)
        return made.view(*slopes[0].shape[:-1], -1), None, None
