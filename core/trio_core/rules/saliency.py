"""TRIO's saliency from the supervised rows alone: equal to autograd through the whole layer, to rounding.

The paper differentiates the proxy loss through all rows of the probed layer (section "Layer-local Proxy Loss and
Gradient Saliency"). The loss reads only the supervised rows, and a visual token reaches them only through its own key
and value. So we compute the layer for the supervised rows alone:

- Keys are projected for every token, by the model's module.
- Values are not. A value module is affine and the weights a_j of a row sum to 1, so Σ_j a_j v(x_j) = v(Σ_j a_j x_j).
  That takes P · H sums of hidden rows instead of a projection of every token.
- Autograd goes back through the model's own modules: the supervised rows' path (values, output, FFN, norms, head) and
  the keys. The steps between them (softmax, rotary, the first norm) are written out.

Shapes: as in `attention.py`. V is the number of visual tokens, P of supervised rows.
`tests/core/rules/test_saliency.py` checks it against `equations.saliency` in every family.
"""

from math import log

import torch
from torch import Tensor

from trio_core.errors import UnsupportedModel
from trio_core.rules.attention import AttentionLayer, LayerCall, Readout, attend, rotate_back
from trio_core.spans import span
from trio_core.tensors import LogitsBPV, MaskBS, PlacesBN, RowsBP, ScoresBN, with_gradient


def tail_saliency(call: LayerCall, readout: Readout, rows: RowsBP, valid: MaskBS, visual: PlacesBN) -> ScoresBN:
    """[B, V], float64: s_i = ‖∂ proxy loss / ∂ hidden_i‖₂ (Eq. 4 and 5) for the tokens at `visual`.

    The loss is a mean over B · P rows, as in `equations.saliency`. The gradient is computed at a scale that no
    half-precision type loses; float64 holds the tiny scores of a confident pseudo-label.

    call: the probed layer at its input [B, S, D].
    readout: final norm and head.
    rows: [B, P], the supervised rows. None of them is visual.
    valid: [B, S], False at padding.
    visual: [B, V], places of the visual tokens.

    Raises UnsupportedModel for a key projection that autograd cannot differentiate.
    """
    with torch.inference_mode(False), torch.no_grad():
        samples = torch.arange(len(rows), device=rows.device)[:, None]
        with span("proxy_forward"):
            seen = attend(call, rows, valid, differentiable_keys=True)
            layer = seen.layer
            sums_BNRD = seen.weights.to(seen.normed.dtype).flatten(1, 2) @ seen.normed
            sums_BNRD = sums_BNRD.unflatten(1, (seen.weights.shape[1], -1))
            with torch.enable_grad():
                sums_BNRD = with_gradient(sums_BNRD)
                logits_BPV = readout(_finish_rows(layer, sums_BNRD, call.hidden[samples, rows].detach()))
        with span("proxy_loss"):
            slope_BPV, log_scale_B = loss_slope(logits_BPV.detach())
        with span("backward"):
            (slope_BNRD,) = torch.autograd.grad(logits_BPV, sums_BNRD, slope_BPV)
            slope_BNRS = (slope_BNRD.flatten(1, 2) @ seen.normed.mT).view_as(seen.weights).mul(seen.weights)
            slope_BNRS = torch.addcmul(slope_BNRS, seen.weights, slope_BNRS.sum(dim=-1, keepdim=True), value=-1)
            if layer.softcap is not None:
                slope_BNRS = slope_BNRS * (1 - (seen.scores / layer.softcap).square())
            key_BSNE = (slope_BNRS.mT @ seen.query.to(slope_BNRS.dtype)).transpose(1, 2) * layer.scaling
            key_BSNE = rotate_back(key_BSNE, seen.cos, seen.sin)
            # From here on for the visual tokens alone.
            weights_BNRV = seen.weights.gather(-1, visual[:, None, None].expand(-1, *seen.weights.shape[1:3], -1))
            normed_BVD = torch.baddbmm(
                _through(seen.heads, seen.normed, key_BSNE)[samples, visual],
                weights_BNRV.flatten(1, 2).mT,
                slope_BNRD.flatten(1, 2).to(weights_BNRV.dtype),
            )
            gradient_BVD = layer.norm.backward(call.hidden[samples, visual], normed_BVD)
    return torch.linalg.vector_norm(gradient_BVD, dim=-1).double() * log_scale_B.to(gradient_BVD.device)[:, None].exp()


def loss_slope(logits: LogitsBPV) -> tuple[LogitsBPV, Tensor]:
    """∂ proxy loss / ∂ logits, as a slope of order one for each sample and the log of its scale.

    Returns slope [B, P, V] in the dtype of the logits, and log_scale [B] in float64. The derivative is
    slope · exp(log_scale). For a confident row the derivative (softmax − one-hot) is tiny, and at the label it is a
    difference of nearly equal numbers. So the label's entry is computed as minus the sum of the others, and the scale
    that all entries of a sample share is taken out.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    label_BP1 = wide.argmax(dim=-1, keepdim=True)
    others_BPV = wide.log_softmax(dim=-1).scatter_(-1, label_BP1, -torch.inf)
    # With a vocabulary of one, or a label that is infinitely ahead, the loss depends on nothing: the slope is zero.
    log_scale_B11 = others_BPV.amax(dim=(1, 2), keepdim=True).clamp_min_(torch.finfo(wide.dtype).min)
    slope_BPV = others_BPV.sub_(log_scale_B11).exp_()
    slope_BPV.scatter_(-1, label_BP1, slope_BPV.sum(dim=-1, keepdim=True).neg_())
    batch, rows = logits.shape[:2]
    return slope_BPV.div_(rows).to(logits.dtype), log_scale_B11.flatten().double() - log(batch)


def _through(heads_BSNE: Tensor, normed_BSD: Tensor, slope_BSNE: Tensor) -> Tensor:
    """∂ loss / ∂ normed, [B, S, D], back through the key module from `slope` = ∂ loss / ∂ heads.

    In half precision autograd runs at a scale of one, so that nothing underflows.
    """
    if not heads_BSNE.requires_grad:
        raise UnsupportedModel(
            "the key projection of the probed layer gives no gradient (it may be quantised for inference only): choose "
            "a method that needs none, such as fastv or divprune"
        )
    if slope_BSNE.dtype == heads_BSNE.dtype:
        return torch.autograd.grad(heads_BSNE, normed_BSD, slope_BSNE)[0]
    peak_B1 = slope_BSNE.flatten(1).abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(slope_BSNE.dtype).tiny)
    peak_B111 = peak_B1[:, :, None, None]
    (back,) = torch.autograd.grad(heads_BSNE, normed_BSD, (slope_BSNE / peak_B111).to(heads_BSNE.dtype))
    return back.to(slope_BSNE.dtype) * peak_B1[..., None]


def _finish_rows(layer: AttentionLayer, sums_BNRD: Tensor, residual_BPD: Tensor) -> Tensor:
    """The layer's output at the supervised rows [B, P, D], from the weighted sums of normed hidden rows."""
    rows, key_heads = residual_BPD.shape[1], sums_BNRD.shape[1]
    # Every sum passes the whole value module; of its output a sum reads only its own key head.
    values_BNRNE = layer.value(sums_BNRD.flatten(1, 2)).unflatten(1, (key_heads, -1))
    attended_BNRE = values_BNRNE.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)
    attended_BPHE = attended_BNRE.unflatten(2, (-1, rows)).flatten(1, 2).transpose(1, 2)
    return layer.finish(residual_BPD, layer.output(attended_BPHE.flatten(2)))
