"""Intervals that assume little about the noise: independent samples, or for ratios a short memory."""

from collections.abc import Sequence
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit
from scipy.stats import rankdata

from trio_profile.errors import MeasurementError

EXACT_BELOW = 12
"""With fewer samples than this, an interval is at least as wide as the sign test's."""
_RESAMPLES = 1000
_LONGER = 1.6
"""Blocks are longer by this factor than is best for a variance. The ends of an interval need longer blocks, and the
ranks have a lower lag-1 correlation than the times. Found by simulation (tests/benchmarks/test_coverage.py)."""


def median(values: Sequence[float]) -> float:
    """The median. Raises IndexError if there are no values."""
    return float(np.median(np.asarray(values)))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the sign test: two order statistics that contain the median with at least `confidence`.

    The number of samples below the true median is Binomial(n, ½) for any noise. The narrowest pair of order statistics
    with enough confidence is returned. Fewer than 6 samples cannot reach 95 %; then the range is returned.
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
    """Half the width of the median's interval, divided by the median. `--precision` bounds it."""
    low, high = median_interval(values)
    return (high - low) / 2 / median(values)


def share_interval(count: float, samples: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share.

    count: how many of the samples count. It may be a fraction.
    Raises MeasurementError if there are no samples.
    """
    if samples == 0:
        raise MeasurementError("a share of 0 samples has no interval; measure again")
    z = float(ndtri((1 + confidence) / 2))
    middle = (count + z**2 / 2) / (samples + z**2)
    reach = z / (samples + z**2) * sqrt(count * (samples - count) / samples + z**2 / 4)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def difference_interval(differences: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of paired differences of scores between 0 and 1 (Bonett & Price 2012).

    One pair with the difference 1 and one with −1 are added, and the normal interval of all is taken. So the interval
    has a width even if all pairs agree, and it shrinks with their number.
    Raises MeasurementError if there are no samples, or if one lies outside −1 … 1.
    """
    values = np.asarray(differences, dtype=float)
    if len(values) == 0 or not (np.abs(values) <= 1).all():
        raise MeasurementError(f"{len(values)} differences, not all of them from -1 to 1, have no interval")
    adjusted = np.append(values, (1.0, -1.0))
    middle = adjusted.mean()
    reach = float(ndtri((1 + confidence) / 2)) * adjusted.std() / sqrt(len(adjusted))
    return max(float(middle - reach), -1.0), min(float(middle + reach), 1.0)


def ratio_interval(ratios: Sequence[float], *, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """The interval of the median of paired ratios, by a block bootstrap on their ranks.

    Whole blocks of neighbours are resampled (circular moving blocks), because neighbours may share a disturbance. Ranks
    replace the ratios, so that tails and modes do not matter. The interval's ends are two order statistics. Their
    distance from the median is the spread of the resampled median's rank, times Student's t for the number of blocks.
    With fewer than 12 samples the interval contains the sign test's; with fewer than 6 it is the range.

    ratios: in the order in which they were measured.
    Raises MeasurementError if there are no samples, or if one is not finite.
    """
    values = np.asarray(ratios, dtype=float)
    n = len(values)
    if n == 0 or not np.isfinite(values).all():
        raise MeasurementError(f"{n} ratios, not all of them finite, have no interval; measure again")
    exact = median_interval(values.tolist(), confidence)
    # Here the sign test's interval is the whole range, and blocks need at least four samples.
    if exact == (values.min(), values.max()) and n < EXACT_BELOW:
        return exact
    ranks = rankdata(values)
    block = block_length(ranks)
    reach = _reach(n, block, confidence) * _median_spread(ranks, block, seed)
    middle = (n + 1) / 2
    low, high = np.interp([middle - reach, middle + reach], np.arange(1, n + 1), np.sort(values))
    if n < EXACT_BELOW:
        return min(float(low), exact[0]), max(float(high), exact[1])
    return float(low), float(high)


def block_length(values: Sequence[float] | NDArray[np.float64]) -> int:
    """How many neighbours are resampled together: 1 without autocorrelation, at most a quarter of the samples.

    It is the best length for an AR(1) series and circular blocks (Politis & White 2004), b³ = 3/2 · (2ρ / (1 − ρ²))² ·
    n, times a factor. ρ is the lag-1 autocorrelation. A negative ρ would make intervals narrower and is taken as 0.
    """
    n = len(values)
    rho = min(max(autocorrelation(values), 0.0), 0.9)
    best = (1.5 * (2 * rho / (1 - rho**2)) ** 2 * n) ** (1 / 3)
    return int(np.clip(round(_LONGER * best), 1, max(n // 4, 1)))


def autocorrelation(values: Sequence[float] | NDArray[np.float64]) -> float:
    """The lag-1 autocorrelation, corrected for its bias by +(1 + 3ρ) / n (Kendall 1954). 0 if nothing varies."""
    deviations = np.asarray(values, dtype=float) - np.mean(values)
    total = float(deviations @ deviations)
    if total == 0:
        return 0.0
    rho = float(deviations[1:] @ deviations[:-1]) / total
    return rho + (1 + 3 * rho) / len(deviations)


def _median_spread(ranks: NDArray[np.float64], block: int, seed: int) -> float:
    """The standard deviation of the median's rank when blocks are resampled."""
    n = len(ranks)
    starts = np.random.default_rng(seed).integers(n, size=(_RESAMPLES, -(-n // block)))
    drawn = (starts[:, :, None] + np.arange(block)).reshape(_RESAMPLES, -1)[:, :n] % n
    return float(np.median(ranks[drawn], axis=1).std())


def _reach(n: int, block: int, confidence: float) -> float:
    """The half width of the interval in spreads. It corrects that blocks underestimate the variance."""
    tail = (1 + confidence) / 2
    # For single samples the spread of the median's rank is known exactly, so the normal quantile is right.
    quantile = ndtri(tail) if block == 1 else stdtrit(n / block - 1, tail)
    return float(quantile) * sqrt(n / (n - block))
