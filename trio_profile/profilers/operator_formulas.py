"""FLOPs of operators without a formula in torch's counter. To add one, add a line to `_FORMULAS`.

Attention is counted whole, as torch counts it: neither halved for causality nor limited to a window. The signatures are
those of flash_attn 2.8. They are looked up by name, because they need not be installed.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
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


def _attention(
    products: int, *, first: int = 0, heads_first: bool = False, boundaries: tuple[int, int] | None = None
) -> Formula:
    """A formula for attention of [B, S, H, E], or of packed sequences [S, H, E]. Keys may have fewer heads.

    products: how many products of queries by keys there are. The forward has two. The backward has five: the scores
        again, and four gradients. Products 1, 3 and 5 are as wide as a key's head, 2 and 4 as a value's head.
    first: the place of the query among the arguments. Keys and values follow it.
    heads_first: whether the layout is [B, H, S, E], as in SDPA.
    boundaries: the places of the tensors that say where packed queries and keys begin and end; None without packing.
    """

    def flops(*arguments: Any, **_: Any) -> int:
        query, key, value = (part.transpose(1, 2) if heads_first else part for part in arguments[first : first + 3])
        if boundaries is None:
            pairs = query.shape[0] * query.shape[1] * key.shape[1]
        else:
            ends = (arguments[place].tolist() for place in boundaries)
            lengths = ([end - start for start, end in pairwise(of_side)] for of_side in ends)
            pairs = sum(queries * keys for queries, keys in zip(*lengths, strict=True))
        widths = (products + 1) // 2 * key.shape[-1] + products // 2 * value.shape[-1]
        return 2 * query.shape[-2] * pairs * widths

    flops._get_raw = True  # pyright: ignore[reportFunctionMemberAccess] - torch passes the tensors, not only shapes
    return flops


_SDPA, _SDPA_BACKWARD = _attention(2, heads_first=True), _attention(5, first=1, heads_first=True)

_FORMULAS: dict[str, Formula] = {
    # The kernels that SDPA uses on a CPU. torch 2.13 has no formula and counts them as 0 (pytorch#195460).
    "aten::_scaled_dot_product_flash_attention_for_cpu": _SDPA,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _SDPA_BACKWARD,
    "flash_attn::_flash_attn_forward": _attention(2),
    "flash_attn::_flash_attn_varlen_forward": _attention(2, boundaries=(3, 4)),
    "flash_attn::_flash_attn_backward": _attention(5, first=1),
    # The boundaries stand behind the output, its log-sum and the three gradients to fill.
    "flash_attn::_flash_attn_varlen_backward": _attention(5, first=1, boundaries=(9, 10)),
}

_GROUPED: dict[str, Formula] = {
    f"aten::_scaled_dot_product_{kernel}_attention{direction}": formula
    for kernel in ("flash", "efficient", "cudnn")
    for direction, formula in (("", _SDPA), ("_backward", _SDPA_BACKWARD))
}
"""SDPA's kernels on CUDA, for versions of torch whose own formula refuses grouped keys."""
