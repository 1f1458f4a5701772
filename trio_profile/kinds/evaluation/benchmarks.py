"""The columns of an evaluation's table, and the scores in them: each beside the dense model's, and their average."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from trio_profile.kinds.evaluation.answers import AnsweredQuestion
from trio_profile.kinds.evaluation.document import Benchmark, BenchmarkScore, Scores
from trio_profile.kinds.evaluation.question_scores import QuestionScores, Results, number, question_scores
from trio_profile.records.estimate import Interval
from trio_profile.stats.intervals import Effects, difference_interval, reach

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
    taken = {column.task for column in known}
    plain = {task: _first_metric(results, task) for task in results["results"] if task not in taken}
    parts = {part for group in plain if plain[group] for part in results.get("group_subtasks", {}).get(group, ())}
    return (
        *named,
        *(
            Benchmark(name=task, task=task, metrics=(key,))
            for task, key in plain.items()
            if key is not None and task not in parts
        ),
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
    rows = [scored for column in benchmarks if (scored := _score(column, cell, dense, pictures)) is not None]
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


def _first_metric(results: Results, task: str) -> str | None:
    """Return the key of a task's first number of which higher is better; None if it has none."""
    better = results.get("higher_is_better", {}).get(task, {})
    for key, value in results["results"][task].items():
        metric, comma, _ = key.partition(",")
        if comma and "_stderr" not in metric and better.get(metric) and number(value) is not None:
            return key
    return None


def _value(results: Results, column: Benchmark) -> float | None:
    """Return the score of a model in a column, in the column's scale; None if lmms-eval gives no number."""
    listed = results["results"].get(column.task, {})
    values = [number(listed.get(key)) for key in column.metrics]
    known = [value for value in values if value is not None]
    return column.scale * sum(known) if len(known) == len(values) else None


def _score(
    column: Benchmark, cell: Results, dense: Results | None, pictures: Pictures
) -> tuple[BenchmarkScore, Effects | None] | None:
    """Return one score, and how much each question moves its share of dense; None if that is not known.

    Return None if lmms-eval reports no number.
    """
    value = _value(cell, column)
    if value is None:
        return None
    of_dense = None if dense is None else _value(dense, column)
    score = BenchmarkScore(benchmark=column.name, value=value)
    if dense is None or of_dense is None:
        return score, None
    share = value / of_dense if of_dense > 0 else None
    score = score.model_copy(update={"dense": of_dense, "share": share, "difference": value - of_dense})
    pairs = list(_paired(column, cell, dense))
    if not all(pairs):
        return score, None
    known = [pair for pair in pairs if pair is not None]
    interval = _difference(column, known, value - of_dense, pictures)
    score = score.model_copy(update={"ci95": interval})
    if share is None:
        return score, None
    return score, _joined([_effects(column, pair, pictures, share, of_dense) for pair in known])


_Pair = tuple[QuestionScores, QuestionScores]


def _paired(column: Benchmark, cell: Results, dense: Results) -> Iterator[_Pair | None]:
    """Yield for each metric of a column the effects of the questions on both models' scores; None if not known."""
    for key in column.metrics:
        a, b = (question_scores(results, column.task, key) for results in (cell, dense))
        yield None if a is None or b is None or a.documents != b.documents else (a, b)


def _difference(column: Benchmark, pairs: Sequence[_Pair], difference: float, pictures: Pictures) -> Interval:
    """Return the interval of the difference of two scores."""
    first, dense = pairs[0]
    whole = first.whole
    if len(pairs) == 1 and whole is not None and whole == dense.whole:
        # The interval that the table of all scores has too.
        each = (first.each - dense.each) * len(first.each) / whole + difference / (column.scale * whole)
        clusters = _clusters(column.task, first.documents, pictures)
        low, high = difference_interval(np.clip(each, -1.0, 1.0), clusters=clusters)
        return column.scale * whole * low, column.scale * whole * high
    half = reach([_joined([_effects(column, pair, pictures, 1.0, 1.0) for pair in pairs])])
    return difference - half, difference + half


def _effects(column: Benchmark, pair: _Pair, pictures: Pictures, share: float, dense: float) -> Effects:
    """Return how much each question moves (score of the cell − share · score of dense) / dense."""
    a, b = pair
    each = column.scale * (a.each - share * b.each) / dense
    step = column.scale * max(a.step, b.step) / dense
    return Effects(each, step, _clusters(column.task, a.documents, pictures))


def _joined(parts: Sequence[Effects]) -> Effects:
    """Return the effects on a sum of metrics of one task. One question can move only one of them."""
    return Effects(
        each=np.concatenate([part.each for part in parts]),
        step=max(part.step for part in parts),
        clusters=[number for part in parts for number in part.clusters],
    )


def _pictures(answers: Sequence[AnsweredQuestion]) -> Pictures:
    """Return the number of the picture of each question. A question without a picture gets a number of its own."""
    known = {(answer.task, answer.document): answer.picture for answer in answers if answer.picture is not None}
    return defaultdict(count(1 + max(known.values(), default=0)).__next__, known)


def _clusters(task: str, documents: Sequence[int], pictures: Pictures) -> list[int]:
    """Return the number of each question's picture."""
    return [pictures[task, document] for document in documents]
