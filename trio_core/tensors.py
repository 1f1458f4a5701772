"""Shapes, named once.

B batch · S tokens in the sequence · S_left those that a stage leaves · N visual tokens · K kept ones of them ·
P supervised rows · T keys, cached ones included · H heads · D hidden width · E head width · V vocabulary.
The shapes are checked at run time only under test (`pytest --shapes`). Elsewhere they are documentation. jaxtyping is
optional: without it each alias is plain `Tensor`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ModuleNotFoundError:

        class _Unchecked:
            """Stands in for jaxtyping's types: `_Unchecked[Tensor, "B S D"]` is `Tensor`."""

            def __class_getitem__(cls, item: tuple[type[Tensor], str]) -> type[Tensor]:
                return item[0]

        Bool = Float = Int = _Unchecked

HiddenBSD = Float[Tensor, "B S D"]
LeftBSD = Float[Tensor, "B S_left D"]
LogitsBPV = Float[Tensor, "B P V"]
ScoresBS = Float[Tensor, "B S"]
ScoresN = Float[Tensor, " N"]
FeaturesND = Float[Tensor, "N D"]
KeysNE = Float[Tensor, "N E"]
AttentionHN = Float[Tensor, "H N"]
MergedKD = Float[Tensor, "K D"]
SimilarityNN = Float[Tensor, "N N"]
KeptK = Int[Tensor, " K"]
MaskBS = Bool[Tensor, "B S"]
MaskBT = Bool[Tensor, "B T"]
PlacesBN = Int[Tensor, "B N"]
ScoresBN = Float[Tensor, "B N"]
RowsBP = Int[Tensor, "B P"]
Places = Int[Tensor, "B _"] | slice
"""Places in the sequence, equally many for each sample. A slice, whose start and stop are both given and not negative,
means that all samples have the same places, without gaps."""
Loss = Float[Tensor, ""]

_IN_CACHE = 2**18
"""The most numbers in a block of `in_cache`: 1 MiB of float32. A core's cache holds a few such blocks."""


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to `device`. On CUDA the copy is asynchronous (pinned memory)."""
    if device.type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def differentiable(value: Any) -> Any:
    """The value in a form that autograd can save: tensors made under `inference_mode` are copied.

    value: a tensor, a tuple of values, or anything else, which is returned as it is. Call it outside `inference_mode`.
    """
    if isinstance(value, tuple):
        return tuple(differentiable(part) for part in value)
    return value.clone() if isinstance(value, Tensor) and value.is_inference() else value


def rows_at(values: Tensor, places: Places) -> Tensor:
    """[B, N, …] of [B, S, …]: each sample's rows at its places. A slice copies nothing."""
    if isinstance(places, slice):
        return values[:, places]
    return values[torch.arange(len(places), device=places.device)[:, None], places]


def in_cache(values: Tensor, count: int) -> Iterator[slice]:
    """Slices of 0 … count − 1, in order: blocks of rows. On a CPU a core's cache holds a block; elsewhere one has all.

    Several operators on one block pass it on in the cache. On the whole tensor each of them would go through memory.

    values: [B, S, …], a tensor with rows of the same size.
    count: how many rows there are.
    """
    row = values.numel() // max(values.shape[1], 1)
    step = max(1, _IN_CACHE // max(row, 1)) if values.is_cpu else max(count, 1)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def wide_type(values: Tensor) -> torch.dtype:
    """The dtype to compute in: float32, or float64 for float64 values."""
    return torch.promote_types(values.dtype, torch.float32)


def widened(values: Tensor) -> Tensor:
    """The values in the dtype to compute in (`wide_type`)."""
    return values.to(wide_type(values))


def with_gradient(values: Tensor) -> Tensor:
    """The same values as a new tensor that requires a gradient; `values` stays without one.

    The result is a view of a leaf and no leaf itself: torch's FLOP counter cannot differentiate with respect to a leaf
    that a module receives. Call it with gradients enabled.
    """
    leaf = differentiable(values.detach()).requires_grad_()
    return leaf.view_as(leaf)
