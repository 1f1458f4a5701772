"""Medians with intervals that assume nothing of the noise but that samples are exchangeable."""

from collections.abc import Sequence
from math import comb

import numpy as np


def median(values: Sequence[float]) -> float:
    """The median. Raises IndexError on nothing."""
    return float(np.median(np.asarray(values)))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Order statistics around the median that hold it with at least `confidence` (the interval of the sign test).

    The count of samples below the true median is Binomial(n, ½), whatever the noise; the narrowest pair of order
    statistics that bears the confidence is returned. Fewer than 6 samples cannot bear 95 %: they give their own range.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, k = 0.0, 0
    while k < n // 2:
        tail += comb(n, k) / 2**n
        if tail > (1 - confidence) / 2:
            break
        k += 1
    low = max(k - 1, 0)
    return ordered[low], ordered[n - 1 - low]


def relative_half_width(values: Sequence[float]) -> float:
    """Half the width of the median's interval over the median: what `--precision` bounds."""
    low, high = median_interval(values)
    return (high - low) / 2 / median(values)
