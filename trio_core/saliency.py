"""TRIO's saliency at the price of its supervised rows: equal to autograd through the whole layer, to rounding.

The proxy loss reads only the supervised rows of the probed layer, and attention lets another token reach them only
through its own key and value. So the layer is redone for those rows alone (queries, attention over all keys, FFN, norm,
head), and only the keys are projected for every token. Values are not projected at all: Σ_j a_j (W_v x_j) is
W_v (Σ_j a_j x_j), which costs P · H sums of hidden rows, not a projection of each, and as little on the way back.
Autograd differentiates the rows' own path, which is the model's code; the way back from there, through attention's
scores, rotary, the keys and the norm, is written out and taken for the visual tokens alone.

Legend: B batch, S tokens, V visual tokens, P supervised rows, D width, H query heads, N key heads, G = H / N,
E head width, R = G · P rows of a key head.
Checked against `equations.saliency` on every family in tests/core/test_saliency.py.
"""

from math import log

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.layer import AttentionLayer, LayerCall, Readout
from trio_core.spans import span
from trio_core.tensors import LogitsBPV, MaskBS, PlacesBN, RowsBP, ScoresBN


def tail_saliency(call: LayerCall, readout: Readout, rows: RowsBP, valid: MaskBS, visual: PlacesBN) -> ScoresBN:
    """s_i = ‖∂ proxy loss / ∂ hidden_i‖₂ for the tokens at `visual`, float64, without the layer's other rows.

    call: the probed layer at its input [B, S, D]. readout: final norm and head. rows: [B, P] supervised rows, none of
    them visual. valid: [B, S]. visual: [B, V] places of the visual tokens.
    Scores are the gradient of the loss, a mean over B · P rows, as `equations.saliency` gives them; they are computed
    at a scale that no half-precision type loses, and float64 holds what a confident pseudo-label leaves.
    """
    layer = call.attention()
    with torch.inference_mode(False), torch.no_grad():
        samples = torch.arange(len(rows), device=rows.device)[:, None]
        with span("proxy_forward"):
            cos, sin = (part.expand(len(rows), -1, -1) for part in call.rotary)
            normed_BSD = layer.norm(call.hidden)
            heads_BSNE = F.linear(normed_BSD, layer.key_weight, layer.key_bias).unflatten(-1, (layer.key_heads, -1))
            key_BSNE = _rotate(heads_BSNE if layer.key_norm is None else layer.key_norm(heads_BSNE), cos, sin)
            query_BPHE = _rotate(layer.query(normed_BSD[samples, rows]), cos[samples, rows], sin[samples, rows])
            query_BNRE = _by_key_head(query_BPHE, layer.key_heads)
            scores_BNRS = query_BNRE @ key_BSNE.permute(0, 2, 3, 1) * layer.scaling
            if layer.softcap is not None:
                scores_BNRS = layer.softcap * (scores_BNRS / layer.softcap).tanh()
            weights_BNRS = _softmax(scores_BNRS, _allowed(call, samples, rows, valid))
            # The rank of the values: P · H sums of hidden rows, then W_v once for each sum.
            sums_BNRD = (weights_BNRS.to(normed_BSD.dtype).flatten(1, 2) @ normed_BSD).unflatten(
                1, (layer.key_heads, -1)
            )
            with torch.enable_grad():
                sums_BNRD.requires_grad_()
                logits_BPV = readout(_finish_rows(layer, sums_BNRD, call.hidden[samples, rows]))
        with span("proxy_loss"):
            slope_BPV, log_scale_B = loss_slope(logits_BPV.detach())
        with span("backward"):
            (slope_BNRD,) = torch.autograd.grad(logits_BPV, sums_BNRD, slope_BPV)
            slope_BNRS = (slope_BNRD.flatten(1, 2) @ normed_BSD.mT).view_as(weights_BNRS) * weights_BNRS
            slope_BNRS = torch.addcmul(slope_BNRS, weights_BNRS, slope_BNRS.sum(dim=-1, keepdim=True), value=-1)
            if layer.softcap is not None:
                slope_BNRS = slope_BNRS * (1 - (scores_BNRS / layer.softcap).square())
            # From here on for the visual tokens alone.
            columns = visual[:, None, None].expand(-1, *weights_BNRS.shape[1:3], -1)
            slope_BNRV, weights_BNRV = (
                part.gather(-1, columns).to(normed_BSD.dtype) for part in (slope_BNRS * layer.scaling, weights_BNRS)
            )
            key_BVNE = _rotate_back(
                (slope_BNRV.mT @ query_BNRE).transpose(1, 2), cos[samples, visual], sin[samples, visual]
            )
            if layer.key_norm is not None:
                key_BVNE = layer.key_norm.backward(heads_BSNE[samples, visual], key_BVNE).to(normed_BSD.dtype)
            normed_BVD = torch.baddbmm(
                key_BVNE.flatten(2) @ layer.key_weight, weights_BNRV.flatten(1, 2).mT, slope_BNRD.flatten(1, 2)
            )
            gradient_BVD = layer.norm.backward(call.hidden[samples, visual], normed_BVD)
    return torch.linalg.vector_norm(gradient_BVD, dim=-1).double() * log_scale_B[:, None].exp()


