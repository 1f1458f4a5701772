"""TRIO's saliency from the supervised rows alone: equal to autograd through the whole layer, to rounding.

The paper differentiates the proxy loss through all rows of the probed layer (section "Layer-local Proxy Loss and
Gradient Saliency"). The loss reads only the supervised rows, and a visual token reaches them only through its own key
and value. So we compute the layer for the supervised rows alone:

- Keys are projected for every token, by the model's module.
- Values are not. A value module is affine and the weights a_j of a row sum to 1, so Σ_j a_j v(x_j) = v(Σ_j a_j x_j).
  That takes P · H sums of hidden rows instead of a projection of every token. Only where values are normed, as in Gemma
  4, they are projected for every token too.
- Autograd goes back through the supervised rows' path (softmax, values, output, FFN, norms, head) and through the key
  projection. The rotary embedding and the first norm are differentiated by hand. Their tensors are as large as the
  hidden states in float32. On a CPU they are computed in blocks of tokens that stay in its cache.

Shapes: as in `attention.py`. V is the number of visual tokens, P of supervised rows. In logits, V is the vocabulary.
`tests/core/rules/test_saliency.py` checks it against `equations.saliency` in every family.
"""

from math import log

import torch
from torch import Tensor

from trio_core.rules.attention import Attended, AttentionLayer, LayerCall, Readout, attend, rotate_back
from trio_core.rules.checks import check_gradient
from trio_core.spans import span
from trio_core.tensors import (
    LogitsBPV,
    MaskBS,
    Places,
    ScoresBN,
    differentiable,
    in_cache,
    rows_at,
    wide_type,
    with_gradient,
)

_VALUES = "the value projection of the probed layer"


def tail_saliency(call: LayerCall, readout: Readout, rows: Places, valid: MaskBS, visual: Places) -> ScoresBN:
    """[B, V], float64: s_i = ‖∂ proxy loss / ∂ hidden_i‖₂ (Eq. 4 and 5) for the tokens at `visual`.

    The loss is a mean over B · P rows, as in `equations.saliency`. The gradient is computed at a scale that no
    half-precision type loses; float64 holds the tiny scores of a confident pseudo-label.

    call: the probed layer at its input [B, S, D].
    readout: final norm and head.
    rows: [B, P] or a slice, the supervised rows. None of them is visual.
    valid: [B, S], False at padding.
    visual: [B, V] or a slice, places of the visual tokens.

    Raises UnsupportedModel for a part of the layer that autograd cannot differentiate.
    """
    with torch.inference_mode(False), torch.no_grad():
        with span("proxy_forward"):
            seen = attend(call, rows, valid, differentiable_keys=True)
            layer, normed_BSD = seen.layer, seen.normed.detach()
            residual_BPD = differentiable(rows_at(call.hidden, rows))
            with torch.enable_grad():
                scores_BNRS = with_gradient(seen.scores)
                weights_BNRS = scores_BNRS.softmax(dim=-1)
                values_BSNE = None if layer.affine else check_gradient(_VALUES, seen.normed, layer.value(seen.normed))
                if values_BSNE is None:
                    summed = weights_BNRS.to(normed_BSD.dtype).flatten(1, 2) @ normed_BSD  # [B, M, D]
                    attended_BNRE = _values_of_sums(layer, summed.view(*weights_BNRS.shape[:3], -1))
                else:
                    summed = with_gradient(values_BSNE)
                    attended_BNRE = weights_BNRS.to(summed.dtype) @ summed.transpose(1, 2)
                logits_BPV = readout(_finish_rows(layer, attended_BNRE, residual_BPD))
        with span("proxy_loss"):
            slope_BPV, log_scale_B = loss_slope(logits_BPV.detach())
        with span("backward"):
            slope_BNRS, slope = torch.autograd.grad(logits_BPV, (scores_BNRS, summed), slope_BPV)
            through_BSD = _through_keys(seen, slope_BNRS)
            weights_BSM = weights_BNRS.detach().flatten(1, 2).mT
            if values_BSNE is None:
                slope = slope.to(weights_BSM.dtype)
            else:
                through_BSD = through_BSD + _through(values_BSNE, seen.normed, slope)
            count = visual.stop - visual.start if isinstance(visual, slice) else visual.shape[1]
            lengths = []
            for block in in_cache(normed_BSD, count):
                places = _block_of(visual, block)
                slope_BVD = rows_at(through_BSD, places).to(weights_BSM.dtype)
                if values_BSNE is None:
                    slope_BVD = torch.baddbmm(slope_BVD, rows_at(weights_BSM, places), slope)
                lengths.append(layer.norm.slope_lengths(rows_at(call.hidden, places), slope_BVD))
            length_BV = lengths[0] if len(lengths) == 1 else torch.cat(lengths, dim=1)
    return length_BV * log_scale_B.to(length_BV.device)[:, None].exp()


