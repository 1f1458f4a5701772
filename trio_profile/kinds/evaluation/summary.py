"""The rows of an evaluation: scores, work and times of each cell beside the dense model.

The scores come from lmms-eval's results, their intervals from how much each question moves them (question_scores.py).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from trio_profile.judge.accuracy import mean_share
from trio_profile.kinds.evaluation.answers import DENSE, AnsweredQuestion, PrunedAnswer
from trio_profile.kinds.evaluation.document import (
    Benchmark,
    BenchmarkScore,
    Costs,
    EvaluatedCell,
    Score,
    Scores,
    TaskSummary,
)
from trio_profile.kinds.evaluation.question_scores import QuestionScores, Results, number, question_scores
from trio_profile.records.estimate import Interval, Milliseconds, Ratio, Share, Tokens
from trio_profile.records.schema import Cell
from trio_profile.stats.estimates import median_of
from trio_profile.stats.intervals import Effects, difference_interval, reach

_TIMES = ("prefill_ms", "ttft_ms", "total_ms")
Pictures = defaultdict[tuple[str, int], int]
"""The number of the picture of each question, by task and by the question's number."""


def columns(results: Results, known: Sequence[Benchmark] = ()) -> tuple[Benchmark, ...]:
    """Return the columns of the table: those of a suite first, then one for each other task.

    A task's column is its first score, in lmms-eval's order, of which lmms-eval says that higher is better. A task
    without such a score has no column. Neither have the parts of a group that has a score of its own.

    results: lmms-eval's results for one model.
    known: the columns of the suite. Those without results are left out.
    """
    named = [column for column in known if _value(results, column) is not None]
    plain: dict[str, Benchmark] = {}
    for task in results["results"].keys() - {column.task for column in known}:
        first = next((key for key, is_better in _numbers(results, task) if is_better), None)
        if first is not None:
            plain[task] = Benchmark(name=task, task=task, metrics=(first,))
    parts = {part for group in plain for part in results.get("group_subtasks", {}).get(group, ())}
    return (*named, *(plain[task] for task in results["results"] if task in plain.keys() - parts))


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
    row, pictures = DENSE if cell is None else cell.id, _pictures(answers)
    tasks = tuple(
        TaskSummary(
            task=task,
            questions=len(of_task),
            scores=tuple(_metrics(task, results, dense, pictures)),
            **_measured(row, of_task, pictures),
        )
        for task in results["results"]
        for of_task in [[answer for answer in answers if answer.task == task]]
    )
    own = [answer for question in answers if isinstance(answer := question.answer_of(row), PrunedAnswer)]
    measured = _measured(row, answers, pictures)
    return EvaluatedCell(
        cell=cell,
        remark=remark,
        notes=tuple(dict.fromkeys(note for answer in own for note in answer.notes)),
        tasks=tasks,
        **dict(scores(columns, results, dense, answers)),
        **{name: value for name, value in measured.items() if name in Costs.model_fields},
    )


def scores(
    benchmarks: Sequence[Benchmark], cell: Results, dense: Results | None, answers: Sequence[AnsweredQuestion]
) -> Scores:
    """Return the scores of one cell by column.

    A column for which lmms-eval reports no number is left out. The cell then has no average.

    benchmarks: the columns.
    cell, dense: lmms-eval's results for the cell and for the dense model. `dense` is None if the dense model was not
        asked, and for its own row.
    answers: the answers to all questions. They say which questions show the same picture.
    """
    pictures = _pictures(answers)
    rows = [
        _score(column, value, cell, dense, pictures)
        for column in benchmarks
        if (value := _value(cell, column)) is not None
    ]
    columns, shares = tuple(score for score, _ in rows), [score.share for score, _ in rows if score.share is not None]
    if not rows or len(shares) < len(benchmarks):
        return Scores(benchmarks=columns)
    average = sum(shares) / len(shares)
    effects = [effect for _, effect in rows if effect is not None]
    if len(effects) < len(rows):
        return Scores(benchmarks=columns, average=average)
    half = reach(effects) / len(rows)
    # A share of dense is never negative; with few questions the symmetric interval would say so.
    return Scores(benchmarks=columns, average=average, average_ci95=(max(0.0, average - half), average + half))


def _numbers(results: Results, task: str) -> Iterator[tuple[str, bool | None]]:
    """Yield the key of each number that lmms-eval reports for a task, `metric,filter`, and whether higher is better."""
    better = results["higher_is_better"].get(task, {})
    for key, value in results["results"][task].items():
        metric, comma, _ = key.partition(",")
        if comma and "_stderr" not in metric and number(value) is not None:
            yield key, better.get(metric)


def _metrics(task: str, results: Results, dense: Results | None, pictures: Pictures) -> Iterator[Score]:
    """Yield a score for each number that lmms-eval reports for a task."""
    for key, is_better in _numbers(results, task):
        column = Benchmark(name=key, task=task, metrics=(key,))
        score, _ = _score(column, results["results"][task][key], results, dense, pictures)
        yield Score(
            metric=key.partition(",")[0],
            filter=key.partition(",")[2],
            higher_is_better=is_better,
            **score.model_dump(include={"value", "dense", "difference", "ci95"}),
        )


