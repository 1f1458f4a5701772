"""Some rows of a decoder layer's attention, computed from the layer's own modules and beside its kernel.

The modules are called, never read: adapters (LoRA), quantised weights and offloaded weights stay right.

Shapes: B batch, S tokens, P rows asked for, D width, H query heads, N key heads, G = H / N query heads that read one
key head, E head width, R = G · P.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_mask

from trio_core.tensors import HiddenBSD, LogitsBPV, MaskBS, RowsBP, ScoresBS, with_gradient

Readout = Callable[[HiddenBSD], LogitsBPV]
"""The model's final norm and head: [B, P, D] → [B, P, V]."""


@dataclass(frozen=True)
class RmsNorm:
    """A root-mean-square norm: x · rsqrt(mean x² + eps) ⊙ scale, over the last axis.

    module: the model's own norm, [..., D] → [..., D].
    eps: what the module adds to the mean square.
    """

    module: Callable[[Tensor], Tensor]
    eps: float

    def __call__(self, values: Tensor) -> Tensor:
        """The module's output, [..., D]."""
        return self.module(values)

    def scale(self, values: Tensor) -> Tensor:
        """[D], what the module multiplies by, in at least float32.

        The module shows it: ones have a mean square of 1, so its output for ones is scale / √(1 + eps). That holds
        however the module stores its weight (Gemma stores scale − 1, offloading stores nothing).

        values: any tensor [..., D] with the dtype and device that the module takes.
        """
        shown = self.module(values.new_ones(1, values.shape[-1]))[0]
        return shown.to(wide_type(shown)) * (1 + self.eps) ** 0.5

    def backward(self, values: Tensor, slope: Tensor) -> Tensor:
        """∂ loss / ∂ values, [..., D], in at least float32.

        values: [..., D], the norm's input. slope: [..., D], ∂ loss / ∂ output.
        """
        scale = self.scale(values)
        values, slope = values.to(scale.dtype), slope.to(scale.dtype) * scale
        width = values.shape[-1]
        inverse = 1 / (torch.linalg.vector_norm(values, dim=-1, keepdim=True).square() / width + self.eps)
        along = (values * slope).sum(dim=-1, keepdim=True) * inverse / width
        return torch.addcmul(slope, values, along, value=-1) * inverse.sqrt()


@dataclass(frozen=True)
class AttentionLayer:
    """A decoder layer taken apart into callables. Each calls the model's own modules.

    norm: the norm before attention.
    query: normed rows [B, P, D] → [B, P, H, E], with bias and head norm, before rotary.
    key: normed rows [B, S, D] → [B, S, N, E], with bias and head norm, before rotary.
    value: normed rows [B, S, D] → [B, S, N, E], with bias.
    output: attended rows [B, P, H · E] → [B, P, D].
    finish: (residual rows, attention's output), both [B, P, D] → the layer's output rows [B, P, D]. It runs the FFN
        and every norm after attention.
    scaling: factor of the scores.
    softcap: tanh limit of the scores, or None.
    """

    norm: RmsNorm
    query: Callable[[Tensor], Tensor]
    key: Callable[[Tensor], Tensor]
    value: Callable[[Tensor], Tensor]
    output: Callable[[Tensor], Tensor]
    finish: Callable[[Tensor, Tensor], Tensor]
    scaling: float
    softcap: float | None = None


@dataclass(frozen=True)
class LayerCall:
    """A decoder layer and the residual stream that enters it, with the mask and positions of that moment.

    hidden: [B, S, D], the input.
    run: [B, S, D] → [B, S, D], the whole layer. It writes no cache and runs no hook.
    attention: returns the layer taken apart.
    rotary: cosines and sines, each [B or 1, S, E].
    mask: the attention mask that the layer was given.
    causal: whether a layer without a mask looks back only. PaliGemma's layers look both ways.
    """

    hidden: HiddenBSD
    run: Callable[[HiddenBSD], HiddenBSD]
    attention: Callable[[], AttentionLayer]
    rotary: tuple[Tensor, Tensor]
    mask: Tensor | BlockMask | None
    causal: bool = True


@dataclass(frozen=True)
class Attended:
    """The attention weights of some rows, with what a backward pass needs.

    layer: the layer taken apart.
    cos, sin: [B, S, E], the rotary embedding.
    normed: [B, S, D], after the layer's first norm.
    heads: [B, S, N, E], keys before rotary.
    query: [B, N, R, E], after rotary.
    scores: [B, N, R, S], scaled and capped.
    weights: [B, N, R, S], softmax of the scores in at least float32. The rows of one query head lie side by side in R.
    rows: P.
    """

    layer: AttentionLayer
    cos: Tensor
    sin: Tensor
    normed: Tensor
    heads: Tensor
    query: Tensor
    scores: Tensor
    weights: Tensor
    rows: int

    def by_query_head(self) -> Tensor:
        """[B, H, P, S]: the weights in the layout of an attention map."""
        return self.weights.flatten(1, 2).unflatten(1, (-1, self.rows))