def loss_slope(logits: LogitsBPV) -> tuple[LogitsBPV, Tensor]:
    """∂ proxy loss / ∂ logits, as a slope of order one for each sample and the log of its scale.

    Returns slope [B, P, V] in the dtype of the logits, and log_scale [B] in float64. The derivative is
    slope · exp(log_scale). For a confident row the derivative (softmax − one-hot) is tiny, and at the label it is a
    difference of nearly equal numbers. So the label's entry is computed as minus the sum of the others, and the scale
    that all entries of a sample share is taken out.
    """
    wide = logits.to(wide_type(logits))
    label_BP1 = wide.argmax(dim=-1, keepdim=True)
    others_BPV = wide.log_softmax(dim=-1).scatter_(-1, label_BP1, -torch.inf)
    # With a vocabulary of one, or a label that is infinitely ahead, the loss depends on nothing: the slope is zero.
    log_scale_B11 = others_BPV.amax(dim=(1, 2), keepdim=True).clamp_min_(torch.finfo(wide.dtype).min)
    slope_BPV = others_BPV.sub_(log_scale_B11).exp_()
    slope_BPV.scatter_(-1, label_BP1, slope_BPV.sum(dim=-1, keepdim=True).neg_())
    batch, rows, vocabulary = logits.shape
    if vocabulary >= torch.finfo(logits.dtype).max:  # the label's entry may be as large, which float16 cannot hold
        slope_BPV, rows = slope_BPV.div_(vocabulary**0.5), rows / vocabulary**0.5
    return slope_BPV.to(logits.dtype), log_scale_B11.flatten().double() - log(batch * rows)


def _through_keys(seen: Attended, slope_BNRS: Tensor) -> Tensor:
    """∂ loss / ∂ normed, [B, S, D], the part that goes through the keys, from `slope` = ∂ loss / ∂ scores."""
    heads_BSNE, softcap = seen.heads, seen.layer.softcap
    if softcap is not None:
        slope_BNRS = slope_BNRS * (1 - (seen.scores.clamp_min(-softcap) / softcap).square())
    query_BNRE = seen.query.to(slope_BNRS.dtype)
    narrow = heads_BSNE.dtype == torch.float16
    parts = []
    for block in in_cache(heads_BSNE, heads_BSNE.shape[1]):
        slope_BSNE = (slope_BNRS[..., block].mT @ query_BNRE).transpose(1, 2)
        slope_BSNE = rotate_back(slope_BSNE, seen.cos[:, block], seen.sin[:, block])
        parts.append(slope_BSNE if narrow else slope_BSNE.to(heads_BSNE.dtype))
    return _through(heads_BSNE, seen.normed, parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))


def _through(heads_BSNE: Tensor, normed_BSD: Tensor, slope_BSNE: Tensor) -> Tensor:
    """∂ loss / ∂ normed, [B, S, D], the part that goes through keys or values, from `slope` = ∂ loss / ∂ heads."""
    if heads_BSNE.dtype != torch.float16:
        return torch.autograd.grad(heads_BSNE, normed_BSD, slope_BSNE)[0]
    # float16 has a narrow range. So each sample's slope is divided by its largest number before autograd takes it.
    peak_B1 = slope_BSNE.flatten(1).abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(slope_BSNE.dtype).tiny)
    slope_BSNE = (slope_BSNE / peak_B1[:, :, None, None]).to(heads_BSNE.dtype)
    return torch.autograd.grad(heads_BSNE, normed_BSD, slope_BSNE)[0].to(peak_B1.dtype) * peak_B1[..., None]


def _block_of(places: Places, block: slice) -> Places:
    """The places with the numbers block.start … block.stop − 1, where the first place has number 0."""
    if isinstance(places, slice):
        return slice(places.start + block.start, places.start + block.stop)
    return places[:, block]


def _values_of_sums(layer: AttentionLayer, sums_BNRD: Tensor) -> Tensor:
    """[B, N, R, E], the values of sums of normed rows. Raises UnsupportedModel where they have no gradient."""
    # Every sum passes the whole value module; of its output a sum reads only its own key head.
    values_BMNE = check_gradient(_VALUES, sums_BNRD, layer.value(sums_BNRD.flatten(1, 2)))
    return values_BMNE.unflatten(1, (sums_BNRD.shape[1], -1)).diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)


def _finish_rows(layer: AttentionLayer, attended_BNRE: Tensor, residual_BPD: Tensor) -> Tensor:
    """The layer's output at the supervised rows [B, P, D], from what its heads read.

    Raises UnsupportedModel for a projection that autograd cannot differentiate.
    """
    attended_BPO = attended_BNRE.unflatten(2, (-1, residual_BPD.shape[1])).flatten(1, 2).transpose(1, 2).flatten(2)
    output_BPD = check_gradient("the output projection of the probed layer", attended_BPO, layer.output(attended_BPO))
    return layer.finish(residual_BPD, output_BPD)
