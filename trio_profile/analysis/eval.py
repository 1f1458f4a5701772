"""The rows of an evaluation: scores, work and times of each cell beside the dense model.

The scores come from lmms-eval's results. The differences, speed-ups and intervals are computed here.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from math import isclose, isfinite
from typing import Any

import numpy as np

from trio_profile.analysis.accuracy import mean_share
from trio_profile.analysis.benchmarks import Results, scores
from trio_profile.analysis.evaluation import Benchmark, EvaluatedCell, Score, TaskSummary
from trio_profile.records.answers import DENSE, Answer, AnsweredQuestion
from trio_profile.records.estimate import Milliseconds, Share, Tokens
from trio_profile.records.schema import Cell
from trio_profile.stats.estimates import median_of, ratio_of
from trio_profile.stats.intervals import difference_interval

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
            scores=tuple(_scores(task, results, dense, pictures_of(of_task))),
            **_measured(row, of_task),
        )
        for task in results["results"]
        for of_task in [[answer for answer in answers if answer.task == task]]
    )
    found, average, interval = scores(columns, results, dense, answers)
    measured = _measured(row, answers)
    return EvaluatedCell(
        cell=cell,
        remark=remark,
        tasks=tasks,
        benchmarks=found,
        average=average,
        average_ci95=interval,
        **{name: value for name, value in measured.items() if name in EvaluatedCell.model_fields},
    )


def pictures_of(answers: Sequence[AnsweredQuestion]) -> dict[int, int]:
    """Return a number for the picture of each question, by the question's number. A question without one stands alone.

    answers: of one task.
    """
    return dict(zip([answer.document for answer in answers], _clusters(answers), strict=True))


def _clusters(answers: Sequence[AnsweredQuestion]) -> list[int]:
    """Return a number for the picture of each question. A question without one stands alone."""
    alone = count(1 + max((answer.picture or 0 for answer in answers), default=0))
    return [next(alone) if answer.picture is None else answer.picture for answer in answers]


def _scores(task: str, results: Results, dense: Results | None, pictures: Mapping[int, int]) -> Iterator[Score]:
    """Yield a score for each number that lmms-eval reports for a task. Its keys are `metric,filter`.

    pictures: the number of each question's picture, by the question's number.
    """
    filters: list[str] = []
    for key, listed in results["results"][task].items():
        metric, comma, name = key.partition(",")
        value = _number(listed)
        if not comma or "_stderr" in metric or value is None:
            continue
        if name not in filters:
            filters.append(name)
        dense_value = _number(dense["results"].get(task, {}).get(key)) if dense else None
        score = Score(
            metric=metric,
            filter=name,
            higher_is_better=results["higher_is_better"].get(task, {}).get(metric),
            value=value,
        )
        if dense is None or dense_value is None:
            yield score
            continue
        interval = _interval(
            (value, _by_document(results, task, metric, filters.index(name))),
            (dense_value, _by_document(dense, task, metric, filters.index(name))),
            declared=_is_declared_mean(results, task, metric),
            pictures=_in_order(results, task, pictures),
        )
        yield score.model_copy(update={"dense": dense_value, "difference": value - dense_value, "ci95": interval})


def _interval(
    cell: tuple[float, list[float]],
    dense: tuple[float, list[float]],
    *,
    declared: bool,
    pictures: Sequence[int],
) -> tuple[float, float] | None:
    """Return the interval of the difference of two scores; None unless both are means over questions.

    cell, dense: the score, and the score of each question.
    declared: whether the task itself says that the metric is a mean.
    pictures: the number of each question's picture; empty if it is not known.
    """
    cell_each, dense_each = cell[1], dense[1]
    if len(cell_each) != len(dense_each) or not all(_is_mean(value, scores) for value, scores in (cell, dense)):
        return None
    # If all questions have the same score, F1 and similar metrics equal the mean too. Then only the task can tell.
    if not declared and len({*cell_each, *dense_each}) == 1:
        return None
    differences = [a - b for a, b in zip(cell_each, dense_each, strict=True)]
    return difference_interval(differences, clusters=pictures if len(pictures) == len(differences) else ())


def _is_declared_mean(side: Results, task: str, metric: str) -> bool:
    """Return whether the task's YAML file says that a metric is a mean."""
    listed = side.get("configs", {}).get(task, {}).get("metric_list") or ()
    return any(entry.get("metric") == metric and entry.get("aggregation") == "mean" for entry in listed)


def _by_document(side: Results, task: str, metric: str, filter_number: int) -> list[float]:
    """Return a metric's score for each question; empty if one of them is not a number.

    filter_number: number of the task's filter, from 0.
    """
    rows = side["samples"].get(task, ())
    documents = len({row["doc_id"] for row in rows})
    # lmms-eval logs all samples of the first filter, then all samples of the second filter, and so on.
    values = [row.get(metric) for row in rows[filter_number * documents : (filter_number + 1) * documents]]
    scores = [_number(value.get("score") if isinstance(value, Mapping) else value) for value in values]
    return [] if None in scores else [score for score in scores if score is not None]


def _in_order(side: Results, task: str, pictures: Mapping[int, int]) -> list[int]:
    """Return the numbers of the pictures in the order of `_by_document`; empty if one is not known."""
    documents = dict.fromkeys(row["doc_id"] for row in side["samples"].get(task, ()))
    return [pictures[document] for document in documents] if documents.keys() <= pictures.keys() else []


def _is_mean(value: float, scores: Sequence[float]) -> bool:
    """Return whether a metric is the mean of these scores, each between 0 and 1. F1 and scores up to 100 are not."""
    within = bool(scores) and all(0 <= score <= 1 for score in scores)
    return within and isclose(value, sum(scores) / len(scores), rel_tol=1e-9, abs_tol=1e-12)


def _number(value: Any) -> float | None:
    """Return a finite number of any library as a float; None for anything else."""
    try:
        return float(value) if not isinstance(value, str) and isfinite(value) else None
    except TypeError:
        return None


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
