"""Whether samples have two modes."""

from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

LEAST_MODE = 0.15
"""The least share of the samples in a mode. Fewer samples are outliers."""


def two_modes(values: NDArray[np.float64]) -> tuple[float, float]:
    """Cut the values in two at the best place. Return the share of the deviation that is left, and the upper share.

    The deviation is the mean absolute deviation from the median. After the cut each side has its own median. A value of
    the outer 5 % on each side is replaced by the nearest inner value, and each side holds at least LEAST_MODE of the
    values, so that outliers are not a mode. The result is (1, 0) if all values are equal.

    values: [n].
    """
    n = len(values)
    ordered = np.clip(np.sort(values), *np.quantile(values, [0.05, 0.95]))
    whole = _deviation(ordered)
    if whole == 0:
        return 1.0, 0.0
    least = ceil(LEAST_MODE * n)
    cuts = range(least, n - least + 1)
    left = [_deviation(ordered[:cut]) + _deviation(ordered[cut:]) for cut in cuts]
    best = int(np.argmin(left))
    return left[best] / whole, 1 - cuts[best] / n


def chance_of_two_modes(left: float, n: int) -> tuple[float, float]:
    """Return the usual share of the deviation that is left with one mode, and the probability of `left` or less.

    With one normal mode the share is nearly normal. Its mean and its deviation were fitted to 3,000 simulations of each
    of 20 … 192 samples; the deviation is rounded up, because small shares are a little more likely than normal.

    left: the share that `two_modes` returned.
    n: number of samples, 20 or more.
    """
    usual = 0.571 - 1.26 / n
    return usual, float(norm.cdf(left, usual, (0.42 - 0.42 / n**0.5) / n**0.5))


def _deviation(values: NDArray[np.float64]) -> float:
    """Return the sum of the absolute deviations from the median."""
    return float(np.abs(values - np.median(values)).sum())