def attend(call: LayerCall, rows: RowsBP, valid: MaskBS, *, differentiable_keys: bool = False) -> Attended:
    """The attention weights of a layer's `rows` over all tokens.

    call: the layer at its input [B, S, D].
    rows: [B, P] places.
    valid: [B, S], False at padding.
    differentiable_keys: record the keys' graph, so that `heads` can be differentiated with respect to `normed`.
    """
    return next(attend_each(call, [rows], valid, differentiable_keys=differentiable_keys))


def attend_each(
    call: LayerCall, blocks: Iterable[Tensor], valid: MaskBS, *, differentiable_keys: bool = False
) -> Iterator[Attended]:
    """`attend` for one block of rows after the other. Only one block's weights are in memory at a time.

    blocks: each [B, P] places. The keys are projected once for all blocks.
    """
    layer = call.attention()
    cos, sin = (part.expand(len(valid), -1, -1) for part in call.rotary)
    normed = layer.norm(call.hidden)
    if differentiable_keys:
        with torch.enable_grad():
            normed = with_gradient(normed)
            heads = layer.key(normed)
    else:
        heads = layer.key(normed)
    key_BSNE = rotate(heads, cos, sin)
    for rows in blocks:
        samples = torch.arange(len(rows), device=rows.device)[:, None]
        query_BPHE = rotate(layer.query(normed[samples, rows]), cos[samples, rows], sin[samples, rows])
        query = _by_key_head(query_BPHE, heads.shape[2])
        scores = (query @ key_BSNE.permute(0, 2, 3, 1)).mul_(layer.scaling)
        if layer.softcap is not None:
            scores = layer.softcap * (scores / layer.softcap).tanh()
        weights = _softmax(scores, _hidden(call, samples, rows, valid))
        yield Attended(layer, cos, sin, normed, heads, query, scores, weights, rows.shape[1])


def attention_row(call: LayerCall, rows: RowsBP, valid: MaskBS) -> ScoresBS:
    """[B, S]: what one row of each sample attends to in a layer, averaged over the heads. rows: [B, 1] places."""
    return attend(call, rows, valid).by_query_head().mean(dim=1)[:, 0]


def rotate(heads: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """Rotary embedding of [B, S, heads, E]. The two halves of E are rotated against each other."""
    return torch.addcmul(heads * cos_BSE.unsqueeze(2), _turn(heads), sin_BSE.unsqueeze(2))


def rotate_back(slope: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """The transpose of `rotate`: ∂ loss / ∂ heads from `slope` = ∂ loss / ∂ rotated heads, both [B, S, heads, E]."""
    return slope * cos_BSE.unsqueeze(2) - _turn(slope * sin_BSE.unsqueeze(2))


def wide_type(values: Tensor) -> torch.dtype:
    """The dtype to compute in: float32, or float64 for float64 values."""
    return torch.promote_types(values.dtype, torch.float32)


def _turn(heads: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def _by_key_head(heads_BPHE: Tensor, key_heads: int) -> Tensor:
    """[B, P, H, E] → [B, N, R, E]: each key head with the query rows that read it."""
    return heads_BPHE.unflatten(2, (key_heads, -1)).permute(0, 2, 3, 1, 4).flatten(2, 3)


def _softmax(scores_BNRS: Tensor, hidden_BPS: Tensor) -> Tensor:
    """Attention weights in at least float32. Each row's weights are zero where it may not look."""
    scores_BNGPS = scores_BNRS.to(wide_type(scores_BNRS)).unflatten(2, (-1, hidden_BPS.shape[1]))
    return scores_BNGPS.masked_fill(hidden_BPS[:, None, None], -torch.inf).softmax(dim=-1).flatten(2, 3)


def _hidden(call: LayerCall, samples: Tensor, rows_BP: Tensor, valid_BS: Tensor) -> Tensor:
    """[B, P, S]: which tokens each row may not look at. The layer's own mask decides, where it has one."""
    mask = call.mask
    if isinstance(mask, BlockMask):
        rule, shape = mask.mask_mod, (len(rows_BP), 1, rows_BP.shape[1], valid_BS.shape[1])
        return ~create_mask(lambda b, h, p, s: rule(b, h, rows_BP[b, p], s), *shape, rows_BP.device)[:, 0]
    if mask is None or mask.ndim == 2:
        padding_B1S = ~valid_BS[:, None]
        if not call.causal:
            return padding_B1S.expand(-1, rows_BP.shape[1], -1)
        places_S = torch.arange(valid_BS.shape[1], device=valid_BS.device)
        return (places_S > rows_BP[..., None]).logical_or_(padding_B1S)
    picked_BPS = mask.expand(len(rows_BP), -1, -1, -1)[:, 0][samples, rows_BP]
    return ~picked_BPS if picked_BPS.dtype == torch.bool else ~(picked_BPS >= 0)
