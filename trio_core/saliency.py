"""TRIO's saliency at the price of its supervised rows: equal to autograd through the whole layer, to rounding.

The proxy loss reads only the supervised rows of the probed layer, and attention lets another token reach them only
through its own key and value. So the layer is redone for those rows alone (queries, attention over all keys, FFN, norm,
head), and only the keys are projected for every token. Values are not projected at all: Σ_j a_j (W_v x_j) is
W_v (Σ_j a_j x_j), which costs P · H sums of hidden rows, not a projection of each, and as little on the way back.
Autograd differentiates the rows' own path, which is the model's code; the way back from there, through attention's
scores, rotary, the keys and the norm, is written out and taken for the visual tokens alone.

Legend: as in `attention.py`; V visual tokens, P the supervised rows.
Checked against `equations.saliency` on every family in tests/core/test_saliency.py.
"""

from math import log

import torch
from torch import Tensor

from trio_core.attention import attend, rotate_back
from trio_core.layer import AttentionLayer, LayerCall, Readout
from trio_core.spans import span
from trio_core.tensors import LogitsBPV, MaskBS, PlacesBN, RowsBP, ScoresBN


def tail_saliency(
    call: LayerCall, readout: Readout, rows: RowsBP, valid: MaskBS, visual: PlacesBN
) -> tuple[ScoresBN, Tensor]:
    """s_i = ‖∂ proxy loss / ∂ hidden_i‖₂ for the tokens at `visual`, float64, without the layer's other rows.

    Returns the scores [B, V] and, [B], the mean probability of the pseudo-labels: how sure the proxy is of itself.

    call: the probed layer at its input [B, S, D]. readout: final norm and head. rows: [B, P] supervised rows, none of
    them visual. valid: [B, S]. visual: [B, V] places of the visual tokens.
    Scores are the gradient of the loss, a mean over B · P rows, as `equations.saliency` gives them; they are computed
    at a scale that no half-precision type loses, and float64 holds what a confident pseudo-label leaves.
    """
    with torch.inference_mode(False), torch.no_grad():
        samples = torch.arange(len(rows), device=rows.device)[:, None]
        with span("proxy_forward"):
            seen = attend(call, rows, valid)
            layer = seen.layer
            # The rank of the values: P · H sums of hidden rows, then W_v once for each sum.
            sums_BNRD = seen.weights.to(seen.normed.dtype).flatten(1, 2) @ seen.normed
            sums_BNRD = sums_BNRD.unflatten(1, (layer.key_heads, -1))
            with torch.enable_grad():
                sums_BNRD.requires_grad_()
                logits_BPV = readout(_finish_rows(layer, sums_BNRD, call.hidden[samples, rows]))
        with span("proxy_loss"):
            slope_BPV, log_scale_B, confidence_B = loss_slope(logits_BPV.detach())
        with span("backward"):
            (slope_BNRD,) = torch.autograd.grad(logits_BPV, sums_BNRD, slope_BPV)
            slope_BNRS = (slope_BNRD.flatten(1, 2) @ seen.normed.mT).view_as(seen.weights).mul(seen.weights)
            slope_BNRS = torch.addcmul(slope_BNRS, seen.weights, slope_BNRS.sum(dim=-1, keepdim=True), value=-1)
            if layer.softcap is not None:
                slope_BNRS = slope_BNRS * (1 - (seen.scores / layer.softcap).square())
            # From here on for the visual tokens alone.
            columns = visual[:, None, None].expand(-1, *seen.weights.shape[1:3], -1)
            slope_BNRV, weights_BNRV = (part.gather(-1, columns) for part in (slope_BNRS, seen.weights))
            key_BVNE = (slope_BNRV.mT @ seen.query.to(slope_BNRV.dtype)).transpose(1, 2) * layer.scaling
            key_BVNE = rotate_back(key_BVNE, seen.cos[samples, visual], seen.sin[samples, visual])
            if layer.key_norm is not None:
                key_BVNE = layer.key_norm.backward(seen.heads[samples, visual], key_BVNE)
            normed_BVD = torch.baddbmm(
                _through(layer.key_weight, key_BVNE.flatten(2)),
                weights_BNRV.flatten(1, 2).mT,
                slope_BNRD.flatten(1, 2).to(weights_BNRV.dtype),
            )
            gradient_BVD = layer.norm.backward(call.hidden[samples, visual], normed_BVD)
    return torch.linalg.vector_norm(gradient_BVD, dim=-1).double() * log_scale_B[:, None].exp(), confidence_B


def loss_slope(logits: LogitsBPV) -> tuple[LogitsBPV, Tensor, Tensor]:
    """∂ proxy loss / ∂ logits, scaled for each sample so that its largest part is of order one; and the scale's log.

    Returns slope [B, P, V], typed as the logits, and log_scale [B] float64; the derivative is slope · exp(log_scale).
    The third, [B], is the mean probability of the labels.
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
    confidence_B = log_p_BPV.amax(dim=-1).exp().mean(dim=-1)
    return slope_BPV.to(logits.dtype), torch.where(sound_B, log_scale_B, 0) - log(batch), confidence_B


def _through(weight: Tensor, slope_BVX: Tensor) -> Tensor:
    """slope · weight, multiplied in the weight's type at a scale that no half-precision type loses."""
    if slope_BVX.dtype == weight.dtype:
        return slope_BVX @ weight
    peak_B11 = slope_BVX.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(slope_BVX.dtype).tiny)
    return ((slope_BVX / peak_B11).to(weight.dtype) @ weight).to(slope_BVX.dtype) * peak_B11


def _finish_rows(layer: AttentionLayer, sums_BNRD: Tensor, residual_BPD: Tensor) -> Tensor:
    """The layer's output at the supervised rows [B, P, D], from the weighted sums of normed hidden rows."""
    rows = residual_BPD.shape[1]
    attended_BNRE = sums_BNRD @ layer.value_weight.unflatten(0, (layer.key_heads, -1)).mT
    if layer.value_bias is not None:
        attended_BNRE = attended_BNRE + layer.value_bias.view(layer.key_heads, 1, -1)
    attended_BPHE = attended_BNRE.unflatten(2, (-1, rows)).flatten(1, 2).transpose(1, 2)
    return layer.finish(residual_BPD, layer.output(attended_BPHE.flatten(2)))
