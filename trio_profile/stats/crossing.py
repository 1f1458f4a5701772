"""Break-even: the retention at which a cost ratio, pruned over dense, crosses 1."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from trio_profile.records.schema import Record
from trio_profile.stats.intervals import Groups, centre, ratio_interval

Status = Literal["crossing", "always", "never", "inconclusive"]
Line = NDArray[np.float64]
"""A line through the sweep: its height at each retention."""


class BreakEven(Record):
    """Where one quantity's ratio crosses 1.

    status: `crossing` if the fitted line crosses 1, at `retention`; `always` if pruning is cheaper at all retentions
        that were measured; `never` if it is cheaper at none; `inconclusive` if the noise allows more than one of these.
    retention: of the crossing.
    ci95: where the crossing lies, limited to the retentions that were measured. An inconclusive result has it too:
        there it says where a crossing may lie, if there is one.
    measured: the lowest and the highest retention that were measured; None in old documents and without a measurement.
    """

    status: Status
    retention: float | None = None
    ci95: tuple[float, float] | None = None
    measured: tuple[float, float] | None = None


def measured_break_even(retentions: Sequence[float], ratios: Sequence[Groups], machine: float = 0.0) -> BreakEven:
    """Break-even of a timed quantity from the paired ratios (pruned / dense) of each retention.

    The ratios' medians are fitted by a sequence that never falls, because keeping more tokens never costs less. Between
    two retentions the fit is a straight line. The ends of each retention's 95 % interval, joined by straight lines, are
    a band around the fit. The interval of the break-even is where the band contains 1. It holds whether the retentions
    share the deviation of a session or each has its own.

    ratios: of each retention by session, each session in the order of measurement.
    machine: the spread of the machine's state, see `intervals.machine_spread`.
    """
    if len(retentions) == 0:
        return BreakEven(status="inconclusive")
    x, fit, medians, (low, high) = _fitted(retentions, ratios, machine)
    return _place(x, fit, fit + low - medians, fit + high - medians)


def contradictions(retentions: Sequence[float], ratios: Sequence[Groups]) -> tuple[float, ...]:
    """Return the retentions whose own interval lies on the other side of 1 than the fit of `measured_break_even`.

    If there is one, the ratio does not rise steadily: it crosses 1 more than once, or falls through it.
    """
    if len(retentions) == 0:
        return ()
    x, fit, _, (low, high) = _fitted(retentions, ratios)
    against = ((fit < 0) & (low > 0)) | ((fit > 0) & (high < 0))
    return tuple(float(one) for one in x[against])


def _fitted(
    retentions: Sequence[float], ratios: Sequence[Groups], machine: float = 0.0
) -> tuple[Line, Line, Line, Line]:
    """Return the sorted retentions, and the fit, the medians and the ends of their intervals, each minus 1.

    The ends are [2, retentions].
    """
    order = np.argsort(retentions)
    groups = [ratios[i] for i in order]
    medians = np.array([centre(one) for one in groups])
    ends = np.array([ratio_interval(one, machine=machine) for one in groups]).T
    medians, ends = medians - 1, ends - 1
    fit = _fit(medians, [sum(len(session) for session in one) for one in groups])
    return np.asarray(retentions, dtype=float)[order], fit, medians, ends


def exact_break_even(retentions: Sequence[float], costs: Sequence[float], dense: float) -> BreakEven:
    """Break-even of a counted quantity, which has no noise: where the line through the sweep crosses 1.

    costs: of each retention.
    dense: the dense model's cost.
    """
    order = np.argsort(retentions)
    x = np.asarray(retentions, dtype=float)[order]
    if len(x) == 0:
        return BreakEven(status="inconclusive")
    fit = _fit(np.asarray(costs, dtype=float)[order] / dense) - 1
    measured = _ends(x)
    crossing = first_crossing(x, fit)
    if np.isposinf(crossing):
        return BreakEven(status="always", measured=measured)
    if np.isneginf(crossing):
        return BreakEven(status="never", measured=measured)
    return BreakEven(status="crossing", retention=crossing, ci95=(crossing, crossing), measured=measured)


def first_crossing(x: Line, line: Line) -> float:
    """Where a line first reaches 0. +inf if it stays below 0, −inf if it starts at 0 or above."""
    reached = np.flatnonzero(line >= 0)
    if len(reached) == 0:
        return np.inf
    i = int(reached[0])
    if i == 0:
        return -np.inf
    return float(x[i - 1] - line[i - 1] / (line[i] - line[i - 1]) * (x[i] - x[i - 1]))


def _place(x: Line, fit: Line, low: Line, high: Line) -> BreakEven:
    """The break-even of a fit with a band from `low` to `high`, each less 1."""
    measured = _ends(x)
    crossing = first_crossing(x, fit)
    if np.isposinf(crossing) and high[-1] < 0:
        return BreakEven(status="always", measured=measured)
    if np.isneginf(crossing) and low[0] > 0:
        return BreakEven(status="never", measured=measured)
    # The interval begins where the upper line first reaches 0, and ends where the lower line last leaves it.
    begin = first_crossing(x, high)
    end = -first_crossing(-x[::-1], -low[::-1])
    ci95 = float(np.clip(begin, *measured)), float(np.clip(end, *measured))
    if np.isinf(crossing) or np.isinf([begin, end]).all():
        return BreakEven(status="inconclusive", ci95=ci95, measured=measured)
    return BreakEven(status="crossing", retention=crossing, ci95=ci95, measured=measured)


def _fit(values: Sequence[float] | Line, weights: Sequence[float] | None = None) -> Line:
    """The sequence that never falls and is nearest to the values (weighted least squares)."""
    return isotonic_regression(np.asarray(values, dtype=float), weights=weights).x


def _ends(x: Line) -> tuple[float, float]:
    return float(x[0]), float(x[-1])
