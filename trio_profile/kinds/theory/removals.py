"""The paper's theory on one question: the bound's term of a removal, the measured divergence, and saliency by layer.

Paper: arXiv 2602.04657, "Theoretical Analysis" and the appendix "Proof of the Output Distribution Shift Bound":

    KL(P(Y | X, V) ‖ P(Y | X, Ṽ))  ≤  C · (Σ_{i ∈ D^l} s_i^l · ‖h_i^{l−1}‖₂)²        (eq:kl_bound_main)

with D^l the tokens removed at layer l, s_i^l their saliency, h_i^{l−1} what enters the layer, C a constant
of the model. The paper's proof sets the hidden states of removed tokens to zero. Here the tokens are really dropped, as
the paper's method does.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.workload import Workload, placed
from trio_profile.kinds.theory.document import Removal
from trio_profile.profilers.fidelity import SEEDS, kl_nats

Values = NDArray[np.float64]


@dataclass(frozen=True)
class ByLayer:
    """Saliency and norms of one question's N visual tokens in L layers. Row l − 1 belongs to the input of layer l.

    current: [L, N] s_i^l, the norm of the gradient of layer l's own proxy loss (eq:saliency_def).
    last: [L, N] the norm of the gradient of the last layer's loss, through all layers between.
    norms: [L, N] ‖h_i^{l−1}‖₂.
    """

    current: Values
    last: Values
    norms: Values


@dataclass(frozen=True, kw_only=True)
class Lowest(Trio):
    """The reverse of TRIO: it keeps the tokens of the lowest saliency, which the bound says is the worst selection."""

    def select(self, view: View) -> Selection:
        """Select the lowest scores of TRIO's ranking."""
        scores = super().select(view).scores
        assert scores is not None
        kept = (top_k(-own, picture.budget) for own, picture in zip(scores, view.pictures, strict=True))
        return Selection(tuple(kept), scores)


def inputs(workload: Workload, drawn: int, seed: int) -> Iterator[Inputs]:
    """The inputs of each question, one after the other; without questions those of random pictures.

    drawn: number of pictures, the workload's own included.
    """
    for number in range(len(workload.questions)):
        yield placed(workload.inputs_of(number), workload.model)
    if not workload.questions:
        generator = torch.Generator().manual_seed(seed)
        yield workload.inputs
        for _ in range(drawn - 1):
            yield workload.redrawn(generator).inputs


def by_layer(workload: Workload, sample: Inputs, k_pos: int, rows: Rows) -> ByLayer:
    """Saliency at every layer from one dense forward, by autograd.

    sample: the inputs of one sample, without padding.
    k_pos, rows: options of TRIO that say which rows are supervised.
    Raises StudyError if the attention kernel has no backward on this device.
    """
    adapter = workload.adapter
    if adapter.attention == "flex_attention" and workload.device.type == "cpu":
        raise StudyError("attention 'flex_attention' has no backward on a CPU: choose --attention sdpa or eager")
    entering, leaving = list[Tensor](), list[Tensor]()

    def enter(_layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        hidden, rest = (args[0], args[1:]) if args else (kwargs.pop("hidden_states"), ())
        entering.append(hidden if entering else with_gradient(hidden))
        return (entering[-1], *rest), kwargs

    def leave(_layer: nn.Module, _args: Any, output: Any) -> None:
        leaving.append(output[0] if isinstance(output, tuple) else output)

    visual = adapter.visual_tokens(sample["input_ids"])[0].nonzero().squeeze(1)
    end = sample["input_ids"].shape[1] - (1 if rows == "shifted" else 0)
    with torch.inference_mode(False), torch.enable_grad(), _frozen(workload.model):
        with ExitStack() as hooks:
            for layer in adapter.layers:
                hooks.enter_context(layer.register_forward_pre_hook(enter, with_kwargs=True))
                hooks.enter_context(layer.register_forward_hook(leave))
            workload.model(**sample, use_cache=False, logits_to_keep=1)
        logits = [adapter.readout(hidden[:, end - k_pos : end]) for hidden in leaving]
        current = [_saliency(own, [hidden], visual)[0] for own, hidden in zip(logits, entering, strict=True)]
        last = _saliency(logits[-1], entering, visual)
    norms = [_norms(hidden.detach()[0, visual]) for hidden in entering]
    return ByLayer(*(torch.stack(values).cpu().numpy() for values in (current, last, norms)))


def removals(
    workload: Workload,
    sample: Inputs,
    saliency: ByLayer,
    trio: Trio,
    *,
    layers: Sequence[int],
    shares: Sequence[float],
    question: int,
    seed: int,
) -> Iterator[Removal]:
    """Remove tokens after one layer, for several layers, several selections and several kept shares.

    saliency: of this sample at each layer, with norms.
    trio: its options, and the layer that it probes.
    layers: 1-based; tokens are removed after one of them at a time.
    shares: kept shares of the picture's tokens.
    question: the number of the question.
    """
    dense = _next_token(workload, sample)
    for layer in layers:
        probed = layer - 1 if trio.probe == "current" else layer
        norms = saliency.norms[probed]
        costs = saliency.current[probed] * norms
        for share in shares:
            for selection, method in selections(trio, layer, share, seed + SEEDS * question):
                with prune(workload.model, method) as trace:
                    pruned = _next_token(workload, sample)
                [kept] = trace.stages[0].kept
                removed = np.ones(len(norms), dtype=bool)
                removed[kept.cpu().numpy()] = False
                yield Removal(
                    question=question,
                    layer=layer,
                    selection=selection,
                    kept=len(kept),
                    bound=float(costs[removed].sum() ** 2),
                    norms=float(norms[removed].sum() ** 2),
                    kl_nats=kl_nats(dense, pruned)[0],
                )


def selections(trio: Trio, layer: int, share: float, seed: int) -> Iterator[tuple[str, Method]]:
    """The selections by name: TRIO, TRIO without NMS, the reversed ranking, and random draws."""
    options: dict[str, Any] = {field.name: getattr(trio, field.name) for field in fields(trio)}
    options |= {"layers": (layer,), "retention": share, "budget_rule": "after-prune"}
    own = Trio(**options)
    yield "trio", own
    yield "highest saliency", replace(own, nms=False)
    yield "lowest saliency", Lowest(**options)
    shared = {field.name: options[field.name] for field in fields(Method)}
    for draw in range(SEEDS):  # each question has other random tokens
        yield "random", Random(**shared, seed=seed + draw)


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Weights without gradients for a while. Autograd then keeps no inputs of theirs, a third of its memory."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    try:
        for weight in weights:
            weight.requires_grad_(False)
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


def _saliency(logits: Tensor, hidden: Sequence[Tensor], visual: Tensor) -> list[Tensor]:
    """[N] the norm of the proxy loss's gradient at the visual tokens, for each hidden state [1, S, D]."""
    # The gradient is scaled as in TRIO's own saliency, so that it does not vanish for a confident model.
    slope, log_scale = loss_slope(logits.detach())
    gradients = torch.autograd.grad(logits, hidden, slope, retain_graph=True)
    return [_norms(gradient[0, visual]) * log_scale.exp() for gradient in gradients]


def _norms(rows: Tensor) -> Tensor:
    return rows.to(torch.promote_types(rows.dtype, torch.float32)).norm(dim=-1).double()


@torch.no_grad()
def _next_token(workload: Workload, sample: Inputs) -> Tensor:
    """[1, V] the log-probabilities of the next token."""
    return workload.model(**sample, use_cache=False, logits_to_keep=1).logits[:, -1].double().log_softmax(dim=-1)