def _value(results: Results, column: Benchmark) -> float | None:
    """Return the score of a model in a column, in the column's scale; None if lmms-eval gives no number."""
    listed = results["results"].get(column.task, {})
    known = [value for key in column.metrics if (value := number(listed.get(key))) is not None]
    return column.scale * sum(known) if len(known) == len(column.metrics) else None


_Pair = tuple[QuestionScores, QuestionScores]


def _score(
    column: Benchmark, value: float, cell: Results, dense: Results | None, pictures: Pictures
) -> tuple[BenchmarkScore, Effects | None]:
    """Return one score, and how much each question moves its share of dense; None if that is not known."""
    of_dense = None if dense is None else _value(dense, column)
    if dense is None or of_dense is None:
        return BenchmarkScore(benchmark=column.name, value=value), None
    pairs: list[_Pair] = []
    for key in column.metrics:
        a, b = (question_scores(results, column.task, key) for results in (cell, dense))
        pairs += [(a, b)] if a is not None and b is not None and a.documents == b.documents else []
    share, is_known = value / of_dense if of_dense > 0 else None, len(pairs) == len(column.metrics)
    score = BenchmarkScore(
        benchmark=column.name,
        value=value,
        dense=of_dense,
        share=share,
        difference=value - of_dense,
        ci95=_interval(column, pairs, value - of_dense, pictures) if is_known else None,
    )
    return score, _effects(column, pairs, pictures, share, of_dense) if is_known and share is not None else None


def _interval(column: Benchmark, pairs: Sequence[_Pair], difference: float, pictures: Pictures) -> Interval:
    """Return the interval of the difference of two scores."""
    effects, whole = _effects(column, pairs, pictures), pairs[0][0].whole
    if len(pairs) == 1 and whole is not None and whole == pairs[0][1].whole:
        scale = column.scale * whole
        each = (effects.each * len(effects.each) + difference) / scale
        low, high = difference_interval(np.clip(each, -1.0, 1.0), clusters=effects.clusters)
        return scale * low, scale * high
    half = reach([effects])
    return difference - half, difference + half


def _effects(
    column: Benchmark, pairs: Sequence[_Pair], pictures: Pictures, share: float = 1.0, dense: float = 1.0
) -> Effects:
    """Return how much each question moves (score of the cell − share · score of dense) / dense.

    pairs: how much it moves both, for each metric of the column. One question can move only one of the metrics.
    """
    scale = column.scale / dense
    return Effects(
        each=scale * np.concatenate([own.each - share * reference.each for own, reference in pairs]),
        step=scale * max(part.step for pair in pairs for part in pair),
        clusters=[pictures[column.task, document] for cell, _ in pairs for document in cell.documents],
    )


def _pictures(answers: Sequence[AnsweredQuestion]) -> Pictures:
    """Return the number of the picture of each question. A question without a picture gets a number of its own."""
    known = {(answer.task, answer.document): answer.picture for answer in answers if answer.picture is not None}
    return defaultdict(count(1 + max(known.values(), default=0)).__next__, known)


def _measured(row: str, answers: Sequence[AnsweredQuestion], pictures: Pictures) -> dict[str, Any]:
    """Return the fields of a TaskSummary that come from the answers to questions with a picture; empty without them.

    row: `dense` or the id of a cell.
    """
    paired = [
        (question, own) for question in answers if question.timed and (own := question.answer_of(row)) is not None
    ]
    if not paired:
        return {}
    own = [answer for _, answer in paired]
    macs = [getattr(answer, "fastv_macs", question.dense_fastv_macs) for question, answer in paired]
    fields: dict[str, Any] = {
        "retention": float(np.mean([getattr(answer, "retention", 1.0) for answer in own])),
        "fastv_macs": float(np.mean(macs)),
        "kv_bytes": float(np.mean([answer.kv_bytes for answer in own])),
        "tokens": median_of(Tokens, [[answer.tokens for answer in own]], "budget"),
    }
    for name in _TIMES:
        fields[name] = median_of(Milliseconds, [[getattr(answer, name) for answer in own]], "budget")
    dense = [question.dense for question, _ in paired if question.dense is not None]
    if row == DENSE or len(dense) < len(paired):
        return fields
    for name in _TIMES:
        ratios = [getattr(b, name) / getattr(a, name) for a, b in zip(own, dense, strict=True)]
        fields[f"{name.removesuffix('_ms')}_speedup"] = median_of(Ratio, [ratios], "budget")
    same = np.array([float(a.text == b.text) for a, b in zip(own, dense, strict=True)])
    clusters = [pictures[question.task, question.document] for question, _ in paired]
    return fields | {"same_answer": mean_share(same, Share, clusters)}
