"""Some rows of a decoder layer's attention, computed without the others and without touching the model's kernel.

Legend: B batch, S tokens, P rows asked for, D width, H query heads, N key heads, G = H / N, E head width,
R = G · P rows that read one key head.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_mask

from trio_core.layer import AttentionLayer, LayerCall
from trio_core.tensors import HiddenBSD, MaskBS, RowsBP, ScoresBS


@dataclass(frozen=True)
class Attended:
    """What some rows of a layer see, up to the weights: everything that a way back needs.

    layer: taken apart. cos, sin: [B, S, E]. normed: [B, S, D] after the layer's first norm. heads: [B, S, N, E] keys
    before their norm and rotary. query: [B, N, R, E] after rotary. scores: [B, N, R, S] scaled and capped.
    weights: [B, N, R, S] softmax, at least float32. rows: P; a head's rows lie side by side in R.
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
        """[B, H, P, S]: the weights as attention maps are laid out."""
        return self.weights.flatten(1, 2).unflatten(1, (-1, self.rows))


def attend(call: LayerCall, rows: RowsBP, valid: MaskBS) -> Attended:
    """The attention weights of a layer's `rows` over all tokens, by the model's own projections, mask and rotary.

    call: the layer at its input [B, S, D]. rows: [B, P] places. valid: [B, S], False at padding.
    """
    return next(attend_each(call, [rows], valid))


def attend_each(call: LayerCall, blocks: Iterable[Tensor], valid: MaskBS) -> Iterator[Attended]:
    """`attend` for one block of rows after the other, so that never more than one block's weights are held.

    blocks: each [B, P] places. The keys are projected once for all of them.
    """
    layer = call.attention()
    cos, sin = (part.expand(len(valid), -1, -1) for part in call.rotary)
    normed = layer.norm(call.hidden)
    heads = F.linear(normed, layer.key_weight, layer.key_bias).unflatten(-1, (layer.key_heads, -1))
    key_BSNE = rotate(heads if layer.key_norm is None else layer.key_norm(heads), cos, sin)
    for rows in blocks:
        samples = torch.arange(len(rows), device=rows.device)[:, None]
        query_BPHE = rotate(layer.query(normed[samples, rows]), cos[samples, rows], sin[samples, rows])
        query = _by_key_head(query_BPHE, layer.key_heads)
        scores = query @ key_BSNE.permute(0, 2, 3, 1) * layer.scaling
        if layer.softcap is not None:
            scores = layer.softcap * (scores / layer.softcap).tanh()
        weights = _softmax(scores, _allowed(call, samples, rows, valid))
        yield Attended(layer, cos, sin, normed, heads, query, scores, weights, rows.shape[1])


def attention_row(call: LayerCall, rows: RowsBP, valid: MaskBS) -> ScoresBS:
    """[B, S] what one row a sample, `rows` [B, 1], attends to in a layer: its weights averaged over the heads."""
    return attend(call, rows, valid).by_query_head().mean(dim=1)[:, 0]


def plain_keys(layer: AttentionLayer, normed: HiddenBSD) -> Tensor:
    """[B, S, N, E]: a layer's keys before rotary. normed: after the layer's first norm."""
    heads = F.linear(normed, layer.key_weight, layer.key_bias).unflatten(-1, (layer.key_heads, -1))
    return heads if layer.key_norm is None else layer.key_norm(heads)


def rotate(heads: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """Rotary embedding of [B, S, heads, E], halves rotated against each other as all our families do it."""
    return torch.addcmul(heads * cos_BSE.unsqueeze(2), _turn(heads), sin_BSE.unsqueeze(2))


def rotate_back(slope: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """∂ loss / ∂ heads from `slope` = ∂ loss / ∂ rotated heads, [B, S, heads, E]: the rotation's transpose."""
    return slope * cos_BSE.unsqueeze(2) - _turn(slope * sin_BSE.unsqueeze(2))


def _turn(heads: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def _by_key_head(heads_BPHE: Tensor, key_heads: int) -> Tensor:
    """[B, P, H, E] → [B, N, R, E]: each key head with the query rows that read it, a head's rows side by side."""
    return heads_BPHE.unflatten(2, (key_heads, -1)).permute(0, 2, 3, 1, 4).flatten(2, 3)


def _softmax(scores_BNRS: Tensor, allowed_BPS: Tensor) -> Tensor:
    """Attention weights in at least float32, of the tokens that each row may look at."""
    wide = torch.promote_types(scores_BNRS.dtype, torch.float32)
    scores_BNGPS = scores_BNRS.to(wide).unflatten(2, (-1, allowed_BPS.shape[1]))
    return scores_BNGPS.masked_fill(~allowed_BPS[:, None, None], -torch.inf).softmax(dim=-1).flatten(2, 3)


def _allowed(call: LayerCall, samples: Tensor, rows_BP: Tensor, valid_BS: Tensor) -> Tensor:
    """[B, P, S]: which tokens each supervised row may look at; by the layer's own mask where it has one."""
    mask = call.mask
    if isinstance(mask, BlockMask):
        rule, shape = mask.mask_mod, (len(rows_BP), 1, rows_BP.shape[1], valid_BS.shape[1])
        return create_mask(lambda b, h, p, s: rule(b, h, rows_BP[b, p], s), *shape, rows_BP.device)[:, 0]
    if mask is None or mask.ndim == 2:
        places_S = torch.arange(valid_BS.shape[1], device=valid_BS.device)
        return valid_BS[:, None] & ((places_S <= rows_BP[..., None]) | (not call.causal))
    picked_BPS = mask.expand(len(rows_BP), -1, -1, -1)[:, 0][samples, rows_BP]
    return picked_BPS if picked_BPS.dtype == torch.bool else picked_BPS >= 0
