"""The kind `eval`: accuracy, work and time of several cells and of the dense model on lmms-eval's tasks.

All answer a question before the next question, in random order, so the dense model answers each question once. Then
lmms-eval scores the answers of each. Each answer is kept as soon as it is given (`answers.py`), and a later session
goes on from there.
"""

from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from trio_profile.engine.plan import Plan, PlannedCell, resolve
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.kinds.evaluation.answering import Answerer
from trio_profile.kinds.evaluation.answers import DENSE, AnswerStore, RefusedCell, key_of
from trio_profile.kinds.evaluation.benchmarks import columns, scores
from trio_profile.kinds.evaluation.document import EvaluatedCell, Evaluation, Refusal
from trio_profile.kinds.evaluation.lmms import Model, Tasks
from trio_profile.kinds.evaluation.question_scores import Results
from trio_profile.kinds.evaluation.suites import chosen
from trio_profile.kinds.evaluation.summary import evaluate_row
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
    answerer = open_answerer(plan, store, clock)
    model = Model(answerer, store, tasks, watch)
    # The files that tasks write have no other place without a directory.
    with TemporaryDirectory() if directory is None else nullcontext(directory / SUBMISSIONS) as place:
        results = _score_rows(model, Path(place), study)
    return _evaluation(plan, store, results, model)


def open_answerer(plan: Plan, store: AnswerStore, clock: Clock | None = None) -> Answerer:
    """Return what answers the questions that the store does not hold yet.

    Cells that were refused are left out. Raises a TrioError if no cell is left.
    """

    def refuse(planned: PlannedCell, reason: str) -> None:
        store.append(RefusedCell(cell=planned.cell, reason=reason))

    refused = store.contents.refused
    for record in plan.refused:
        if record.cell.id not in refused:
            store.append(RefusedCell(cell=record.cell, reason=record.reason or ""))
    answerer = Answerer(plan, [planned for planned in plan.cells if planned.cell.id not in refused], refuse, clock)
    for answered in store.contents.questions.values():
        if answered.picture is not None:
            answerer.pictures[answered.pixels] = answered.picture
    return answerer


def _score_rows(model: Model, submissions: Path, study: Study) -> dict[str, Results]:
    """Return lmms-eval's results for each row that is left, by `dense` or the id of the cell."""
    results: dict[str, Results] = {}
    while left := [row for row in model.answerer.rows if row not in results]:
        row, of_row = model.score(left[0], submissions, study.limit, study.seed)
        results[row] = of_row
    return results


def _evaluation(plan: Plan, store: AnswerStore, results: dict[str, Results], model: Model) -> Evaluation:
    """Return the document. Only questions that the tasks ask now count."""
    study, contents = plan.study, store.contents
    answers = list({key_of(answered): answered for answered in model.answers.values()}.values())
    dense = results.get(DENSE)
    suite = chosen(study)
    benchmarks = columns(next(iter(results.values())), suite.columns() if suite else ())

    def row(planned: PlannedCell) -> EvaluatedCell:
        cell, own = planned.cell, results[planned.cell.id]
        evaluated = evaluate_row(cell, answers, own, dense, benchmarks, planned.method.reference.remark)
        default = results.get(cell.model_copy(update={"options": {}}).id)
        if not cell.options or default is None:
            return evaluated
        return evaluated.model_copy(update={"beside_default": scores(benchmarks, own, default, answers)})

    return Evaluation(
        sessions=tuple(contents.sessions),
        environment=contents.sessions[0].environment,
        lmms_eval=version("lmms-eval"),
        study=study,
        suite=suite.name if suite else None,
        printed=suite.printed(study.tasks) if suite else (),
        benchmarks=benchmarks,
        dense=None if dense is None else evaluate_row(None, answers, dense, None, benchmarks),
        cells=tuple(row(planned) for planned in model.answerer.cells),
        refused=tuple(
            Refusal(cell=cell, reason=contents.refused[cell.id].reason)
            for cell in study.cells()
            if cell.id in contents.refused
        ),
    )
