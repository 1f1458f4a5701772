"""Shapes, named once.

B batch · S tokens in the sequence · S_left those that a stage leaves · N visual tokens · K kept ones of them ·
P supervised rows · T keys, cached ones included · H heads · D hidden width · E head width · V vocabulary.
The shapes are checked at run time only under test (`pytest --shapes`). Elsewhere they are documentation. jaxtyping is
optional: without it each alias is plain `Tensor`.
"""

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
Loss = Float[Tensor, ""]


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


def with_gradient(values: Tensor) -> Tensor:
    """The same values as a new tensor that requires a gradient; `values` stays without one.

    The result is a view of a leaf and no leaf itself: torch's FLOP counter cannot differentiate with respect to a leaf
    that a module receives. Call it with gradients enabled.
    """
    leaf = differentiable(values.detach()).requires_grad_()
    return leaf.view_as(leaf)
