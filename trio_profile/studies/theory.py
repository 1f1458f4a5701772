"""The paper's theory on a model's questions: its bound after each stage alone, its two saliencies at every layer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trio_core.errors import OptionError
from trio_core.methods.trio import Trio
from trio_core.rules.schedule import check_layers
from trio_profile.analysis.theory import TheoryDocument, agreement_trend, by_depth, stage
from trio_profile.errors import StudyError
from trio_profile.inputs.environment import collect
from trio_profile.inputs.questions import FEWEST
from trio_profile.inputs.workload import Workload, build
from trio_profile.profilers import removals as theory
from trio_profile.profilers.removals import ByLayer
from trio_profile.records.schema import Environment, Removal, Study
from trio_profile.studies.plan import plan

ASKED = 30
"""Questions, where nothing else is said."""
SHARES = (0.05, 0.11, 0.33, 0.66)
"""Of the visual tokens that are kept after the one stage, where nothing else is said."""


@dataclass(frozen=True)
class Observed:
    """One question: saliency at every layer, and what removing tokens did."""

    by_layer: ByLayer
    removals: tuple[Removal, ...]


def run(
    study: Study,
    *,
    watch: Callable[[int, int, str], None] | None = None,
    keep: Callable[[TheoryDocument], None] | None = None,
) -> TheoryDocument:
    """Ask a study's questions. Its retentions are the shares kept after each of its layers alone.

    keep: what is done with the document of the finished questions where something breaks off the rest of them.
    Raises StudyError for a model or for questions that cannot be used, OptionError for options without meaning here.
    """
    asked = ASKED if study.fidelity_inputs is None else study.fidelity_inputs
    if asked < FEWEST:
        raise StudyError(f"--asked {asked}: an interval over questions needs at least {FEWEST}")
    study = study.model_copy(update={"fidelity_inputs": asked, "batch": 1})
    workload = build(study)
    if 0 < len(workload.questions) < FEWEST:
        where = study.questions or study.image or study.model
        raise StudyError(f"{where}: {len(workload.questions)} questions; an interval over them needs at least {FEWEST}")
    trio = _trio(study, workload)
    layers = _layers(study, trio, workload.shape.num_layers)
    here, total = collect(study.device), len(workload.questions) or asked
    seen: list[Observed] = []

    def document() -> TheoryDocument:
        return _document(study, here, trio, layers, seen)

    try:
        for one in _observe(workload, study, trio, layers, asked):
            seen.append(one)
            if watch is not None:
                watch(len(seen), total, "questions")
    except BaseException:
        if keep is not None and len(seen) >= FEWEST:
            keep(document())
        raise
    return document()


def _observe(workload: Workload, study: Study, trio: Trio, layers: tuple[int, ...], asked: int) -> Iterator[Observed]:
    for number, sample in enumerate(theory.inputs(workload, asked, study.seed)):
        found = theory.by_layer(workload, sample, trio.k_pos, trio.rows)
        removals = theory.removals(
            workload,
            sample,
            found,
            trio,
            layers=layers,
            shares=sorted(set(study.retentions)),
            question=number,
            seed=study.seed,
        )
        yield Observed(found, tuple(removals))


def _trio(study: Study, workload: Workload) -> Trio:
    """TRIO with the study's options: whose saliency it is, and whose choice."""
    # Its own retention is of no account here; any that a schedule can meet will do.
    method = plan(study.model_copy(update={"retentions": (1.0,)}), workload.shape)[0].method
    if not isinstance(method, Trio):
        raise OptionError(f"method {method.name!r}: the theory is TRIO's; leave the method out")
    if method.tokens != "visual":
        raise OptionError("the bound is over visual tokens: leave the option tokens out")
    return method


def _layers(study: Study, trio: Trio, num_layers: int) -> tuple[int, ...]:
    layers = trio.default_layers(num_layers) if study.layers is None else study.layers
    check_layers(layers, num_layers)
    return tuple(layers)


def _document(
    study: Study, here: Environment, trio: Trio, layers: tuple[int, ...], seen: list[Observed]
) -> TheoryDocument:
    removals = [removal for one in seen for removal in one.removals]
    current, last = [one.by_layer.current for one in seen], [one.by_layer.last for one in seen]
    return TheoryDocument(
        environment=here,
        study=study,
        questions=len(seen),
        visual_tokens=current[0].shape[1],
        probe=trio.probe,
        rows=trio.rows,
        k_pos=trio.k_pos,
        stages=tuple(stage(layer, removals, study.seed) for layer in layers),
        layers=by_depth(current, last, study.seed),
        agreement_trend=agreement_trend(current, last, study.seed),
    )
