"""Break-even: the retention at which a cost ratio, pruned over dense, crosses 1."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from trio_profile.records.schema import Record
from trio_profile.stats.resampling import draws, percentile_interval

Status = Literal["crossing", "always", "never", "inconclusive"]
_RESAMPLES = 2000


class BreakEven(Record):
    """Where one quantity's ratio crosses 1.

    status: `crossing` if it crosses at `retention`; `always` if pruning is cheaper at all retentions of the sweep;
        `never` if it is cheaper at none; `inconclusive` if the noise allows more than one of these.
    retention: of the crossing.
    ci95: its interval, limited to the sweep.
    """

    status: Status
    retention: float | None = None
    ci95: tuple[float, float] | None = None


def measured_break_even(retentions: Sequence[float], ratios: Sequence[Sequence[float]], seed: int = 0) -> BreakEven:
    """Break-even of a timed quantity from the paired ratios (pruned / dense) of each retention.

    The medians are fitted by a sequence that never falls, because keeping more tokens never costs less. Between two
    retentions the fit is a straight line. The interval draws the pairs of each retention again and repeats the fit.

    ratios: of each retention.
    """
    order = np.argsort(retentions)
    x = np.asarray(retentions, dtype=float)[order]
    samples = [np.asarray(ratios[i], dtype=float) for i in order]
    if len(x) == 0:
        return BreakEven(status="inconclusive")
    weights = np.array([len(sample) for sample in samples], dtype=float)
    best = first_crossing(x, np.array([np.median(sample) for sample in samples]), weights)
    generator = np.random.default_rng(seed)
    resampled = np.stack(
        [np.median(sample[draws(len(sample), _RESAMPLES, generator)], axis=1) for sample in samples], axis=1
    )
    crossings = np.array([first_crossing(x, medians, weights) for medians in resampled])
    always, never = np.isposinf(crossings).mean(), np.isneginf(crossings).mean()
    if always >= 0.975:
        return BreakEven(status="always")
    if never >= 0.975:
        return BreakEven(status="never")
    if (always >= 0.025 and never >= 0.025) or not np.isfinite(crossings).any():
        return BreakEven(status="inconclusive")
    ci95 = percentile_interval(np.clip(crossings, x[0], x[-1]))
    return BreakEven(status="crossing", retention=float(np.clip(best, x[0], x[-1])), ci95=ci95)


def exact_break_even(retentions: Sequence[float], costs: Sequence[float], dense: float) -> BreakEven:
    """Break-even of a counted quantity, which has no noise: where the line through the sweep crosses 1.

    costs: of each retention.
    dense: the dense model's cost.
    """
    order = np.argsort(retentions)
    x = np.asarray(retentions, dtype=float)[order]
    if len(x) == 0:
        return BreakEven(status="inconclusive")
    crossing = first_crossing(x, np.asarray(costs, dtype=float)[order] / dense, np.ones(len(x)))
    if np.isposinf(crossing):
        return BreakEven(status="always")
    if np.isneginf(crossing):
        return BreakEven(status="never")
    return BreakEven(status="crossing", retention=float(crossing), ci95=(float(crossing), float(crossing)))


def isotonic(ratios: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """The sequence that never falls and is nearest to `ratios` (weighted least squares)."""
    return isotonic_regression(np.asarray(ratios, dtype=float), weights=weights).x.tolist()


def first_crossing(x: NDArray[np.float64], ratios: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Where the fitted line first reaches 1. +inf if it stays below 1, −inf if it starts above."""
    y = isotonic_regression(ratios, weights=weights).x
    above = np.flatnonzero(y >= 1)
    if len(above) == 0:
        return np.inf
    i = int(above[0])
    if i == 0:
        return -np.inf
    return float(x[i - 1] + (1 - y[i - 1]) / (y[i] - y[i - 1]) * (x[i] - x[i - 1]))
