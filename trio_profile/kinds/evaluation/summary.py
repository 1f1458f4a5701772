"""The rows of an evaluation: scores, work and times of each cell beside the dense model.

The scores come from lmms-eval's results, their intervals from kinds/evaluation/benchmarks.py.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trio_profile.judge.accuracy import mean_share
from trio_profile.kinds.evaluation.answers import DENSE, AnsweredQuestion, PrunedAnswer
from trio_profile.kinds.evaluation.benchmarks import scores
from trio_profile.kinds.evaluation.document import Benchmark, Costs, EvaluatedCell, Score, TaskSummary
from trio_profile.kinds.evaluation.question_scores import Results, number
from trio_profile.records.estimate import Milliseconds, Ratio, Share, Tokens
from trio_profile.records.schema import Cell
from trio_profile.stats.estimates import median_of

_TIMES = ("prefill_ms", "ttft_ms", "total_ms")


def evaluate_row(
    cell: Cell | None,
    answers: Sequence[AnsweredQuestion],
    results: Results,
    dense: Results | None,
    columns: Sequence[Benchmark],
    remark: str = "",
) -> EvaluatedCell:
    """Return one row of the table.

    cell: None for the dense model.
    answers: the answers to all questions.
    results, dense: lmms-eval's results for this row and for the dense model; `dense` is None for the dense model's own
        row, and if it was not asked.
    columns: the columns of the table.
    """
    row = DENSE if cell is None else cell.id
    tasks = tuple(
        TaskSummary(
            task=task,
            questions=len(of_task),
            scores=tuple(_scores(task, results, dense, of_task)),
            **_measured(row, of_task),
        )
        for task in results["results"]
        for of_task in [[answer for answer in answers if answer.task == task]]
    )
    own = [answer for question in answers if isinstance(answer := question.answer_of(row), PrunedAnswer)]
    measured = _measured(row, answers)
    return EvaluatedCell(
        cell=cell,
        remark=remark,
        notes=tuple(dict.fromkeys(note for answer in own for note in answer.notes)),
        tasks=tasks,
        **dict(scores(columns, results, dense, answers)),
        **{name: value for name, value in measured.items() if name in Costs.model_fields},
    )


def _scores(task: str, results: Results, dense: Results | None, answers: Sequence[AnsweredQuestion]) -> Iterator[Score]:
    """Yield a score for each number that lmms-eval reports for a task. Its keys are `metric,filter`."""
    for key, listed in results["results"][task].items():
        metric, comma, name = key.partition(",")
        if not comma or "_stderr" in metric or number(listed) is None:
            continue
        column = Benchmark(name=key, task=task, metrics=(key,))
        [score] = scores([column], results, dense, answers).benchmarks
        yield Score(
            metric=metric,
            filter=name,
            higher_is_better=results["higher_is_better"].get(task, {}).get(metric),
            **score.model_dump(include={"value", "dense", "difference", "ci95"}),
        )


def _measured(row: str, answers: Sequence[AnsweredQuestion]) -> dict[str, Any]:
    """Return the fields of a TaskSummary that come from the answers to questions with a picture; empty without them.

    row: `dense` or the id of a cell.
    """
    paired = [
        (question, own) for question in answers if question.timed and (own := question.answer_of(row)) is not None
    ]
    if not paired:
        return {}
    timed, answers_of_row = [question for question, _ in paired], [answer for _, answer in paired]
    macs = [getattr(answer, "fastv_macs", question.dense_fastv_macs) for question, answer in paired]
    fields: dict[str, Any] = {
        "retention": float(np.mean([getattr(answer, "retention", 1.0) for answer in answers_of_row])),
        "fastv_macs": float(np.mean(macs)),
        "kv_bytes": float(np.mean([answer.kv_bytes for answer in answers_of_row])),
        "tokens": median_of(Tokens, [[answer.tokens for answer in answers_of_row]], "budget"),
    }
    for name in _TIMES:
        fields[name] = median_of(Milliseconds, [[getattr(answer, name) for answer in answers_of_row]], "budget")
    dense = [question.dense for question in timed if question.dense is not None]
    if row == DENSE or len(dense) < len(timed):
        return fields
    for name in _TIMES:
        ratios = [getattr(b, name) / getattr(a, name) for a, b in zip(answers_of_row, dense, strict=True)]
        fields[f"{name.removesuffix('_ms')}_speedup"] = median_of(Ratio, [ratios], "budget")
    same = np.array([float(a.text == b.text) for a, b in zip(answers_of_row, dense, strict=True)])
    # A question without a picture stands alone.
    pictures = [-number if question.picture is None else question.picture for number, question in enumerate(timed, 1)]
    return fields | {"same_answer": mean_share(same, Share, pictures)}
