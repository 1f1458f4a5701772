"""Accuracy with its interval, and how it differs from the dense model's accuracy on the same questions.

An array [Q] holds one number for each of Q questions: 1 if its answer is right, 0 if it is wrong. A random method
answers each question with several seeds; then the number is the share of right answers.

Questions about one picture are similar, so all intervals treat them together. `pictures` is the number of the picture
of each question, [Q]; empty if each question has a picture of its own.
"""

from collections.abc import Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from trio_profile.records.estimate import Accuracy, Difference, Estimate
from trio_profile.records.schema import Dense, Measurement, Record
from trio_profile.stats.intervals import Interval, difference_interval, loss_interval, share_interval
from trio_profile.stats.resampling import draws, percentile_interval

SHARES = (0.99, 0.97, 0.95)
"""The shares of the dense accuracy for which the least retention is reported."""
_RESAMPLES = 2000
S = TypeVar("S", bound=Estimate)
_CERTAIN, _POSSIBLE = 0.975, 0.025
"""The shares of resamples from which on an outcome counts as certain and as possible: the ends of a 95 % interval."""


class AccuracyKept(Record):
    """The least retention from which on a method keeps a share of the dense accuracy.

    status: `crossing` if the share is kept from `retention` on; `always` if it is kept from the lowest retention on;
        `never` if it is kept at no retention; `inconclusive` if the questions cannot rule out either outcome.
    retention: the least retention; None if the share is never kept or the result is inconclusive.
    ci95: interval of the retention, from resampled questions. It ends at 1 if the share may be kept at no retention of
        the sweep, because with all tokens the pruned model equals the dense model.
    """

    status: Literal["crossing", "always", "never", "inconclusive"]
    retention: float | None = None
    ci95: tuple[float, float] | None = None


def by_question(values: Sequence[bool] | Sequence[float], questions: int) -> NDArray[np.float64]:
    """Return the mean over seeds for each question, [Q].

    values: [seeds · Q], all questions of the first seed first.
    questions: Q.
    """
    return np.asarray(values, dtype=float).reshape(-1, questions).mean(axis=0)


def correct_shares(measurement: Measurement, dense: Dense | None) -> NDArray[np.float64] | None:
    """Return [Q], the share of right answers of a cell to each of its questions; None if no answers are known.

    They are the first Q questions of the dense model: more may have been asked of some cells.
    """
    if dense is None or not dense.correct or measurement.fidelity is None or not measurement.fidelity.correct:
        return None
    return by_question(measurement.fidelity.correct, measurement.fidelity.questions)


def mean_share(values: NDArray[np.float64], kind: type[S], pictures: Sequence[int] = ()) -> S:
    """Return the mean of values between 0 and 1, [Q], with Wilson's interval.

    kind: the class of the result: Accuracy or Share.
    """
    clusters = pictures[: len(values)]
    return kind(value=float(values.mean()), ci95=share_interval(values, clusters=clusters), samples=len(values))


def accuracy(shares: NDArray[np.float64], pictures: Sequence[int] = ()) -> Accuracy:
    """Return the accuracy. A question with two right answers from three seeds counts two thirds.

    shares: [Q], the share of right answers to each question.
    """
    return mean_share(shares, Accuracy, pictures)


def by_kind(shares: NDArray[np.float64], kinds: Sequence[str], pictures: Sequence[int] = ()) -> dict[str, Accuracy]:
    """Return the accuracy for each kind of question.

    shares: [Q], the share of right answers to each question.
    kinds: [Q], the kind of each question; empty if it has none.
    """
    accuracies: dict[str, Accuracy] = {}
    kinds = kinds[: len(shares)]
    for name in sorted({kind for kind in kinds if kind}):
        chosen = [number for number, kind in enumerate(kinds) if kind == name]
        accuracies[name] = accuracy(shares[chosen], [pictures[number] for number in chosen] if pictures else ())
    return accuracies


def difference(shares: NDArray[np.float64], others: NDArray[np.float64], pictures: Sequence[int] = ()) -> Difference:
    """Return one accuracy minus another, with an interval that is paired by question.

    shares, others: [Q], the share of right answers to each question. Only questions that both answered count.
    """
    differences = _lost(others, shares)
    return Difference(
        value=float(differences.mean()),
        ci95=difference_interval(differences, clusters=pictures[: len(differences)]),
        samples=len(differences),
    )


