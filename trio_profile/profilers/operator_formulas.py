"""FLOPs of operators without a formula in torch's counter. To add one, add a line to `_FORMULAS`.

Attention is counted whole, as torch counts it: neither halved for causality nor limited to a window. The signatures are
those of flash_attn 2.8. They are looked up by name, because they need not be installed.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import sdpa_flop_count

OUR_FORMULA, TORCHS_FORMULA = "trio-profile", "torch"
Formula = Callable[..., int]


def supplied() -> dict[Any, Formula]:
    """The operators that exist in this process, each with our formula. A formula takes the operator's arguments."""
    packets: dict[Any, Formula] = {}
    for name, formula in (_FORMULAS if _knows_grouped_keys() else _FORMULAS | _GROUPED).items():
        namespace, operator = name.split("::")
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        if packet is not None:
            packets[packet] = formula
    return packets


def _knows_grouped_keys() -> bool:
    """Whether torch's own formula accepts keys with fewer heads. Before pytorch#177188 it does not (2.11)."""
    try:
        return sdpa_flop_count((1, 2, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)) > 0
    except AssertionError:
        return False


def _raw(formula: Formula) -> Formula:
    """Mark a formula so that torch's counter passes the tensors to it, and not only their shapes."""
    formula._get_raw = True  # pyright: ignore[reportFunctionMemberAccess]
    return formula


@_raw
def _heads_first(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Attention of [B, H, S, E], the layout of SDPA. Keys may have fewer heads."""
    return _flash(*(part.transpose(1, 2) for part in (query, key, value)))


@_raw
def _heads_first_backward(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    return _flash_backward(grad, *(part.transpose(1, 2) for part in (query, key, value)))


@_raw
def _flash(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Attention of [B, S, H, E]: scores and weighted values, 2 FLOPs for each multiply-add."""
    return _products(2, query, key, value, None, None)


@_raw
def _flash_packed(query: Tensor, key: Tensor, value: Tensor, ends_q: Tensor, ends_k: Tensor, *_: Any, **__: Any) -> int:
    """Attention of sequences that are packed into [S, H, E]. Their boundaries are in `ends_q` and `ends_k`."""
    return _products(2, query, key, value, ends_q, ends_k)


@_raw
def _flash_backward(_grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """The backward has five products: the scores again, and four gradients. The forward has two."""
    return _products(5, query, key, value, None, None)


@_raw
def _flash_packed_backward(_grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **__: Any) -> int:
    ends_q, ends_k = rest[5:7]  # after the output, its log-sum and the three gradients to fill
    return _products(5, query, key, value, ends_q, ends_k)


def _products(
    count: int, query: Tensor, key: Tensor, value: Tensor, ends_q: Tensor | None, ends_k: Tensor | None
) -> int:
    """FLOPs of `count` products of queries by keys. They are as wide as the keys' and the values' heads in turn."""
    heads, width, wide = query.shape[-2], key.shape[-1], value.shape[-1]
    if ends_q is None or ends_k is None:
        pairs = query.shape[0] * query.shape[1] * key.shape[1]
    else:
        lengths = [[end - start for start, end in pairwise(ends.tolist())] for ends in (ends_q, ends_k)]
        pairs = sum(queries * keys for queries, keys in zip(*lengths, strict=True))
    return 2 * heads * pairs * ((count + 1) // 2 * width + count // 2 * wide)


_FORMULAS: dict[str, Formula] = {
    # The kernels that SDPA uses on a CPU. torch 2.13 has no formula and counts them as 0 (pytorch#195460).
    "aten::_scaled_dot_product_flash_attention_for_cpu": _heads_first,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _heads_first_backward,
    "flash_attn::_flash_attn_forward": _flash,
    "flash_attn::_flash_attn_varlen_forward": _flash_packed,
    "flash_attn::_flash_attn_backward": _flash_backward,
    "flash_attn::_flash_attn_varlen_backward": _flash_packed_backward,
}

_GROUPED: dict[str, Formula] = {
    f"aten::_scaled_dot_product_{kernel}_attention{direction}": formula
    for kernel in ("flash", "efficient", "cudnn")
    for direction, formula in (("", _heads_first), ("_backward", _heads_first_backward))
}
"""SDPA's kernels on CUDA, for versions of torch whose own formula refuses grouped keys."""
