"""The document of `trio-profile eval`: what tasks say of a pruned model and of the dense one, and the times beside it.

Every score is the task's own, taken from lmms-eval's results; differences, speed-ups and intervals are derived here.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isclose, isfinite
from typing import Any

from trio_profile.records.estimate import Milliseconds, Ratio, Share, Tokens
from trio_profile.records.schema import FORMAT, VERSION, Environment, Record, Study
from trio_profile.stats.estimates import median_of, ratio_of
from trio_profile.stats.intervals import difference_interval, share_interval

Results = Mapping[str, Any]
"""What lmms-eval returns of one side: `results`, `samples`, `higher_is_better` and `configs`, each by task."""
_TIMES = ("prefill_ms", "ttft_ms", "total_ms")


class Said(Record):
    """One answer, stripped of white space at its ends. tokens: as generated, the one that ends it included."""

    text: str
    tokens: int
    prefill_ms: float
    ttft_ms: float
    total_ms: float


class Answered(Record):
    """One question of a task, answered by the pruned model and, unless it is left out, by the dense one.

    retention: realised; None for a question without a picture, which is answered once, dense, and stands for both.
    dense_first: who answered first, drawn anew for each question.
    """

    task: str
    document: int
    retention: float | None
    dense_first: bool | None
    dense: Said | None
    pruned: Said

    @property
    def timed(self) -> bool:
        """Whether there was something to prune, so that its times say something of pruning."""
        return self.retention is not None


class Score(Record):
    """One metric of a task. difference: pruned less dense, over the same documents.

    ci95: of the difference, where the metric is the mean of scores between 0 and 1, one a document; else None.
    """

    metric: str
    filter: str
    higher_is_better: bool | None
    pruned: float
    dense: float | None = None
    difference: float | None = None
    ci95: tuple[float, float] | None = None


class TaskSummary(Record):
    """One task or group of tasks. Times are of its questions with a picture, in the order they were asked.

    retention: realised, the mean over questions. same_answer: share of questions on which both say the same. Speed-ups
    are medians of paired ratios, dense over pruned. total_ms is of answers as long as they came, which `tokens` says.
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


class Evaluation(Record):
    """What `trio-profile eval --json` prints. asked: the tasks as they were named. limit: questions of each task."""

    format: str = FORMAT
    version: int = VERSION
    environment: Environment
    lmms_eval: str
    study: Study
    asked: tuple[str, ...]
    limit: int | None
    tasks: tuple[TaskSummary, ...]


def summarise_tasks(answers: Sequence[Answered], pruned: Results, dense: Results | None) -> tuple[TaskSummary, ...]:
    """Each task's scores on both sides, and what its questions took."""
    return tuple(
        TaskSummary(
            task=task,
            scores=tuple(_scores(task, pruned, dense)),
            **_of_answers([answer for answer in answers if answer.task == task]),
        )
        for task in pruned["results"]
    )


def _scores(task: str, pruned: Results, dense: Results | None) -> Iterator[Score]:
    filters: list[str] = []
    for key, value in pruned["results"][task].items():
        metric, comma, name = key.partition(",")
        ours = _number(value)
        if not comma or "_stderr" in metric or ours is None:
            continue
        if name not in filters:
            filters.append(name)
        theirs = _number(dense["results"].get(task, {}).get(key)) if dense else None
        yield Score(
            metric=metric,
            filter=name,
            higher_is_better=pruned["higher_is_better"].get(task, {}).get(metric),
            pruned=ours,
            dense=theirs,
            difference=None if theirs is None else ours - theirs,
            ci95=None
            if dense is None or theirs is None
            else _interval(
                (ours, _by_document(pruned, task, metric, filters.index(name))),
                (theirs, _by_document(dense, task, metric, filters.index(name))),
                declared=_is_declared_mean(pruned, task, metric),
            ),
        )


def _interval(*sides: tuple[float, list[float]], declared: bool) -> tuple[float, float] | None:
    """Of the difference between two metrics, each with its scores by document, where these are all there is to it."""
    (_, ours), (_, theirs) = sides
    if len(ours) != len(theirs) or not all(_is_their_mean(value, scores) for value, scores in sides):
        return None
    # Of scores that are all alike, F1 and the like are the mean as well: only a task can say which it is.
    if not declared and len({*ours, *theirs}) == 1:
        return None
    return difference_interval([a - b for a, b in zip(ours, theirs, strict=True)])


def _is_declared_mean(side: Results, task: str, metric: str) -> bool:
    """Whether the task's own YAML says that a metric is a mean."""
    listed = side.get("configs", {}).get(task, {}).get("metric_list") or ()
    return any(entry.get("metric") == metric and entry.get("aggregation") == "mean" for entry in listed)


def _by_document(side: Results, task: str, metric: str, which: int) -> list[float]:
    """A metric's score of each document under the task's filter `which`; none where it is not a number each."""
    rows = side["samples"].get(task, ())
    documents = len({row["doc_id"] for row in rows})
    # Samples of several filters are logged one filter after the other.
    values = [row.get(metric) for row in rows[which * documents : (which + 1) * documents]]
    scores = [_number(value.get("score") if isinstance(value, Mapping) else value) for value in values]
    return [] if None in scores else [score for score in scores if score is not None]


def _is_their_mean(value: float, scores: Sequence[float]) -> bool:
    """Whether a metric is nothing but the mean of scores between 0 and 1: not so of F1, or of marks out of 100."""
    within = bool(scores) and all(0 <= score <= 1 for score in scores)
    return within and isclose(value, sum(scores) / len(scores), rel_tol=1e-9, abs_tol=1e-12)


def _number(value: Any) -> float | None:
    """A finite number of whatever library as a float; None for words, lists and the like."""
    try:
        return float(value) if not isinstance(value, str) and isfinite(value) else None
    except TypeError:
        return None


def _of_answers(answers: Sequence[Answered]) -> dict[str, Any]:
    timed = [answer for answer in answers if answer.timed]
    fields: dict[str, Any] = {"questions": len(answers)}
    if not timed:
        return fields
    ours, theirs = [answer.pruned for answer in timed], [answer.dense for answer in timed if answer.dense is not None]
    fields["retention"] = sum(answer.retention or 0.0 for answer in timed) / len(timed)
    for prefix, side in (("", ours), ("dense_", theirs)):
        for name in (*_TIMES, "tokens") if side else ():
            fields[prefix + name] = median_of(
                Tokens if name == "tokens" else Milliseconds, [getattr(said, name) for said in side], "budget"
            )
    if theirs:
        for name in _TIMES:
            ratios = [getattr(b, name) / getattr(a, name) for a, b in zip(ours, theirs, strict=True)]
            fields[f"{name.removesuffix('_ms')}_speedup"] = ratio_of(ratios, "budget")
        same = sum(a.text == b.text for a, b in zip(ours, theirs, strict=True))
        fields["same_answer"] = Share(value=same / len(ours), ci95=share_interval(same, len(ours)), samples=len(ours))
    return fields
