"""Shapes, named once.

B batch · S tokens in the sequence · S_left those that a stage leaves · N visual tokens · K kept ones of them ·
P supervised rows · T keys, cached ones included · H heads · D hidden width · E head width · V vocabulary.
The names are checked at run time only under test (`pytest --shapes`); elsewhere they are documentation.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Numbers of the host's on a device; on CUDA without a wait for its stream, as there is from pageable memory."""
    if device.type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def differentiable(value: Any) -> Any:
    """The value, copied where it was made under `inference_mode`: such tensors cannot be saved for a backward pass.

    Takes tensors, tuples of them, and anything else as it is. To be called outside `inference_mode`.
    """
    if isinstance(value, tuple):
        return tuple(differentiable(part) for part in value)
    return value.clone() if isinstance(value, Tensor) and value.is_inference() else value


def watched(hidden: Tensor) -> Tensor:
    """The same values, their gradient to be asked for; `hidden` stays without one. To be called with gradients enabled.

    A view and so no leaf: torch's FLOP counter cannot differentiate by a leaf that a module is fed.
    """
    leaf = differentiable(hidden.detach()).requires_grad_()
    return leaf.view_as(leaf)
