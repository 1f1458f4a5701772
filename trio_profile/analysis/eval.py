"""The document of `trio-profile eval`: scores and times of a pruned model and of the dense model on lmms-eval's tasks.

The scores come from lmms-eval's results. The differences, speed-ups and intervals are computed here.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from math import isclose, isfinite
from typing import Any

import numpy as np

from trio_profile.analysis.accuracy import mean_share
from trio_profile.records.documents import StudyDocument
from trio_profile.records.estimate import Milliseconds, Ratio, Share, Tokens
from trio_profile.records.schema import Record
from trio_profile.stats.estimates import median_of, ratio_of
from trio_profile.stats.intervals import difference_interval

Results = Mapping[str, Any]
"""lmms-eval's results for one model: `results`, `samples`, `higher_is_better` and `configs`, each by task."""
_TIMES = ("prefill_ms", "ttft_ms", "total_ms")


class Answer(Record):
    """One generated answer with its times.

    text: the answer, without white space at its ends.
    tokens: number of generated tokens, the end token included.
    prefill_ms, ttft_ms, total_ms: times as in `records.schema.Pair`.
    """

    text: str
    tokens: int
    prefill_ms: float
    ttft_ms: float
    total_ms: float


class AnsweredQuestion(Record):
    """The answers to one question of a task.

    A question without a picture is answered only once, by the dense model. Its answer counts for both models.

    task, document: name of the task, and number of the question in it.
    picture: number of its pictures. Questions with one number show the same pictures. None without pictures, and in old
        files.
    retention: the realised retention; None for a question without a picture.
    dense_first: whether the dense model answered first, which is random; None if only one model answered.
    dense: the dense model's answer; None if the study leaves the dense model out.
    pruned: the pruned model's answer.
    """

    task: str
    document: int
    picture: int | None = None
    retention: float | None
    dense_first: bool | None
    dense: Answer | None
    pruned: Answer

    @property
    def timed(self) -> bool:
        """Whether the question has a picture. Only then do its times show the effect of pruning."""
        return self.retention is not None


class Score(Record):
    """One metric of a task.

    metric, filter: lmms-eval's names.
    higher_is_better: None if the task does not say.
    pruned, dense: the scores of the two models.
    difference: pruned minus dense, over the same questions.
    ci95: interval of the difference. None unless the metric is a mean of scores between 0 and 1, one for each question.
    """

    metric: str
    filter: str
    higher_is_better: bool | None
    pruned: float
    dense: float | None = None
    difference: float | None = None
    ci95: tuple[float, float] | None = None


class TaskSummary(Record):
    """One task or group of tasks. The times are those of questions with a picture.

    questions: number of questions.
    retention: realised retention, the mean over questions.
    scores: one for each metric and filter.
    same_answer: share of questions to which both models give the same answer.
    tokens, dense_tokens: tokens of one answer.
    prefill_ms, ttft_ms: times as in `records.schema.Pair`.
    total_ms: the whole call of `generate`. It depends on the number of tokens.
    dense_*_ms: the same times of the dense model.
    *_speedup: median of the paired ratios dense / pruned.
    """

    task: str
    questions: int
    retention: float | None = None
    scores: tuple[Score, ...] = ()
    same_answer: Share | None = None
    tokens: Tokens | None = None
    dense_tokens: Tokens | None = None
    prefill_ms: Milliseconds | None = None
    dense_prefill_ms: Milliseconds | None = None
    prefill_speedup: Ratio | None = None
    ttft_ms: Milliseconds | None = None
    dense_ttft_ms: Milliseconds | None = None
    ttft_speedup: Ratio | None = None
    total_ms: Milliseconds | None = None
    dense_total_ms: Milliseconds | None = None
    total_speedup: Ratio | None = None


class Evaluation(StudyDocument):
    """What `trio-profile eval --json` prints.

    lmms_eval: version of lmms-eval.
    asked: the tasks that the study names.
    limit: number of questions of each task; None for all.
    tasks: the results; a group of tasks has its own.
    report: path of report.html.
    """

    lmms_eval: str
    asked: tuple[str, ...]
    limit: int | None
    tasks: tuple[TaskSummary, ...]
    report: str | None = None


