"""The kind `theory`: the paper's bound after each stage alone, and two saliencies at each layer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

from trio_core.methods.trio import Trio
from trio_core.rules.schedule import check_layers
from trio_profile.engine.plan import resolve
from trio_profile.errors import StudyError
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import collect, open_session
from trio_profile.inputs.questions import FEWEST, Question, pictures_of
from trio_profile.inputs.workload import Workload
from trio_profile.judge.planned import Preview
from trio_profile.kinds.theory import removals
from trio_profile.kinds.theory.document import Removal, TheoryDocument, agreement_trend, benchmarks, by_depth, stage
from trio_profile.kinds.theory.removals import ByLayer
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.documents import write_document
from trio_profile.records.schema import Session, Study
from trio_profile.study.kinds import find


@dataclass(frozen=True)
class Observed:
    """The measurements of one question.

    by_layer: the saliency at each layer.
    removals: the divergence after tokens were removed.
    """

    by_layer: ByLayer
    removals: tuple[Removal, ...]


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
    layers = _layers(study, trio, workload.shape.num_layers)
    return Questionnaire(study, workload, trio, layers, len(workload.questions) or questions)


def _observe(ready: Questionnaire) -> Iterator[Observed]:
    """Yield the measurements of each question."""
    study, workload, trio = ready.study, ready.workload, ready.trio
    for number, sample in enumerate(removals.inputs(workload, study.fidelity_inputs or 0, study.seed)):
        saliency = removals.by_layer(workload, sample, trio.k_pos, trio.rows)
        removed = removals.removals(
            workload,
            sample,
            saliency,
            trio,
            layers=ready.layers,
            shares=sorted(set(study.retentions)),
            question=number,
            seed=study.seed,
        )
        yield Observed(saliency, tuple(removed))


def _layers(study: Study, trio: Trio, num_layers: int) -> tuple[int, ...]:
    """Return the study's pruning layers, or TRIO's defaults. Raises OptionError if the model has no such layer."""
    layers = trio.default_layers(num_layers) if study.layers is None else study.layers
    check_layers(layers, num_layers)
    return tuple(layers)


def benchmarks_of(questions: Sequence[Question]) -> tuple[str, ...]:
    """Return the benchmark of each question: the name of its file if there are several files, otherwise its kind."""
    return tuple(question.benchmark or question.kind for question in questions)


def _document(ready: Questionnaire, session: Session, observed: list[Observed]) -> TheoryDocument:
    """Return the document of the observed questions."""
    study, trio = ready.study, ready.trio
    removed = [removal for question in observed for removal in question.removals]
    current = [question.by_layer.current for question in observed]
    last = [question.by_layer.last for question in observed]
    questions = ready.workload.questions[: len(observed)]
    pictures, names = pictures_of(questions), benchmarks_of(questions)
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
