"""How much each question moves a score of lmms-eval.

The score is computed again from what lmms-eval logs for each question.
If the result is lmms-eval's own number, the rule is known, and the effects are returned. Known rules: the mean, F1 of
yes and no (POPE), the total of MME, and the letters of MMBench.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

Results = Mapping[str, Any]
"""lmms-eval's results for one model: `results`, `samples`, `higher_is_better` and `configs`, each by task."""
Logged = Mapping[int, Any]
"""The values that lmms-eval logs for a metric, by the number of the question."""
_OPTIONS = "ABCDE"
_ROTATED = 1_000_000
"""MMBench adds this to the number of a question that it asks again with its options in another order."""


@dataclass(frozen=True)
class QuestionScores:
    """The effects of all questions on one score.

    documents: [n] numbers of the questions.
    each: [n] how much each moves the score. They sum to 0.
    step: how far one question can move the score.
    whole: for a mean of scores between 0 and 1, the score if all are 1; otherwise None.
    """

    documents: tuple[int, ...]
    each: NDArray[np.float64]
    step: float
    whole: float | None = None


def question_scores(results: Results, task: str, key: str) -> QuestionScores | None:
    """Return how much each question moves a score; None if the rule of the score is not known.

    key: lmms-eval's key of the score: `metric,filter`.
    """
    metric = key.partition(",")[0]
    logged = _logged(results, task, key)
    value = number(results["results"][task].get(key))
    if value is None or not logged:
        return None
    for rule in (_f1, _mme_total, _letters, _mean):
        for again, effects in rule(metric, logged):
            if isclose(again, value, rel_tol=1e-9, abs_tol=1e-9) and _is_plain(effects, results, task, metric):
                return effects
    return None


def number(value: Any) -> float | None:
    """Return a finite number of any library as a float; None for anything else."""
    try:
        return float(value) if not isinstance(value, str) and isfinite(value) else None
    except TypeError:
        return None


def _is_plain(effects: QuestionScores, results: Results, task: str, metric: str) -> bool:
    """Return whether the rule is certain. If all questions have one score, other rules than the mean give it too."""
    if effects.each.any() or effects.whole is None:
        return True
    listed = results.get("configs", {}).get(task, {}).get("metric_list") or ()
    return any(entry.get("metric") == metric and entry.get("aggregation") == "mean" for entry in listed)


def _logged(results: Results, task: str, key: str) -> Logged:
    """Return what lmms-eval logs for a score, by question."""
    metric, _, name = key.partition(",")
    filters = dict.fromkeys(key.partition(",")[2] for key in results["results"][task] if "," in key)
    place = list(filters).index(name)
    rows: Sequence[Mapping[str, Any]] = results["samples"].get(task, ())
    documents = len({row["doc_id"] for row in rows})
    # lmms-eval logs all samples of the first filter, then all samples of the second filter, and so on.
    kept = rows[place * documents : (place + 1) * documents]
    return {row["doc_id"]: row[metric] for row in kept if metric in row}


_Found = Iterator[tuple[float, QuestionScores]]


def _mean(_: str, logged: Logged) -> _Found:
    """The mean of the questions' scores."""
    scores = [number(value.get("score") if isinstance(value, Mapping) else value) for value in logged.values()]
    known = np.array([score for score in scores if score is not None])
    if len(known) == len(scores):
        is_share = bool(((known >= 0) & (known <= 1)).all())
        each = (known - known.mean()) / len(known)
        step = max(1.0, float(np.abs(known).max())) / len(known)
        yield float(known.mean()), QuestionScores(tuple(logged), each, step, 1.0 if is_share else None)


def _f1(metric: str, logged: Logged) -> _Found:
    """F1 of the answer yes, as POPE counts it. Answers that are neither yes nor no do not count."""
    pairs = [_fields(value, "prediction", "ground_truth") for value in logged.values()]
    if "f1" not in metric or not all(pairs):
        return
    yes, right = (np.array([pair[place] for pair in pairs]) == "yes" for place in (0, 1))
    missed = right & (np.array([pair[0] for pair in pairs]) == "no")
    hits = 2.0 * (yes & right)
    counted = hits + (yes & ~right) + missed
    if counted.sum():
        value = float(hits.sum() / counted.sum())
        each = (hits - value * counted) / counted.sum()
        yield value, QuestionScores(tuple(logged), each, 2 / float(counted.sum()))


def _mme_total(_: str, logged: Logged) -> _Found:
    """MME's total: the sum over categories of the mean points of a picture."""
    fields = [_fields(value, "category", "question_id", "score") for value in logged.values()]
    if not all(fields):
        return
    categories: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for category, picture, score in fields:
        categories[category][picture].append(float(score))
    means: dict[str, float] = {}
    for category, pictures in categories.items():
        means[category] = float(np.mean([_of_picture(scores) for scores in pictures.values()]))
    each = [
        (_of_picture(categories[category][picture]) - means[category])
        / (len(categories[category]) * len(categories[category][picture]))
        for category, picture, _ in fields
    ]
    pictures = sum(len(pictures) for pictures in categories.values())
    # One wrong answer of two costs a picture 150 of 200 points.
    step = 150.0 * len(categories) / pictures
    yield sum(means.values()), QuestionScores(tuple(logged), np.array(each), step)


def _of_picture(scores: Sequence[float]) -> float:
    """The points of one picture of MME: 200 if both answers are right, 50 for one."""
    return 100 * sum(scores) / len(scores) + 100 * (sum(scores) == 2)


def _letters(_: str, logged: Logged) -> _Found:
    """The share of right letters in per cent, as MMBench counts them where it needs no judge.

    A question may be asked several times with its options in another order. Then it counts if all letters are right.
    """
    fields = [_fields(value, "prediction", "answer", "index") for value in logged.values()]
    if not all(fields):
        return
    questions = [int(index) % _ROTATED for *_, index in fields]
    right = np.array([float(_letter(str(prediction)) == answer) for prediction, answer, _ in fields])
    names, places, sizes = np.unique(questions, return_inverse=True, return_counts=True)
    hits = np.ones(len(names))
    np.minimum.at(hits, places, right)
    each = 100 * (hits - hits.mean())[places] / (len(names) * sizes[places])
    alone = len(names) == len(questions)
    yield 100 * float(hits.mean()), QuestionScores(tuple(logged), each, 100 / len(names), 100.0 if alone else None)


def _letter(answer: str) -> str:
    """The option that an answer names first: `B`, `B.`, `(B)`; empty if it names none."""
    words = answer.split()
    letter = words[0].strip("().,:") if words else ""
    return letter if letter in tuple(_OPTIONS) else ""


def _fields(value: Any, *names: str) -> tuple[Any, ...]:
    """The fields of what was logged; empty if one is missing."""
    if not isinstance(value, Mapping) or not all(name in value for name in names):
        return ()
    return tuple(value[name] for name in names)
