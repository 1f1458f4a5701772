"""How many answers are kept: accuracy with its interval, paired with the dense model's, question by question."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trio_profile.analysis.break_even import first_crossing, isotonic
from trio_profile.intervals import difference_interval, share_interval
from trio_profile.schema import Dense, Measurement, Record

SHARES = (0.99, 0.97, 0.95)
"""Of the dense accuracy: what a pruned model may be asked to keep."""
_RESAMPLES = 2000


class Accuracy(Record):
    """A share of questions answered as is known, with Wilson's 95 % interval. samples: questions."""

    value: float
    ci95: tuple[float, float]
    samples: int


class Difference(Record):
    """One accuracy less another over the same questions, with a paired 95 % interval."""

    value: float
    ci95: tuple[float, float]
    samples: int


class Kept(Record):
    """The least retention from which on a share of the dense accuracy is kept.

    status: `crossing` at `retention`; `always` or `never` at the retentions of the sweep; `inconclusive` when the
    questions allow both. ci95: from other draws of the questions. prefill_speedup: there.
    """

    status: Literal["crossing", "always", "never", "inconclusive"]
    retention: float | None = None
    ci95: tuple[float, float] | None = None
    prefill_speedup: float | None = None


def by_question(correct: Sequence[bool], questions: int) -> NDArray[np.float64]:
    """[questions] each one's share of right answers over the seeds, which follow one another in `correct`."""
    return np.asarray(correct, dtype=float).reshape(-1, questions).mean(axis=0)


def right(measurement: Measurement, dense: Dense | None) -> NDArray[np.float64] | None:
    """`by_question` of what a cell answered; None where no answer is known."""
    if dense is None or not dense.correct or measurement.fidelity is None or not measurement.fidelity.correct:
        return None
    return by_question(measurement.fidelity.correct, len(dense.correct))


def accuracy(shares: NDArray[np.float64]) -> Accuracy:
    """Of questions; one that a draw answers in two of three seeds counts two thirds."""
    count, samples = float(shares.sum()), len(shares)
    return Accuracy(value=count / samples, ci95=share_interval(count, samples), samples=samples)


def by_kind(shares: NDArray[np.float64], kinds: Sequence[str]) -> dict[str, Accuracy]:
    """The accuracy of each kind of question, where they have kinds."""
    names = sorted({kind for kind in kinds if kind})
    return {name: accuracy(shares[[kind == name for kind in kinds]]) for name in names}


def difference(shares: NDArray[np.float64], others: NDArray[np.float64]) -> Difference:
    """The first less the second, paired by question."""
    differences = (shares - others).tolist()
    return Difference(
        value=float(np.mean(differences)), ci95=difference_interval(differences), samples=len(differences)
    )


def kept(
    retentions: Sequence[float],
    pruned: Sequence[NDArray[np.float64]],
    dense: NDArray[np.float64],
    share: float,
    speedups: Sequence[float],
    seed: int = 0,
) -> Kept:
    """From which retention on `share` of the dense accuracy is kept, by a fit that never falls with retention.

    The interval draws the questions anew, the same ones at every retention and for dense.
    """
    order = np.argsort(retentions)
    x = np.asarray(retentions, dtype=float)[order]
    if len(x) == 0 or dense.sum() == 0:
        return Kept(status="inconclusive")
    right = np.stack([pruned[i] for i in order])
    found = _reaches(x, right.mean(axis=1), dense.mean(), share)
    drawn = np.random.default_rng(seed).integers(len(dense), size=(_RESAMPLES, len(dense)))
    crossings = np.array([_reaches(x, right[:, some].mean(axis=1), dense[some].mean(), share) for some in drawn])
    always, never = np.isneginf(crossings).mean(), np.isposinf(crossings).mean()
    if always >= 0.975:
        return Kept(status="always", retention=float(x[0]))
    if never >= 0.975:
        return Kept(status="never")
    if always >= 0.025 and never >= 0.025:
        return Kept(status="inconclusive")
    low, high = np.quantile(np.clip(crossings, x[0], x[-1]), [0.025, 0.975])
    at = float(np.clip(found, x[0], x[-1]))
    times = isotonic([1 / speedups[i] for i in order])
    return Kept(
        status="crossing",
        retention=at,
        ci95=(float(low), float(high)),
        prefill_speedup=float(1 / np.interp(at, x, times)),
    )


def _reaches(x: NDArray[np.float64], right: NDArray[np.float64], dense: float, share: float) -> float:
    """Where the fitted accuracy first is `share` of the dense one; −inf where it is from the start, +inf nowhere."""
    if dense == 0:
        return np.inf
    return first_crossing(x, right / (share * dense), np.ones(len(x)))