def summarise_tasks(
    answers: Sequence[AnsweredQuestion], pruned: Results, dense: Results | None
) -> tuple[TaskSummary, ...]:
    """Return the scores and the times of each task.

    answers: the answers to all questions.
    pruned, dense: lmms-eval's results for the two models.
    """
    return tuple(
        TaskSummary(
            task=task,
            scores=tuple(_scores(task, pruned, dense, pictures_of([a for a in answers if a.task == task]))),
            **_times_and_agreement([answer for answer in answers if answer.task == task]),
        )
        for task in pruned["results"]
    )


def pictures_of(answers: Sequence[AnsweredQuestion]) -> dict[int, int]:
    """Return a number for the picture of each question, by the question's number. A question without one stands alone.

    answers: of one task.
    """
    alone = count(1 + max((answer.picture or 0 for answer in answers), default=0))
    return {a.document: next(alone) if a.picture is None else a.picture for a in answers}


def _scores(task: str, pruned: Results, dense: Results | None, pictures: Mapping[int, int]) -> Iterator[Score]:
    """Yield a score for each number that lmms-eval reports for a task. Its keys are `metric,filter`.

    pictures: the number of each question's picture, by the question's number.
    """
    filters: list[str] = []
    for key, value in pruned["results"][task].items():
        metric, comma, name = key.partition(",")
        pruned_score = _number(value)
        if not comma or "_stderr" in metric or pruned_score is None:
            continue
        if name not in filters:
            filters.append(name)
        dense_score = _number(dense["results"].get(task, {}).get(key)) if dense else None
        score = Score(
            metric=metric,
            filter=name,
            higher_is_better=pruned["higher_is_better"].get(task, {}).get(metric),
            pruned=pruned_score,
        )
        if dense is None or dense_score is None:
            yield score
            continue
        interval = _interval(
            (pruned_score, _by_document(pruned, task, metric, filters.index(name))),
            (dense_score, _by_document(dense, task, metric, filters.index(name))),
            declared=_is_declared_mean(pruned, task, metric),
            pictures=_in_order(pruned, task, pictures),
        )
        yield score.model_copy(
            update={"dense": dense_score, "difference": pruned_score - dense_score, "ci95": interval}
        )


def _interval(
    pruned: tuple[float, list[float]],
    dense: tuple[float, list[float]],
    *,
    declared: bool,
    pictures: Sequence[int],
) -> tuple[float, float] | None:
    """Return the interval of the difference of two scores; None unless both are means over questions.

    pruned, dense: the score, and the score of each question.
    declared: whether the task itself says that the metric is a mean.
    pictures: the number of each question's picture; empty if it is not known.
    """
    pruned_each, dense_each = pruned[1], dense[1]
    if len(pruned_each) != len(dense_each) or not all(_is_mean(value, scores) for value, scores in (pruned, dense)):
        return None
    # If all questions have the same score, F1 and similar metrics equal the mean too. Then only the task can tell.
    if not declared and len({*pruned_each, *dense_each}) == 1:
        return None
    differences = [a - b for a, b in zip(pruned_each, dense_each, strict=True)]
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


def _times_and_agreement(answers: Sequence[AnsweredQuestion]) -> dict[str, Any]:
    """Return the fields of a TaskSummary that come from the answers, without the scores."""
    timed = [answer for answer in answers if answer.timed]
    fields: dict[str, Any] = {"questions": len(answers)}
    if not timed:
        return fields
    pruned, dense = [answer.pruned for answer in timed], [answer.dense for answer in timed if answer.dense is not None]
    fields["retention"] = sum(answer.retention or 0.0 for answer in timed) / len(timed)
    fields |= _medians("", pruned)
    if not dense:
        return fields
    fields |= _medians("dense_", dense)
    for name in _TIMES:
        ratios = [getattr(b, name) / getattr(a, name) for a, b in zip(pruned, dense, strict=True)]
        fields[f"{name.removesuffix('_ms')}_speedup"] = ratio_of([ratios], "budget")
    fields["same_answer"] = mean_share(
        np.array([float(a.text == b.text) for a, b in zip(pruned, dense, strict=True)]),
        Share,
        list(pictures_of(timed).values()),
    )
    return fields


def _medians(prefix: str, answers: Sequence[Answer]) -> dict[str, Milliseconds | Tokens]:
    """Return the median times and the median number of tokens of one model's answers. Names begin with `prefix`."""
    found: dict[str, Milliseconds | Tokens] = {
        f"{prefix}{name}": median_of(Milliseconds, [[getattr(answer, name) for answer in answers]], "budget")
        for name in _TIMES
    }
    found[f"{prefix}tokens"] = median_of(Tokens, [[answer.tokens for answer in answers]], "budget")
    return found
