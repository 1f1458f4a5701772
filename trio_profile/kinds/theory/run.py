"""The kind `theory`: the bound's term of a removal, the measured divergence, and two saliencies at each layer.

Paper: arXiv 2602.04657, "Theoretical Analysis" and the appendix "Proof of the Output Distribution Shift Bound":

    KL(P(Y | X, V) ‖ P(Y | X, Ṽ))  ≤  C · (Σ_{i ∈ D^l} s_i^l · ‖h_i^{l−1}‖₂)²        (eq:kl_bound_main)

with D^l the tokens removed at layer l, s_i^l their saliency, h_i^{l−1} what enters the layer, C a constant
of the model. The paper's proof sets the hidden states of removed tokens to zero. Here the tokens are really dropped, as
the paper's method does.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trio_core.methods.method import Method
from trio_core.methods.random import Random
from trio_core.methods.trio import Trio
from trio_core.methods.view import Rows, Selection, View
from trio_core.pruning import prune
from trio_core.rules.saliency import loss_slope
from trio_core.rules.schedule import check_layers
from trio_core.rules.selection import top_k
from trio_core.tensors import with_gradient
from trio_profile.engine.plan import resolve
from trio_profile.errors import StudyError
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import collect, open_session
from trio_profile.inputs.questions import FEWEST, pictures_of
from trio_profile.inputs.workload import Workload, placed
from trio_profile.judge.planned import Preview
from trio_profile.kinds.theory.document import (
    Removal,
    TheoryDocument,
    Values,
    agreement_trend,
    benchmarks,
    by_depth,
    stage,
)
from trio_profile.profilers.fidelity import SEEDS, kl_nats
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.documents import write_document
from trio_profile.records.schema import Session, Study
from trio_profile.study.kinds import find


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


Observed = tuple[ByLayer, list[Removal]]
"""The measurements of one question: the saliency at each layer, and the divergence after tokens were removed."""


@dataclass(frozen=True)
class Questionnaire:
    """A study of the theory, ready to run.

    layers: tokens are removed after each of these alone.
    total: number of questions or pictures.
    """

    study: Study
    workload: Workload
    trio: Trio
    layers: tuple[int, ...]
    total: int


def run(study: Study, directory: Path | None = None, watch: Watch = ignore) -> TheoryDocument:
    """Test the theory on a study's questions. Its retentions are the shares that are kept after one layer alone.

    directory: if the study is interrupted, the document of the finished questions is written here.
    Raises StudyError if the model or the questions cannot be used. Raises OptionError if an option has no meaning here.
    """
    ready = _questionnaire(study, watch)
    session = open_session(study.device, inputs=input_digests(study))
    observed: list[Observed] = []
    try:
        for question in _observe(ready):
            observed.append(question)
            watch(Step(f"{len(observed)} of {ready.total} questions", len(observed), ready.total))
    except BaseException:
        if directory is not None and len(observed) >= FEWEST:
            write_document(directory / find(study.verb).file, _document(ready, session, observed))
        raise
    return _document(ready, session, observed)


def preview(study: Study, watch: Watch = ignore) -> Preview:
    """Return the expected time of a study, from two of its questions. It has no cells. Raises what `run` raises."""
    imports, start = process_time(), perf_counter()
    ready = _questionnaire(study, watch)
    load = imports + perf_counter() - start
    watch(Step("timing two questions"))
    questions = _observe(ready)
    next(questions)
    start = perf_counter()
    next(questions)
    seconds = load + ready.total * (perf_counter() - start)
    return Preview(
        environment=collect(study.device), study=ready.study, shape=ready.workload.shape, cells=(), seconds=seconds
    )


def _questionnaire(study: Study, watch: Watch) -> Questionnaire:
    questions = study.fidelity_inputs or 0
    if questions < FEWEST:
        raise StudyError(f"--asked {questions}: an interval over questions needs at least {FEWEST}")
    study = study.model_copy(update={"batch": 1})
    watch(Step(f"loading {study.model}"))
    # The method's own retention is not used here, so any valid one is given.
    plan = resolve(study.model_copy(update={"retentions": (1.0,)}))
    workload = plan.workload
    if 0 < len(workload.questions) < FEWEST:
        where = ", ".join(study.question_files) or study.image or study.model
        raise StudyError(f"{where}: {len(workload.questions)} questions; an interval over them needs at least {FEWEST}")
    trio = plan.cells[0].method
    assert isinstance(trio, Trio), "a study of this kind takes no other method"
    depth = workload.shape.num_layers
    layers = tuple(trio.default_layers(depth) if study.layers is None else study.layers)
    check_layers(layers, depth)
    return Questionnaire(study, workload, trio, layers, len(workload.questions) or questions)


def _observe(ready: Questionnaire) -> Iterator[Observed]:
    """Yield the measurements of each question."""
    study, workload, trio = ready.study, ready.workload, ready.trio
    for number, sample in enumerate(inputs(workload, study.fidelity_inputs or 0, study.seed)):
        saliency, shares = by_layer(workload, sample, trio.k_pos, trio.rows), sorted(set(study.retentions))
        places = {"layers": ready.layers, "shares": shares, "question": number, "seed": study.seed}
        yield saliency, list(removals(workload, sample, saliency, trio, **places))


def _document(ready: Questionnaire, session: Session, observed: list[Observed]) -> TheoryDocument:
    """Return the document of the observed questions."""
    study, trio = ready.study, ready.trio
    removed = [removal for _, of_question in observed for removal in of_question]
    current, last = ([getattr(saliency, name) for saliency, _ in observed] for name in ("current", "last"))
    questions = ready.workload.questions[: len(observed)]
    pictures = pictures_of(questions)
    names = [question.benchmark or question.kind for question in questions]
    visual_tokens = [saliency.shape[1] for saliency in current]
    return TheoryDocument(
        sessions=(session,),
        environment=session.environment,
        study=study,
        questions=len(observed),
        planned=ready.total,
        visual_tokens=visual_tokens[0],
        visual_tokens_range=(min(visual_tokens), max(visual_tokens)),
        probe=trio.probe,
        rows=trio.rows,
        k_pos=trio.k_pos,
        stages=tuple(stage(layer, removed, study.seed, pictures) for layer in ready.layers),
        layers=by_depth(current, last, study.seed, pictures, names),
        agreement_trend=agreement_trend(current, last, study.seed, pictures),
        benchmarks=benchmarks(names, visual_tokens, pictures),
    )


# --- one question ---------------------------------------------------------------------------------------------------


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