def loss_slope(logits: LogitsBPV) -> tuple[LogitsBPV, Tensor]:
    """∂ proxy loss / ∂ logits, scaled for each sample so that its largest part is of order one; and the scale's log.

    Returns slope [B, P, V], typed as the logits, and log_scale [B] float64; the derivative is slope · exp(log_scale).
    For a confident row the derivative (softmax − one-hot) is tiny, and at the label a difference of near-equals: here
    the label's entry is minus the sum of the others, and what all of a sample's entries share is taken out.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p_BPV = wide.log_softmax(dim=-1)
    label_BP1 = wide.argmax(dim=-1, keepdim=True)
    others_BPV = log_p_BPV.scatter(-1, label_BP1, -torch.inf)
    log_scale_B = others_BPV.amax(dim=(1, 2)).double()
    slope_BPV = (others_BPV - log_scale_B[:, None, None].to(wide.dtype)).exp()
    slope_BPV = slope_BPV.scatter(-1, label_BP1, -slope_BPV.sum(dim=-1, keepdim=True))
    batch, rows = logits.shape[:2]
    # A vocabulary of one, or a label infinitely ahead: nothing depends on anything, and the slope is nothing.
    sound_B = log_scale_B.isfinite()
    slope_BPV = torch.where(sound_B[:, None, None], slope_BPV, 0) / rows
    return slope_BPV.to(logits.dtype), torch.where(sound_B, log_scale_B, 0) - log(batch)


def _finish_rows(layer: AttentionLayer, sums_BNRD: Tensor, residual_BPD: Tensor) -> Tensor:
    """The layer's output at the supervised rows [B, P, D], from the weighted sums of normed hidden rows."""
    rows = residual_BPD.shape[1]
    attended_BNRE = sums_BNRD @ layer.value_weight.unflatten(0, (layer.key_heads, -1)).mT
    if layer.value_bias is not None:
        attended_BNRE = attended_BNRE + layer.value_bias.view(layer.key_heads, 1, -1)
    attended_BPHE = attended_BNRE.unflatten(2, (-1, rows)).flatten(1, 2).transpose(1, 2)
    return layer.finish(residual_BPD, layer.output(attended_BPHE.flatten(2)))


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
    if mask is None or mask.ndim == 2:
        places_S = torch.arange(valid_BS.shape[1], device=valid_BS.device)
        return valid_BS[:, None] & (places_S <= rows_BP[..., None])
    picked_BPS = mask.expand(len(rows_BP), -1, -1, -1)[:, 0][samples, rows_BP]
    return picked_BPS if picked_BPS.dtype == torch.bool else picked_BPS >= 0


def _rotate(heads: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """Rotary embedding of [B, S, heads, E], halves rotated against each other as all our families do it."""
    return heads * cos_BSE.unsqueeze(2) + _turn(heads) * sin_BSE.unsqueeze(2)


def _rotate_back(slope: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """∂ loss / ∂ heads from `slope` = ∂ loss / ∂ rotated heads, [B, S, heads, E]: the rotation's transpose."""
    return slope * cos_BSE.unsqueeze(2) - _turn(slope * sin_BSE.unsqueeze(2))


def _turn(heads: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)
