"""How much each question moves a score of lmms-eval.

The score is computed again from what lmms-eval logs for each question.
If the result is lmms-eval's own number, the rule is known, and the effects are returned. Known rules: the mean, F1 of
yes and no (POPE), the total of MME, and the letters of MMBench.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

Results = Mapping[str, Any]
"""lmms-eval's results for one model: `results`, `samples`, `higher_is_better` and `configs`, each by task."""
Logged = Mapping[int, Any]
"""The values that lmms-eval logs for a metric, by the number of the question."""
_ROTATED = 1_000_000
"""MMBench adds this to the number of a question that it asks again with its options in another order."""


@dataclass(frozen=True)
class QuestionScores:
    """A score, and the effects of all questions on it.

    documents: [n] numbers of the questions.
    value: the score.
    each: [n] how much each question moves the score. They sum to 0.
    step: how far one question can move the score.
    whole: for a mean of scores between 0 and 1, the score if all are 1; otherwise None.
    """

    documents: tuple[int, ...]
    value: float
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
    rules = (rule(metric, logged) for rule in (_f1, _mme_total, _letters, _mean))
    known = (rule for rule in rules if rule is not None and isclose(rule.value, value, rel_tol=1e-9, abs_tol=1e-9))
    return next((rule for rule in known if _is_plain(rule, results, task, metric)), None)


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


def _mean(_: str, logged: Logged) -> QuestionScores | None:
    """The mean of the questions' scores."""
    scores = [number(value.get("score") if isinstance(value, Mapping) else value) for value in logged.values()]
    if None in scores:
        return None
    values = np.array(scores, dtype=float)
    is_share = bool(((values >= 0) & (values <= 1)).all())
    step = max(1.0, float(np.abs(values).max())) / len(values)
    each = (values - values.mean()) / len(values)
    return QuestionScores(tuple(logged), float(values.mean()), each, step, 1.0 if is_share else None)


def _f1(metric: str, logged: Logged) -> QuestionScores | None:
    """F1 of the answer yes, as POPE counts it. Answers that are neither yes nor no do not count."""
    pairs = _fields(logged, "prediction", "ground_truth")
    if "f1" not in metric or not pairs:
        return None
    answers, truth = (np.array(side) for side in zip(*pairs, strict=True))
    hits = 2.0 * ((answers == "yes") & (truth == "yes"))
    counted = 1.0 * (answers == "yes") + ((answers == "yes") | (answers == "no")) * (truth == "yes")
    if not counted.sum():
        return None
    value = float(hits.sum() / counted.sum())
    each = (hits - value * counted) / counted.sum()
    return QuestionScores(tuple(logged), value, each, step=2 / float(counted.sum()))


def _mme_total(_metric: str, logged: Logged) -> QuestionScores | None:
    """MME's total: the sum over categories of the mean points of a picture."""
    fields = _fields(logged, "category", "question_id", "score")
    categories: defaultdict[str, list[int]] = defaultdict(list)
    for place, (category, *_others) in enumerate(fields):
        categories[category].append(place)
    if not categories:
        return None
    total, pictures, each = 0.0, 0, np.zeros(len(fields))
    for places in categories.values():
        _, names, scores = zip(*(fields[place] for place in places), strict=True)
        mean, count, each[places] = _mean_of_groups(names, [*map(float, scores)], _points_of_picture)
        total, pictures = total + mean, pictures + count
    # One wrong answer of two costs a picture 150 of 200 points.
    return QuestionScores(tuple(logged), total, each, step=150.0 * len(categories) / pictures)


def _points_of_picture(scores: Sequence[float]) -> float:
    """The points of one picture of MME: 200 if both answers are right, 50 for one."""
    return 100 * sum(scores) / len(scores) + 100 * (sum(scores) == 2)


def _letters(_: str, logged: Logged) -> QuestionScores | None:
    """The share of right letters in per cent, as MMBench counts them where it needs no judge.

    A question may be asked several times with its options in another order. Then it counts if all letters are right.
    """
    fields = _fields(logged, "prediction", "answer", "index")
    if not fields:
        return None
    right = [100.0 * (_letter(str(prediction)) == answer) for prediction, answer, _ in fields]
    mean, count, each = _mean_of_groups([int(index) % _ROTATED for *_, index in fields], right, min)
    return QuestionScores(tuple(logged), mean, each, 100 / count, 100.0 if count == len(fields) else None)


def _letter(answer: str) -> str:
    """The option that an answer names first: `B`, `B.`, `(B)`; empty if it names none."""
    letter = next(iter(answer.split()), "").strip("().,:")
    return letter if letter in tuple("ABCDE") else ""


def _mean_of_groups(
    names: Sequence[Hashable], scores: Sequence[float], points: Callable[[Sequence[float]], float]
) -> tuple[float, int, NDArray[np.float64]]:
    """Return the mean points of groups of questions, the number of groups, and how much each question moves the mean.

    names: [n], the group of each question. points: makes the points of a group from the scores of its questions.
    """
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        groups[name].append(place)
    of_groups = {name: points([scores[place] for place in places]) for name, places in groups.items()}
    mean = float(np.mean([*of_groups.values()]))
    each = [(of_groups[name] - mean) / (len(groups) * len(groups[name])) for name in names]
    return mean, len(groups), np.array(each)


def _fields(logged: Logged, *names: str) -> list[tuple[Any, ...]]:
    """The fields of what was logged for each question; empty if one is missing."""
    rows = [value for value in logged.values() if isinstance(value, Mapping) and set(names) <= set(value)]
    return [tuple(row[name] for name in names) for row in rows] if len(rows) == len(logged) else []
