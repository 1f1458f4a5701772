"""How many answers are kept: accuracy with its interval, paired with the dense model's, question by question."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trio_profile.records.estimate import Accuracy, Difference
from trio_profile.records.schema import Dense, Measurement, Record
from trio_profile.stats.crossing import isotonic
from trio_profile.stats.intervals import difference_interval, share_interval

SHARES = (0.99, 0.97, 0.95)
"""Of the dense accuracy: what a pruned model may be asked to keep."""
_RESAMPLES = 2000


class Kept(Record):
    """The least of the sweep's retentions from which on a share of the dense accuracy is kept.

    status: `crossing` at `retention`; `always` from the first on, `never` at any; `inconclusive` when the questions
    allow both, or none keeps it and they allow that one does. ci95: from other draws of the questions; it ends at 1
    where they allow that none measured keeps the share, since all tokens kept are the dense model. prefill_speedup: at
    `retention`.
    """

    status: Literal["crossing", "always", "never", "inconclusive"]
    retention: float | None = None
    ci95: tuple[float, float] | None = None
    prefill_speedup: float | None = None


def by_question(values: Sequence[bool] | Sequence[float], questions: int) -> NDArray[np.float64]:
    """[questions] each one's mean over the draws of a method, which follow one another in `values`."""
    return np.asarray(values, dtype=float).reshape(-1, questions).mean(axis=0)


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

    The interval draws the questions anew, the same ones at every retention and for dense. As for a difference of
    shares, one question is added that dense alone answers and one that the pruned model alone does, so that answers
    that all agree still leave a doubt.
    """
    order = np.argsort(retentions)
    x = np.asarray(retentions, dtype=float)[order]
    if len(x) == 0 or dense.sum() == 0:
        return Kept(status="inconclusive")
    right = np.stack([pruned[i] for i in order])
    found = _first(right.mean(axis=1), dense.mean(), share)
    doubted = np.column_stack([right, np.zeros(len(x)), np.ones(len(x))])
    whole = np.append(dense, (1.0, 0.0))
    drawn = np.random.default_rng(seed).integers(len(whole), size=(_RESAMPLES, len(whole)))
    firsts = np.array([_first(doubted[:, some].mean(axis=1), whole[some].mean(), share) for some in drawn])
    always, never = (firsts == 0).mean(), (firsts == len(x)).mean()
    if always >= 0.975:
        return Kept(status="always", retention=float(x[0]))
    if never >= 0.975:
        return Kept(status="never")
    if found == len(x) or (always >= 0.025 and never >= 0.025):
        return Kept(status="inconclusive")
    low, high = np.append(x, 1.0)[np.quantile(firsts, [0.025, 0.975], method="inverted_cdf")]
    return Kept(
        status="crossing",
        retention=float(x[found]),
        ci95=(float(low), float(high)),
        prefill_speedup=speedups[order[found]],
    )


def _first(right: NDArray[np.float64], dense: float, share: float) -> int:
    """The first place where accuracies, fitted never to fall, are `share` of the dense one; past the end if nowhere."""
    enough = np.asarray(isotonic(right.tolist())) >= share * dense - 1e-12
    return int(enough.argmax()) if dense and enough.any() else len(right)
