"""The rows of an evaluation: scores, work and times of each cell beside the dense model.

The scores come from lmms-eval's results, their intervals from analysis/benchmarks.py.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from trio_profile.analysis.accuracy import mean_share
from trio_profile.analysis.benchmarks import scores
from trio_profile.analysis.evaluation import Benchmark, BesideDefault, EvaluatedCell, Score, TaskSummary
from trio_profile.analysis.question_scores import Results, number
from trio_profile.records.answers import DENSE, Answer, AnsweredQuestion, PrunedAnswer
from trio_profile.records.estimate import Milliseconds, Share, Tokens
from trio_profile.records.schema import Cell
from trio_profile.stats.estimates import median_of, ratio_of

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
    found, average, interval = scores(columns, results, dense, answers)
    own = [answer for asked in answers if isinstance(answer := asked.answer_of(row), PrunedAnswer)]
    measured = _measured(row, answers)
    return EvaluatedCell(
        cell=cell,
        remark=remark,
        notes=tuple(dict.fromkeys(note for answer in own for note in answer.notes)),
        tasks=tasks,
        benchmarks=found,
        average=average,
        average_ci95=interval,
        **{name: value for name, value in measured.items() if name in EvaluatedCell.model_fields},
    )


def compare_with(
    default: Results, variant: Results, columns: Sequence[Benchmark], answers: Sequence[AnsweredQuestion]
) -> BesideDefault:
    """Return the scores of a variant beside those of the unchanged method on the same questions.

    default, variant: lmms-eval's results.
    columns: the columns of the table.
    answers: the answers to all questions.
    """
    found, average, interval = scores(columns, variant, default, answers)
    return BesideDefault(benchmarks=found, average=average, average_ci95=interval)


def _scores(task: str, results: Results, dense: Results | None, answers: Sequence[AnsweredQuestion]) -> Iterator[Score]:
    """Yield a score for each number that lmms-eval reports for a task. Its keys are `metric,filter`."""
    for key, listed in results["results"][task].items():
        metric, comma, name = key.partition(",")
        if not comma or "_stderr" in metric or number(listed) is None:
            continue
        column = Benchmark(name=key, task=task, metrics=(key,))
        ((found,), *_) = scores([column], results, dense, answers)
        yield Score(
            metric=metric,
            filter=name,
            higher_is_better=results["higher_is_better"].get(task, {}).get(metric),
            value=found.value,
            dense=found.dense,
            difference=found.difference,
            ci95=found.ci95,
        )


def _measured(row: str, answers: Sequence[AnsweredQuestion]) -> dict[str, Any]:
    """Return the fields of a TaskSummary that come from the answers to questions with a picture; empty without them.

    row: `dense` or the id of a cell.
    """
    paired = [(answer, said) for answer in answers if answer.timed and (said := answer.answer_of(row)) is not None]
    if not paired:
        return {}
    timed, said = [answer for answer, _ in paired], [answer for _, answer in paired]
    fields: dict[str, Any] = {
        "retention": float(np.mean([getattr(answer, "retention", 1.0) for answer in said])),
        "fastv_macs": float(np.mean([getattr(own, "fastv_macs", answer.dense_fastv_macs) for answer, own in paired])),
        "kv_bytes": float(np.mean([answer.kv_bytes for answer in said])),
        "tokens": median_of(Tokens, [[answer.tokens for answer in said]], "budget"),
    }
    for name in _TIMES:
        fields[name] = median_of(Milliseconds, [[getattr(answer, name) for answer in said]], "budget")
    dense = [answer.dense for answer in timed if answer.dense is not None]
    if row == DENSE or len(dense) < len(timed):
        return fields
    return fields | _beside_dense(timed, said, dense)


def _beside_dense(timed: Sequence[AnsweredQuestion], said: Sequence[Answer], dense: Sequence[Answer]) -> dict[str, Any]:
    """Return the speed-ups, and the share of equal answers.

    timed: the questions.
    said, dense: the answers of the cell and of the dense model to them.
    """
    fields: dict[str, Any] = {}
    for name in _TIMES:
        ratios = [getattr(b, name) / getattr(a, name) for a, b in zip(said, dense, strict=True)]
        fields[f"{name.removesuffix('_ms')}_speedup"] = ratio_of([ratios], "budget")
    same = np.array([float(a.text == b.text) for a, b in zip(said, dense, strict=True)])
    fields["same_answer"] = mean_share(same, Share, _clusters(timed))
    return fields


def _clusters(answers: Sequence[AnsweredQuestion]) -> list[int]:
    """Return a number for the picture of each question. A question without one stands alone."""
    alone = count(1 + max((answer.picture or 0 for answer in answers), default=0))
    return [next(alone) if answer.picture is None else answer.picture for answer in answers]
