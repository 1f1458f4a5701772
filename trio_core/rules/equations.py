"""TRIO equation by equation (arXiv 2602.04657): the plain form, which checks everything faster.

The paper's names, in its section "Layer-local Proxy Loss and Gradient Saliency":

- L^l, the proxy loss at layer l (Eq. 2);
- Z^l = Head(Norm(H^l)), its logits, and ŷ, its pseudo-labels (Eq. 3);
- G^(l − 1) = ∂L^l / ∂H^(l − 1), its gradient (Eq. 4);
- s_i^l, the saliency of token i (Eq. 5).

In "Gradient-based Visual Token Selection with NMS": u_j, a normalised feature (Eq. 6), S_ij, a similarity (Eq. 7), and
Algorithm 1. The caller decides which layer is probed and which rows are supervised (`methods/trio.py`).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from trio_core.spans import span
from trio_core.tensors import FeaturesND, HiddenBSD, KeptK, LogitsBPV, Loss, ScoresBS, ScoresN, with_gradient


def proxy_loss(logits: LogitsBPV) -> Loss:
    """L^l of Eq. 2: the mean cross-entropy of each supervised row against its own argmax, the pseudo-label of Eq. 3.

    Computed in float32, or float64 for float64 logits. The pseudo-label carries no gradient.

    logits: [B, P, V], the head's output at the P supervised rows.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    pseudo_labels = logits.argmax(dim=-1)
    return F.cross_entropy(logits.flatten(0, 1), pseudo_labels.flatten())


def saliency(readout: Callable[[HiddenBSD], LogitsBPV], hidden: HiddenBSD) -> ScoresBS:
    """[B, S], s_i of Eq. 5: the L2 norm of the proxy loss's gradient at each token (Eq. 4), by autograd.

    Scores are float32, or float64 for float64 inputs. The loss is a mean over the batch, so a sample's scores scale
    with 1 / B, which changes no ranking. It works under `torch.no_grad` and `torch.inference_mode`, and leaves `hidden`
    and all weights without gradients.

    readout: hidden states [B, S, D] that enter the probed layer → logits [B, P, V] at the supervised rows. It is
        head(norm(layer(·))), Z^l of Eq. 3.
    hidden: [B, S, D], the input of the probed layer.
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
    """[K], ascending: Algorithm 1 as printed. Stage I is greedy suppression, stage II completes by score.

    scores: [N], the saliencies s. Ties go to the lower index.
    features: [N, D], the v_j of Eq. 6, not normalised.
    budget: K in 1 … N.
    threshold: τ.
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
    others = [i for i in order if i not in selected]
    selected += others[: budget - len(selected)]
    return torch.tensor(sorted(selected), dtype=torch.long, device=scores.device)
