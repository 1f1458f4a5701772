"""The kind `eval`: accuracy, work and time of several cells and of the dense model on lmms-eval's tasks.

All answer a question before the next question, in random order, so the dense model answers each question once. Then
lmms-eval scores the answers of each. Each answer is kept as soon as it is given (`answers.py`), and a later session
goes on from there.
"""

from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from trio_profile.engine.plan import PlannedCell, resolve
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.kinds.evaluation.answering import Answerer
from trio_profile.kinds.evaluation.answers import DENSE, AnswerStore
from trio_profile.kinds.evaluation.document import EvaluatedCell, Evaluation, Refusal
from trio_profile.kinds.evaluation.lmms import Model, Tasks
from trio_profile.kinds.evaluation.suites import chosen
from trio_profile.kinds.evaluation.summary import columns, evaluate_row, scores
from trio_profile.profilers.clock import Clock
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.files import SUBMISSIONS
from trio_profile.records.schema import Study


def run(
    study: Study, directory: Path | None = None, watch: Watch = ignore, *, clock: Clock | None = None
) -> Evaluation:
    """Evaluate the study's cells on lmms-eval's tasks, and the dense model if the study wants it.

    directory: each answer is written to `answers.jsonl` here as soon as it is given. Questions that it holds already
        are not asked again. Files that tasks write go to `submissions`.
    watch: called with each step.
    clock: clock of the device; None for the default clock.
    Raises StudyError if a task does not exist, cannot be loaded or does not generate text. Raises StoreError if the
    directory holds another study. Raises as `resolve` does if no cell can run.
    """
    tasks = Tasks(study.tasks, None if study.task_path is None else Path(study.task_path))
    watch(Step(f"loading {study.model}"))
    plan = resolve(study, keep_refusals=True)
    store = AnswerStore(directory, study, open_session(study.device, inputs=input_digests(study)))
    model = Model(Answerer(plan, store, clock), tasks, watch)
    # The files that tasks write have no other place without a directory.
    with TemporaryDirectory() if directory is None else nullcontext(directory / SUBMISSIONS) as place:
        results = model.score(Path(place), study.limit, study.seed)
    # Only questions that the tasks ask now count.
    answers = list(model.answers.values())
    dense, suite = results.get(DENSE), chosen(study)
    benchmarks = columns(next(iter(results.values())), suite.columns() if suite else ())

    def row(planned: PlannedCell) -> EvaluatedCell:
        cell, own = planned.cell, results[planned.cell.id]
        evaluated = evaluate_row(cell, answers, own, dense, benchmarks, planned.method.reference.remark)
        default = results.get(cell.model_copy(update={"options": {}}).id)
        if not cell.options or default is None:
            return evaluated
        return evaluated.model_copy(update={"beside_default": scores(benchmarks, own, default, answers)})

    refused = store.contents.refused
    return Evaluation(
        sessions=tuple(store.contents.sessions),
        environment=store.contents.sessions[0].environment,
        lmms_eval=version("lmms-eval"),
        study=study,
        suite=suite.name if suite else None,
        printed=suite.printed(study.tasks) if suite else (),
        benchmarks=benchmarks,
        dense=None if dense is None else evaluate_row(None, answers, dense, None, benchmarks),
        cells=tuple(row(planned) for planned in model.answerer.cells),
        refused=tuple(
            Refusal(cell=cell, reason=refused[cell.id].reason) for cell in study.cells() if cell.id in refused
        ),
    )
