"""TRIO equation by equation: the plain form, kept readable and used as the oracle of everything faster.

Paper: arXiv 2602.04657, section "Layer-local Proxy Loss and Gradient Saliency" and Algorithm 1. The public code is
ocy1/TRIO at ec85d99, `llava/model/modeling_llama_x.py::LlamaModel.layer_prune`; where the two differ, the caller says
which rows and which layer are meant (`Trio(rows=…, probe=…)`), the mathematics here is the same.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from trio_core.spans import span
from trio_core.tensors import FeaturesND, HiddenBSD, KeptK, LogitsBPV, Loss, ScoresBS, ScoresN, with_gradient


def proxy_loss(logits: LogitsBPV) -> Loss:
    """Mean cross-entropy of each supervised row against its own argmax, in float32 (float64 stays float64).

    logits: [B, P, V], the head's output at the P supervised rows. The pseudo-label carries no gradient.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    pseudo_labels = logits.argmax(dim=-1)
    return F.cross_entropy(logits.flatten(0, 1), pseudo_labels.flatten())


def saliency(readout: Callable[[HiddenBSD], LogitsBPV], hidden: HiddenBSD) -> ScoresBS:
    """s_i = ‖∂ proxy_loss(readout(hidden)) / ∂ hidden_i‖₂ for each token i, by autograd.

    readout: hidden states [B, S, D] that enter the probed layer → logits [B, P, V] at the supervised rows, that is
    head(norm(layer(·))). Works under `torch.no_grad` and `torch.inference_mode`; leaves `hidden` and all weights
    without gradients. Scores are float32 (float64 for float64 inputs); the loss is a mean over the batch, so the
    scores of one sample scale with 1/B, which changes no ranking.
    """
    with torch.inference_mode(False), torch.enable_grad():
        probed = with_gradient(hidden)
        with span("proxy_forward"):
            logits = readout(probed)
        with span("proxy_loss"):
            loss = proxy_loss(logits)
        with span("backward"):
            (gradient,) = torch.autograd.grad(loss, probed)
    return gradient.to(torch.promote_types(gradient.dtype, torch.float32)).norm(dim=-1)


def nms_select(scores: ScoresN, features: FeaturesND, budget: int, threshold: float = 0.8) -> KeptK:
    """Algorithm 1 as printed: greedy suppression in the order of the scores, then completion by score.

    scores: [N]; features: [N, D], not normalised; returns `budget` indices, ascending. Ties go to the lower index.
    """
    unit = F.normalize(features.to(torch.promote_types(features.dtype, torch.float32)), dim=-1)
    order = scores.argsort(descending=True, stable=True).tolist()
    suppressed = torch.zeros(len(order), dtype=torch.bool, device=features.device)
    selected: list[int] = []
    for i in order:
        if len(selected) >= budget:
            break
        if not suppressed[i]:
            selected.append(i)
            suppressed |= unit @ unit[i] >= threshold
    for i in order:
        if len(selected) >= budget:
            break
        if i not in selected:
            selected.append(i)
    return torch.tensor(sorted(selected), dtype=torch.long, device=scores.device)
