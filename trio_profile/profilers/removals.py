"""The paper's theory on one question: what its bound says of a removal and what removing did; saliency by depth.

Paper: arXiv 2602.04657, "Theoretical Analysis" and the appendix "Proof of the Output Distribution Shift Bound":

    KL(P(Y | X, V) ‖ P(Y | X, Ṽ))  ≤  C · (Σ_{i ∈ D^l} s_i^l · ‖h_i^{l−1}‖₂)²        (eq:kl_bound_main)

with D^l the tokens removed at layer l, s_i^l their saliency, h_i^{l−1} what enters the layer, C a constant
of the model. The paper's removal sets hidden states to zero; here tokens are really dropped, as its method does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trio_core.methods.method import Method
from trio_core.methods.random import Random
from trio_core.methods.trio import Trio
from trio_core.methods.view import Rows, Selection, View
from trio_core.pruning import prune
from trio_core.rules.saliency import loss_slope
from trio_core.rules.selection import top_k
from trio_core.tensors import with_gradient
from trio_profile.errors import StudyError
from trio_profile.inputs.models import Inputs
from trio_profile.inputs.workload import Workload, placed
from trio_profile.profilers.fidelity import SEEDS, kl_nats
from trio_profile.records.schema import Removal

Values = NDArray[np.float64]


@dataclass(frozen=True)
class ByLayer:
    """Of one question's N visual tokens in L layers: row l − 1 of each [L, N] is of what enters layer l.

    current: s_i^l, the norm of the gradient of layer l's own proxy loss (eq:saliency_def). last: the same gradient of
    the last layer's loss, which is the model's own, through all layers between. norms: ‖h_i^{l−1}‖₂.
    """

    current: Values
    last: Values
    norms: Values


@dataclass(frozen=True, kw_only=True)
class Lowest(Trio):
    """TRIO upside down: keeps what has the least saliency, of all choices the one that the bound thinks worst."""

    def select(self, view: View) -> Selection:
        """The other end of TRIO's own ranking."""
        scores = super().select(view).scores
        assert scores is not None
        kept = (top_k(-own, picture.budget) for own, picture in zip(scores, view.pictures, strict=True))
        return Selection(tuple(kept), scores)


def inputs(workload: Workload, drawn: int, seed: int) -> Iterator[Inputs]:
    """One sample after the other: the workload's questions; without them its own picture and further drawn ones."""
    for number in range(len(workload.questions)):
        yield placed(workload.asked(number), workload.model)
    if not workload.questions:
        generator = torch.Generator().manual_seed(seed)
        yield workload.inputs
        for _ in range(drawn - 1):
            yield workload.redrawn(generator).inputs


def by_layer(workload: Workload, sample: Inputs, k_pos: int, rows: Rows) -> ByLayer:
    """Saliency at every layer from one dense forward, by autograd. sample: one, without padding.

    Raises StudyError for an attention kernel that cannot be differentiated here.
    """
    adapter = workload.adapter
    if adapter.attention == "flex_attention" and workload.device.type == "cpu":
        raise StudyError("attention 'flex_attention' has no way back on a CPU: choose --attention sdpa or eager")
    entering, leaving = list[Tensor](), list[Tensor]()

    def enter(_layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        hidden, rest = (args[0], args[1:]) if args else (kwargs.pop("hidden_states"), ())
        entering.append(hidden if entering else with_gradient(hidden))
        return (entering[-1], *rest), kwargs

    def leave(_layer: nn.Module, _args: Any, output: Any) -> None:
        leaving.append(output[0] if isinstance(output, tuple) else output)

    visual = adapter.visual_tokens(sample["input_ids"])[0].nonzero().squeeze(1)
    end = sample["input_ids"].shape[1] - (1 if rows == "shifted" else 0)
    handles = [layer.register_forward_pre_hook(enter, with_kwargs=True) for layer in adapter.layers]
    handles += [layer.register_forward_hook(leave) for layer in adapter.layers]
    with torch.inference_mode(False), torch.enable_grad():
        try:
            workload.model(**sample, use_cache=False, logits_to_keep=1)
        finally:
            for handle in handles:
                handle.remove()
        logits = [adapter.readout(hidden[:, end - k_pos : end]) for hidden in leaving]
        current = [_saliency(own, [hidden], visual)[0] for own, hidden in zip(logits, entering, strict=True)]
        last = _saliency(logits[-1], entering, visual)
    norms = [_norms(hidden.detach()[0, visual]) for hidden in entering]
    return ByLayer(*(torch.stack(values).cpu().numpy() for values in (current, last, norms)))


def removals(
    workload: Workload,
    sample: Inputs,
    found: ByLayer,
    trio: Trio,
    *,
    layers: Sequence[int],
    shares: Sequence[float],
    question: int,
    seed: int,
) -> Iterator[Removal]:
    """Remove tokens after one of `layers` alone, by several choices, keeping each of `shares` of the picture.

    The bound's saliency and norms are those of the layer that `trio` probes there.
    """
    dense = _next_token(workload, sample)
    for layer in layers:
        probed = layer - 1 if trio.probe == "current" else layer
        norms = found.norms[probed]
        costs = found.current[probed] * norms
        for share in shares:
            for choice, method in choices(trio, layer, share, seed + SEEDS * question):
                with prune(workload.model, method) as trace:
                    pruned = _next_token(workload, sample)
                [kept] = trace.stages[0].kept
                removed = np.ones(len(norms), dtype=bool)
                removed[kept.cpu().numpy()] = False
                yield Removal(
                    question=question,
                    layer=layer,
                    choice=choice,
                    kept=len(kept),
                    bound=float(costs[removed].sum() ** 2),
                    norms=float(norms[removed].sum() ** 2),
                    kl_nats=kl_nats(dense, pruned)[0],
                )


def choices(trio: Trio, layer: int, share: float, seed: int) -> Iterator[tuple[str, Method]]:
    """What to keep, by name: TRIO's own, its ranking without NMS, that ranking upside down, and random draws."""
    options: dict[str, Any] = {field.name: getattr(trio, field.name) for field in fields(trio)}
    options |= {"layers": (layer,), "retention": share, "budget_rule": "after-prune"}
    own = Trio(**options)
    yield "trio", own
    yield "highest saliency", replace(own, nms=False)
    yield "lowest saliency", Lowest(**options)
    shared = {field.name: options[field.name] for field in fields(Method)}
    for draw in range(SEEDS):  # other tokens on each question, so that no one draw speaks for all
        yield "random", Random(**shared, seed=seed + draw)


def _saliency(logits: Tensor, hidden: Sequence[Tensor], visual: Tensor) -> list[Tensor]:
    """[N] of each hidden [1, S, D]: the norm of the proxy loss's gradient at the visual tokens."""
    # At a scale that no confident label loses, as TRIO's own saliency has it.
    slope, log_scale = loss_slope(logits.detach())
    gradients = torch.autograd.grad(logits, hidden, slope, retain_graph=True)
    return [_norms(gradient[0, visual]) * log_scale.exp() for gradient in gradients]


def _norms(rows: Tensor) -> Tensor:
    return rows.to(torch.promote_types(rows.dtype, torch.float32)).norm(dim=-1).double()


@torch.no_grad()
def _next_token(workload: Workload, sample: Inputs) -> Tensor:
    """[1, V] log-probabilities."""
    return workload.model(**sample, use_cache=False, logits_to_keep=1).logits[:, -1].double().log_softmax(dim=-1)
