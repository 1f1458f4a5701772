"""TRIO's saliency at the price of its supervised rows: equal to autograd through the whole layer, to rounding.

The proxy loss reads only the supervised rows of the probed layer, and attention lets an earlier token reach them only
through its own key and value. So the layer is redone for those rows alone (queries, attention over all keys, FFN, norm,
head), and only the keys are projected for every token. Values are not projected at all: Σ_j a_j (W_v x_j) is
W_v (Σ_j a_j x_j), which costs P · H sums of hidden rows, not a projection of each, and as little on the way back.

Legend: B batch, S tokens, P supervised rows, D width, H query heads, N key heads, G = H / N, E head width,
V vocabulary.
Checked against `equations.saliency` on every family in tests/core/test_saliency.py.
"""

from math import log

import torch
from torch import Tensor

from trio_core.spans import span
from trio_core.tensors import LogitsBPV, RowsBP, ScoresBS, differentiable, watched
from trio_core.view import LayerCall, Readout


def tail_saliency(call: LayerCall, readout: Readout, rows: RowsBP, valid: Tensor) -> ScoresBS:
    """s_i = ‖∂ proxy loss / ∂ hidden_i‖₂ for every token i, float64, without the layer's other rows.

    call: the probed layer at its input [B, S, D]. readout: final norm and head. rows: [B, P]. valid: [B, S].
    Scores are the gradient of the loss, a mean over B · P rows, as `equations.saliency` gives them; they are computed
    at a scale that no half-precision type loses, and float64 holds what a confident pseudo-label leaves.
    """
    with torch.inference_mode(False), torch.enable_grad():
        hidden_BSD = watched(call.hidden)
        with span("proxy_forward"):
            rows_BP = differentiable(rows)
            samples = torch.arange(len(rows_BP), device=rows_BP.device)[:, None]
            output_BPD = _rows_of_layer(call, hidden_BSD, samples, rows_BP, differentiable(valid))
            logits_BPV = readout(output_BPD)
        with span("proxy_loss"):
            slope_BPV, log_scale_B = loss_slope(logits_BPV.detach())
        with span("backward"):
            (gradient_BSD,) = torch.autograd.grad(logits_BPV, hidden_BSD, slope_BPV)
    norms_BS = gradient_BSD.to(torch.promote_types(gradient_BSD.dtype, torch.float32)).norm(dim=-1).double()
    return norms_BS * log_scale_B[:, None].exp()


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


def _rows_of_layer(call: LayerCall, hidden_BSD: Tensor, samples: Tensor, rows_BP: Tensor, valid_BS: Tensor) -> Tensor:
    """The probed layer's output at the supervised rows: [B, P, D]."""
    layer = call.attention()
    cos_BSE, sin_BSE = (differentiable(part).expand(len(hidden_BSD), -1, -1) for part in call.rotary)
    normed_BSD = layer.norm(hidden_BSD)
    key_BSNE = _rotate(layer.key(normed_BSD), cos_BSE, sin_BSE)
    query_BPHE = _rotate(
        layer.query(normed_BSD[samples, rows_BP]), cos_BSE[samples, rows_BP], sin_BSE[samples, rows_BP]
    )
    query_BPNGE = query_BPHE.unflatten(2, (layer.key_heads, -1))
    scores_BNGPS = torch.einsum("bpnge,bsne->bngps", query_BPNGE, key_BSNE) * layer.scaling
    if layer.softcap is not None:
        scores_BNGPS = layer.softcap * (scores_BNGPS / layer.softcap).tanh()
    allowed_BPS = _allowed(call, samples, rows_BP, valid_BS)
    wide = torch.promote_types(scores_BNGPS.dtype, torch.float32)
    weights_BNGPS = scores_BNGPS.to(wide).masked_fill(~allowed_BPS[:, None, None], -torch.inf).softmax(dim=-1)
    # The rank of the values: P · H sums of hidden rows, then W_v once for each sum.
    sums_BNGPD = torch.einsum("bngps,bsd->bngpd", weights_BNGPS.to(normed_BSD.dtype), normed_BSD)
    value_NED = layer.value_weight.unflatten(0, (layer.key_heads, -1))
    attended_BPNGE = torch.einsum("bngpd,ned->bpnge", sums_BNGPD, value_NED)
    if layer.value_bias is not None:
        attended_BPNGE = attended_BPNGE + layer.value_bias.view(layer.key_heads, 1, -1)
    return layer.finish(hidden_BSD[samples, rows_BP], layer.output(attended_BPNGE.flatten(2)))


def _allowed(call: LayerCall, samples: Tensor, rows_BP: Tensor, valid_BS: Tensor) -> Tensor:
    """[B, P, S]: which tokens each supervised row may look at; by the layer's own mask where it has one."""
    mask = call.mask
    if mask is None or mask.ndim == 2:
        places_S = torch.arange(valid_BS.shape[1], device=valid_BS.device)
        return valid_BS[:, None] & (places_S <= rows_BP[..., None])
    picked_BPS = differentiable(mask).expand(len(rows_BP), -1, -1, -1)[:, 0][samples, rows_BP]
    return picked_BPS if picked_BPS.dtype == torch.bool else picked_BPS >= 0


def _rotate(heads: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """Rotary embedding of [B, S, heads, E], halves rotated against each other as all our families do it."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cos_BSE.unsqueeze(2) + torch.cat([-second, first], dim=-1) * sin_BSE.unsqueeze(2)