def paired_difference(measurement: Measurement, other: Measurement | None, dense: Dense | None) -> Difference | None:
    """Return the accuracy of a cell minus that of another cell; None if one of them is not known."""
    shares = correct_shares(measurement, dense)
    others = None if other is None else correct_shares(other, dense)
    if shares is None or others is None or dense is None:
        return None
    return difference(shares, others, dense.pictures)


def lost_answers(measurement: Measurement, dense: Dense | None, level: float) -> tuple[float, Interval | None]:
    """Return the share of right answers that a cell loses, and its interval. 0 and None if no answers are known.

    level: of the interval.
    """
    shares = correct_shares(measurement, dense)
    if shares is None or dense is None:
        return 0.0, None
    lost = _lost(shares, by_question(dense.correct, len(dense.correct)))
    return float(lost.mean()), loss_interval(lost, dense.pictures[: len(lost)], level)


def _lost(shares: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the second minus the first, for each question that both answered."""
    both = min(len(shares), len(others))
    return others[:both] - shares[:both]


def accuracy_kept(
    retentions: Sequence[float],
    pruned: Sequence[NDArray[np.float64]],
    dense: NDArray[np.float64],
    share: float,
    pictures: Sequence[int] = (),
) -> AccuracyKept:
    """Return the least retention from which on a share of the dense accuracy is kept.

    The accuracies are fitted so that they never fall when the retention grows. The interval resamples the questions
    picture by picture, the same ones at each retention and for the dense model. Two questions are added, as for a
    difference of shares: only the dense model answers one of them, and only the pruned model answers the other. Where
    questions share pictures, the added questions fill two pictures. So even a sample in which all answers agree leaves
    some uncertainty.

    retentions: [R], in any order.
    pruned: R arrays [Q], the share of right answers to each question.
    dense: [Q], the dense model's.
    share: the share of the dense accuracy to keep.
    """
    order = np.argsort(retentions)
    ascending = np.asarray(retentions, dtype=float)[order]
    if len(ascending) == 0 or dense.sum() == 0:
        return AccuracyKept(status="inconclusive")
    answers = np.stack([pruned[i] for i in order])
    reached = int(_first_indices(answers.mean(axis=1, keepdims=True), dense.mean(keepdims=True), share)[0])
    first = _resampled_first_indices(answers, dense, share, pictures)
    always, never = (first == 0).mean(), (first == len(ascending)).mean()
    if always >= _CERTAIN:
        return AccuracyKept(status="always", retention=float(ascending[0]))
    if never >= _CERTAIN:
        return AccuracyKept(status="never")
    if reached == len(ascending) or min(always, never) >= _POSSIBLE:
        return AccuracyKept(status="inconclusive")
    return AccuracyKept(
        status="crossing",
        retention=float(ascending[reached]),
        ci95=percentile_interval(np.append(ascending, 1.0)[first], method="inverted_cdf"),
    )


def _resampled_first_indices(
    answers: NDArray[np.float64], dense: NDArray[np.float64], share: float, pictures: Sequence[int]
) -> NDArray[np.intp]:
    """Return `_first_indices` for each resample of the questions. The added questions fill two pictures of usual size.

    answers: [R, Q], by ascending retention.
    dense: [Q].
    """
    each = round(len(dense) / len(set(pictures))) if pictures else 1
    added = np.repeat([1.0, 0.0], each)
    more_answers = np.column_stack([answers, np.tile(1 - added, (len(answers), 1))])
    more_dense = np.append(dense, added)
    clusters = (*pictures, *[max(pictures) + 1] * each, *[max(pictures) + 2] * each) if pictures else ()
    drawn = draws(len(more_dense), _RESAMPLES, clusters=clusters)
    accuracies = np.stack([row[drawn].mean(axis=1) for row in more_answers])
    return _first_indices(accuracies, more_dense[drawn].mean(axis=1), share)


def _first_indices(accuracies: NDArray[np.float64], dense: NDArray[np.float64], share: float) -> NDArray[np.intp]:
    """Return the first index at which the fitted accuracy reaches `share` of the dense one; the length if none does.

    The fit is the one that never falls and is nearest (isotonic regression). It reaches a level where the sum of all
    accuracies before, each less the level, is least. So the fit itself is not needed.

    accuracies: [R, S], by ascending retention, of S resamples.
    dense: [S].
    """
    above = accuracies - (share * dense - 1e-12)
    sums = np.concatenate([np.zeros((1, above.shape[1])), above.cumsum(axis=0)])
    return np.where(dense > 0, sums.argmin(axis=0), len(accuracies))
