"""FLOPs of operators that torch's counter has no formula for. To add one: a line in `_FORMULAS`.

Attention is counted dense, not halved for causality nor cut to a window, as torch counts its own. The signatures are
those of flash_attn 2.8 and of its Hopper interface, which are looked up by name, for they need not be here.
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
    """Operators that are registered here and now, each with our formula; takes an operator's own arguments."""
    found: dict[Any, Formula] = {}
    for name, formula in (_FORMULAS if _knows_grouped_keys() else _FORMULAS | _GROUPED).items():
        namespace, operator = name.split("::")
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        if packet is not None:
            found[packet] = formula
    return found


def _knows_grouped_keys() -> bool:
    """Whether torch's own formula takes keys of fewer heads; before pytorch#177188 it does not (2.11)."""
    try:
        return sdpa_flop_count((1, 2, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)) > 0
    except AssertionError:
        return False


def _raw(formula: Formula) -> Formula:
    """torch's counter hands shapes to a formula unless it is marked to take the tensors."""
    formula._get_raw = True  # pyright: ignore[reportFunctionMemberAccess]
    return formula


@_raw
def _heads_first(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Attention of [B, H, S, E], as SDPA lays it out; keys may have fewer heads."""
    return _flash(*(part.transpose(1, 2) for part in (query, key, value)))


@_raw
def _heads_first_backward(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    return _flash_backward(grad, *(part.transpose(1, 2) for part in (query, key, value)))


@_raw
def _flash(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Attention of [B, S, H, E]: scores and values, 2 FLOPs a multiply-add."""
    return _products(2, query, key, value, None, None)


@_raw
def _flash_packed(query: Tensor, key: Tensor, value: Tensor, ends_q: Tensor, ends_k: Tensor, *_: Any, **__: Any) -> int:
    """Attention of sequences packed into [S, H, E], each from one end of `ends` to the next."""
    return _products(2, query, key, value, ends_q, ends_k)


@_raw
def _flash_backward(_grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Five products where the forward has two: the scores again, and the four gradients."""
    return _products(5, query, key, value, None, None)


@_raw
def _flash_packed_backward(_grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **__: Any) -> int:
    ends_q, ends_k = rest[5:7]  # after the output, its log-sum and the three gradients to fill
    return _products(5, query, key, value, ends_q, ends_k)


@_raw
def _flash_3(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> int:
    """The Hopper kernel's one operator: packed if ends are given, after new keys and values, qv and an output."""
    given = dict(zip(("k_new", "v_new", "qv", "out_", "cu_seqlens_q", "cu_seqlens_k"), rest, strict=False)) | named
    return _products(2, query, key, value, given.get("cu_seqlens_q"), given.get("cu_seqlens_k"))


def _products(
    count: int, query: Tensor, key: Tensor, value: Tensor, ends_q: Tensor | None, ends_k: Tensor | None
) -> int:
    """So many products of queries by keys, alternately as wide as the keys' heads and the values'."""
    heads, width, wide = query.shape[-2], key.shape[-1], value.shape[-1]
    if ends_q is None or ends_k is None:
        pairs = query.shape[0] * query.shape[1] * key.shape[1]
    else:
        lengths = [[end - start for start, end in pairwise(ends.tolist())] for ends in (ends_q, ends_k)]
        pairs = sum(queries * keys for queries, keys in zip(*lengths, strict=True))
    return 2 * heads * pairs * ((count + 1) // 2 * width + count // 2 * wide)


_FORMULAS: dict[str, Formula] = {
    # The kernels that SDPA takes on a CPU: torch 2.13 has no formula, and counts them as nothing (pytorch#195460).
    "aten::_scaled_dot_product_flash_attention_for_cpu": _heads_first,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _heads_first_backward,
    "flash_attn::_flash_attn_forward": _flash,
    "flash_attn::_flash_attn_varlen_forward": _flash_packed,
    "flash_attn::_flash_attn_backward": _flash_backward,
    "flash_attn::_flash_attn_varlen_backward": _flash_packed_backward,
    "flash_attn_3::_flash_attn_forward": _flash_3,
    "flash_attn_3::fwd": _flash_3,
}

_GROUPED: dict[str, Formula] = {
    f"aten::_scaled_dot_product_{kernel}_attention{direction}": formula
    for kernel in ("flash", "efficient", "cudnn")
    for direction, formula in (("", _heads_first), ("_backward", _heads_first_backward))
}
"""SDPA's kernels on CUDA, for a torch whose own formula refuses grouped keys."""
