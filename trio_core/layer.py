"""A decoder layer taken apart, so that some of its rows can be computed, and differentiated, without the others."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from trio_core.tensors import HiddenBSD, LogitsBPV

Readout = Callable[[HiddenBSD], LogitsBPV]
"""The model's final norm and head: [B, P, D] → [B, P, V]."""


@dataclass(frozen=True)
class RmsNorm:
    """x · rsqrt(mean x² + eps) ⊙ scale over the last axis: by the model's own module, and back by the formula.

    module: [..., D] → [..., D]. scale: [D], what the module multiplies by (Gemma's is 1 + weight).
    """

    module: Callable[[Tensor], Tensor]
    scale: Tensor
    eps: float

    def __call__(self, values: Tensor) -> Tensor:
        """The module's output."""
        return self.module(values)

    def backward(self, values: Tensor, slope: Tensor) -> Tensor:
        """∂ loss / ∂ values, at least float32, from `slope` = ∂ loss / ∂ output; both [..., D]."""
        wide = torch.promote_types(values.dtype, torch.float32)
        values, slope = values.to(wide), slope.to(wide) * self.scale.to(wide)
        width = values.shape[-1]
        inverse = 1 / (torch.linalg.vector_norm(values, dim=-1, keepdim=True).square() / width + self.eps)
        along = (values * slope).sum(dim=-1, keepdim=True) * inverse / width
        return torch.addcmul(slope, values, along, value=-1) * inverse.sqrt()


@dataclass(frozen=True)
class AttentionLayer:
    """A decoder layer's submodules by what they do: norm, attention, residual; then the FFN's half as one.

    query: normed rows [B, S, D] → heads [B, S, heads, E], before rotary, with the model's bias and head norm.
    key_weight, value_weight: [key_heads · E, D]; key_bias, value_bias: [key_heads · E] or None; key_norm: of each
    head, before rotary, or None. output: attended rows [B, P, heads · E] → [B, P, D]. finish: (residual rows,
    attention's output) → the layer's output rows, FFN and every other norm included.
    scaling: of the scores. softcap: tanh limit of the scores, None where there is none.
    """

    norm: RmsNorm
    query: Callable[[Tensor], Tensor]
    key_weight: Tensor
    key_bias: Tensor | None
    key_norm: RmsNorm | None
    value_weight: Tensor
    value_bias: Tensor | None
    output: Callable[[Tensor], Tensor]
    finish: Callable[[Tensor, Tensor], Tensor]
    key_heads: int
    scaling: float
    softcap: float | None = None


@dataclass(frozen=True)
class LayerCall:
    """A decoder layer on the residual stream that enters it, with the masks and positions of that moment.

    run: [B, S, D] in, [B, S, D] out; no cache is written and no hook runs. attention: the layer taken apart.
    rotary: cosines and sines [B or 1, S, E]. mask: what the layer was given. causal: what no mask means, that each
    token looks back only; else each sees all.
    """

    hidden: HiddenBSD
    run: Callable[[HiddenBSD], HiddenBSD]
    attention: Callable[[], AttentionLayer]
    rotary: tuple[Tensor, Tensor]
    mask: Tensor | BlockMask | None
    causal: bool = True
