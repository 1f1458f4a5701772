"""Break-even: up to which retention pruning is certainly cheaper, and from which on it certainly is not."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from trio_profile.records.schema import Record
from trio_profile.stats.two_way import Centre

Status = Literal["always", "gain", "crossing", "loss", "never", "inconclusive"]
Line = NDArray[np.float64]
"""A line through the sweep: its height at each retention."""


class BreakEven(Record):
    """Where one quantity's ratio, pruned over dense, crosses 1.

    Certain gain and certain loss hold together with a probability of 95 %, for all retentions at once.

    status: `always` if the gain is certain at all retentions that were measured; `never` if the loss is; `crossing` if
        a gain and a loss are certain; `gain` or `loss` if only one of them is; `inconclusive` if neither is.
    retention: where the fitted line crosses 1; None if it does not.
    ci95: the undecided range: from the end of the certain gain to the beginning of the certain loss, limited to the
        retentions that were measured; None if nothing is undecided, and if there is no interval.
    certain_gain: pruning certainly pays up to this retention; None if it does at none.
    certain_loss: pruning certainly costs more from this retention on; None if it does at none.
    measured: the lowest and the highest retention that were measured; None without a measurement.
    """

    status: Status
    retention: float | None = None
    ci95: tuple[float, float] | None = None
    certain_gain: float | None = None
    certain_loss: float | None = None
    measured: tuple[float, float] | None = None


def measured_break_even(retentions: Sequence[float], ratios: Sequence[Centre]) -> BreakEven:
    """Return the break-even of a timed quantity.

    Keeping more tokens never costs less. So the retentions are tested in a fixed order, from the lowest one up for a
    gain, and from the highest one down for a loss. Each test is at 97.5 %, and the first that fails ends its sequence.
    Then one wrong step is as unlikely as one wrong test, however many retentions there are [Maurer, Hothorn & Lehmacher
    1995]. Between two retentions that were measured, the ratio and the limits of its interval follow straight lines.
    The crossing is that of the sequence that never falls and is nearest to the ratios.

    ratios: pruned over dense, of each retention.
    """
    if len(retentions) == 0:
        return BreakEven(status="inconclusive")
    order = [int(i) for i in np.argsort(retentions, kind="stable")]
    x = np.asarray(retentions, dtype=float)[order]
    intervals = [ratios[i].interval() for i in order]
    measured = float(x[0]), float(x[-1])
    gain = _last_certain(x, [1 - high for _, high in intervals])
    loss = _last_certain(x[::-1], [low - 1 for low, _ in reversed(intervals)])
    line = _fit([ratios[i].value for i in order]) - 1
    crossing = first_crossing(x, line)
    certain = gain == measured[1] or loss == measured[0]
    return BreakEven(
        status=_status(gain, loss, measured),
        retention=None if certain or not np.isfinite(crossing) else float(crossing),
        ci95=None if certain else (measured[0] if gain is None else gain, measured[1] if loss is None else loss),
        certain_gain=gain,
        certain_loss=loss,
        measured=measured,
    )


def _last_certain(x: Line, margins: Sequence[float]) -> float | None:
    """Return how far a test succeeds without a failure before; None if the first one fails.

    x: the retentions in the order of the tests. margins: of each test; it succeeds above 0.
    """
    if margins[0] <= 0:
        return None
    failure = next((number for number, margin in enumerate(margins) if margin <= 0), None)
    if failure is None:
        return float(x[-1])
    before, after = margins[failure - 1], margins[failure]
    return float(x[failure - 1] + (x[failure] - x[failure - 1]) * before / (before - after))


def _status(gain: float | None, loss: float | None, measured: tuple[float, float]) -> Status:
    if gain == measured[1]:
        return "always"
    if loss == measured[0]:
        return "never"
    if gain is not None and loss is not None:
        return "crossing"
    return "gain" if gain is not None else "loss" if loss is not None else "inconclusive"


def exact_break_even(retentions: Sequence[float], costs: Sequence[float], dense: float) -> BreakEven:
    """Return the break-even of a counted quantity, which has no noise: where the line through the sweep crosses 1.

    costs: of each retention.
    dense: the dense model's cost.
    """
    order = np.argsort(retentions)
    x = np.asarray(retentions, dtype=float)[order]
    if len(x) == 0:
        return BreakEven(status="inconclusive")
    fit = _fit(np.asarray(costs, dtype=float)[order] / dense) - 1
    measured = float(x[0]), float(x[-1])
    crossing = first_crossing(x, fit)
    if np.isposinf(crossing):
        return BreakEven(status="always", certain_gain=measured[1], measured=measured)
    if np.isneginf(crossing):
        return BreakEven(status="never", certain_loss=measured[0], measured=measured)
    ends = {"ci95": (crossing, crossing), "certain_gain": crossing, "certain_loss": crossing}
    return BreakEven(status="crossing", retention=crossing, measured=measured, **ends)


def first_crossing(x: Line, line: Line) -> float:
    """Where a line first reaches 0. +inf if it stays below 0, −inf if it starts at 0 or above."""
    reached = np.flatnonzero(line >= 0)
    if len(reached) == 0:
        return np.inf
    i = int(reached[0])
    if i == 0:
        return -np.inf
    return float(x[i - 1] - line[i - 1] / (line[i] - line[i - 1]) * (x[i] - x[i - 1]))


def _fit(values: Sequence[float] | Line) -> Line:
    """The sequence that never falls and is nearest to the values (least squares)."""
    return isotonic_regression(np.asarray(values, dtype=float)).x
