"""A faster backward pass of linear layers, for a few rows in bfloat16 on a CPU.

The backward pass multiplies a few rows by the whole weight. Nearly all of its time goes into reading the weight.
torch's own product does not read it as fast as the memory could. A batch of products, one for each block of the
weight's rows, takes 0.6 to 0.8 of its time on two cores with AMX (`tests/benchmarks/test_few_rows.py`, run by
`make bench`).

Shapes: I inputs and O outputs of a linear layer, M rows, C blocks of the weight.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_ROWS = range(2, 17)
"""The numbers of rows that blocks make faster."""
_BLOCK = 256
"""The most rows of the weight in a block."""
_LARGE = 2**21
"""The least numbers in a weight. Smaller weights stay in a core's cache, and blocks save nothing."""


def fast_backward_of_few_rows(values: Tensor) -> AbstractContextManager[Any]:
    """A context in which a linear layer that runs on a few rows gets the backward pass in blocks.

    The model's modules run as they are: the context replaces `torch.nn.functional.linear`, for large plain weights in
    bfloat16 on a CPU. It gives the weights no gradient. For other dtypes and devices it does nothing.

    values: any tensor of the dtype and device of the rows.
    """
    return _FewRows() if values.is_cpu and values.dtype == torch.bfloat16 else nullcontext()


class _FewRows(TorchFunctionMode):
    """Replaces the linear layers that blocks make faster. Every other function of torch runs as it is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear and not kwargs and _is_faster_in_blocks(*args):
            return _Linear.apply(*args)
        return func(*args, **(kwargs or {}))


def _is_faster_in_blocks(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
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
    """values · weightᵀ + bias. The weight and the bias get no gradient."""

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
