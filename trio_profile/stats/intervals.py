"""The intervals of medians and of shares. They assume little about the noise.

Samples that belong together are treated together: neighbours in time, questions about one picture, runs of one session
(see stats/resampling.py). Times come in groups: one group for each session, each in the order of measurement.
"""

import statistics
from collections.abc import Sequence
from math import comb, hypot, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from trio_profile.errors import MeasurementError
from trio_profile.stats.resampling import are_alone, block_length, block_spread, cluster_spread

MACHINE_SPREAD = 0.0125
"""How much the state of a CPU machine moves the speed-ups of two runs apart, as a standard deviation on the logarithmic
scale. The sessions of one study run within minutes and share this state, so they cannot show it. Measured on two shared
cores with one and two threads: of 120 intervals of alike sweeps 101 held the median of all sweeps without it, and 115
with it (tests/benchmarks/identical_sweeps.py). On a GPU it is not known."""
MACHINE_FREEDOM = 30
"""The degrees of freedom of MACHINE_SPREAD: it is known from forty sweeps."""
Interval = tuple[float, float]
Groups = Sequence[Sequence[float]]
"""Samples by session, each session in the order of measurement."""

EXACT_BELOW = 12
"""An interval of fewer samples contains the sign test's interval, and is stretched (see `session_interval`)."""
_STRETCH = 0.6
"""The exponent with which intervals of few samples are stretched. Found by simulation: 6 autocorrelated samples need it
to reach 93 % (tests/benchmarks/test_coverage.py)."""
_LEAST_RANKED = 4
"""With fewer samples there are no blocks."""
FIRST_LOOK = 24
"""The number of pairs at which sampling may first stop because the interval is narrow (stats/stopping.py)."""
_ERROR_AFTER_LOOK = 0.8
"""The share of the error probability that an interval keeps from the first look on: 4 % instead of 5 %. Sampling stops
more often where the interval is too narrow by chance; this pays for it. Found by simulation
(tests/benchmarks/test_coverage.py)."""


def median(values: Sequence[float]) -> float:
    """The median. Raises StatisticsError if there are no values.

    For a few dozen values the standard library is ten times as fast as numpy, and a large study has many such medians.
    """
    return float(statistics.median(values))


def median_interval(values: Sequence[float], confidence: float = 0.95, clusters: Sequence[int] = ()) -> Interval:
    """The interval of the median of independent samples, or of independent clusters of samples.

    Without clusters it is the interval of the sign test: two order statistics that contain the median with at least
    `confidence`. The number of samples below the true median is Binomial(n, ½) for any noise. The narrowest pair of
    order statistics with enough confidence is returned. Fewer than 6 samples cannot reach 95 %; then the range is
    returned. With clusters the order statistics lie further out, by the spread of the number of samples below the
    median when whole clusters are drawn again.

    clusters: [n], the number of each sample's cluster; empty if each sample stands alone.
    """
    exact = _sign_test(values, confidence)
    if are_alone(clusters):
        return exact
    signs = _signs(ranks_of(values))
    spread = max(cluster_spread(signs, clusters), sqrt(len(signs)) / 2)
    low, high = _order_statistics(values, cluster_quantile(clusters, confidence) * spread)
    return min(low, exact[0]), max(high, exact[1])


def relative_half_width(values: Sequence[float]) -> float:
    """Half the width of the interval of independent samples, divided by their median."""
    low, high = median_interval(values)
    return (high - low) / 2 / median(values)


def share_interval(
    shares: Sequence[float] | NDArray[np.float64], confidence: float = 0.95, clusters: Sequence[int] = ()
) -> Interval:
    """Wilson's interval of the mean of values between 0 and 1.

    With clusters, the samples count as fewer: their number is divided by the design effect, which is the variance of
    the mean with clusters over the variance without. It lies between 1 and its value for clusters whose members are all
    equal. Student's t for the number of clusters replaces the normal quantile (Dean & Pagano 2015).

    shares: [n]; 1 for a sample that counts, 0 for one that does not, or between.
    clusters: [n], the number of each sample's cluster; empty if each sample stands alone.
    Raises MeasurementError if there are no samples.
    """
    values = np.asarray(shares, dtype=float)
    if len(values) == 0:
        raise MeasurementError("a share of 0 samples has no interval; measure again")
    share, samples = float(values.mean()), len(values) / design_effect(values, clusters)
    quantile = cluster_quantile(clusters, confidence)
    middle = (share * samples + quantile**2 / 2) / (samples + quantile**2)
    reach = quantile / (samples + quantile**2) * sqrt(samples * share * (1 - share) + quantile**2 / 4)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def difference_interval(
    differences: Sequence[float] | NDArray[np.float64], confidence: float = 0.95, clusters: Sequence[int] = ()
) -> Interval:
    """The interval of the mean of paired differences of scores between 0 and 1 (Bonett & Price 2012).

    One pair with the difference 1 and one with −1 are added, and the normal interval of all is taken. So the interval
    has a width even if all pairs agree, and it shrinks with their number. With clusters, the variance is that of the
    clusters' sums, and never below the variance without clusters. Each added pair is then a cluster of its own, with
    the design effect as its weight (see `share_interval`).

    clusters: [n], the number of each sample's cluster; empty if each sample stands alone.
    Raises MeasurementError if there are no samples, or if one lies outside −1 … 1.
    """
    values = np.asarray(differences, dtype=float)
    if len(values) == 0 or not (np.abs(values) <= 1).all():
        raise MeasurementError(f"{len(values)} differences, not all of them from -1 to 1, have no interval")
    adjusted, weights = np.append(values, (1.0, -1.0)), np.ones(len(values) + 2)
    weights[-2:] = design_effect(values, clusters)
    middle = weights @ adjusted / weights.sum()
    deviations = weights * (adjusted - middle)
    spread = cluster_spread(deviations, ())
    if not are_alone(clusters):
        spread = max(spread, cluster_spread(deviations, (*clusters, max(clusters) + 1, max(clusters) + 2)))
    reach = cluster_quantile(clusters, confidence) * spread / weights.sum()
    return max(float(middle - reach), -1.0), min(float(middle + reach), 1.0)


def mean_interval(
    values: Sequence[float] | NDArray[np.float64], confidence: float = 0.95, clusters: Sequence[int] = ()
) -> Interval:
    """The normal interval of the mean of values that are not negative. Student's t for the number of clusters.

    With clusters, the variance is that of the clusters' sums, and never below the variance without clusters times the
    design effect (see `share_interval`). One cluster alone says nothing of the spread between clusters.

    clusters: [n], the number of each sample's cluster; empty if each sample stands alone.
    """
    samples = np.asarray(values, dtype=float)
    middle = samples.mean()
    spread = cluster_spread(samples - middle, ())
    if not are_alone(clusters):
        least = spread * sqrt(design_effect(samples, clusters))
        spread = max(cluster_spread(samples - middle, clusters), least)
    reach = cluster_quantile(clusters, confidence) * spread / len(samples)
    return max(float(middle - reach), 0.0), float(middle + reach)


def quantile_interval(
    values: Sequence[float] | NDArray[np.float64],
    share: float,
    confidence: float = 0.95,
    clusters: Sequence[int] = (),
) -> Interval:
    """The interval of a quantile: two order statistics, by the spread of the number of samples below the quantile.

    share: of the samples that lie below the quantile, 0 to 1.
    clusters: [n], the number of each sample's cluster; empty if each sample stands alone.
    """
    samples = np.asarray(values, dtype=float)
    n, quantile = len(samples), np.quantile(samples, share)
    below = (samples <= quantile) - share
    spread = max(sqrt(n * share * (1 - share)), cluster_spread(below, clusters))
    reach = cluster_quantile(clusters, confidence) * spread
    place = share * (n - 1)
    low, high = np.interp([place - reach, place + reach], np.arange(n), np.sort(samples))
    return float(low), float(high)


def machine_spread(device: str) -> float:
    """Return MACHINE_SPREAD for a CPU, and 0 for a GPU, where it is not known."""
    return MACHINE_SPREAD if device.startswith("cpu") else 0.0


def ratio_interval(groups: Groups, *, confidence: float = 0.95, machine: float = 0.0) -> Interval:
    """The interval of the median of paired ratios or of times.

    Several sessions: Student's t interval on the logarithms of the sessions' medians. It allows for the spread between
    sessions, and for the state of the machine, which all sessions share. Values that are not positive have no
    logarithm; then the medians themselves are used.
    One session: see `session_interval`. Another session may differ by more.

    groups: by session, each in the order of measurement.
    machine: the spread of the machine's state, see `machine_spread`.
    Raises MeasurementError if a session has no samples, or if one is not finite.
    """
    medians = _medians(groups)
    if len(groups) == 1:
        return session_interval(groups[0], confidence)
    is_positive = bool((medians > 0).all())
    scaled = np.log(medians) if is_positive else medians
    error, freedom = float(scaled.std(ddof=1)) / sqrt(len(scaled)), float(len(scaled) - 1)
    if machine and is_positive:
        error, freedom = sum_of_errors(error, freedom, machine, MACHINE_FREEDOM)
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    ends = scaled.mean() - reach, scaled.mean() + reach
    low, high = np.exp(ends) if is_positive else ends
    return float(low), float(high)


def sum_of_errors(first: float, first_freedom: float, second: float, second_freedom: float) -> tuple[float, float]:
    """The standard error of a sum of two independent values, with its degrees of freedom (Satterthwaite 1946).

    first, second: the standard errors of the two values, each with its degrees of freedom.
    """
    both = hypot(first, second)
    parts = first**4 / first_freedom + second**4 / second_freedom
    return both, both**4 / parts if parts else first_freedom


def centre(groups: Groups) -> float:
    """The geometric mean of the sessions' medians; their mean if one is not positive; one session's median.

    groups: by session.
    Raises MeasurementError if a session has no samples, or if one is not finite.
    """
    medians = _medians(groups)
    if len(medians) == 1:
        return float(medians[0])
    return float(np.exp(np.log(medians).mean()) if (medians > 0).all() else medians.mean())


def session_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The interval of the median of samples that were measured one after another in one session, by their ranks.

    Whole blocks of neighbours are drawn again (circular blocks), because neighbours may share a disturbance. Ranks
    replace the values, so that tails and modes do not matter. The interval's ends are two order statistics. Their
    distance from the median is the spread of the number of samples below it, times Student's t for the number of
    blocks. The spread is never below that of independent samples.
    With fewer than 12 samples the interval contains the sign test's, with fewer than 6 the range; and because so few
    samples do not show whether neighbours are similar, it is stretched by (12 / n)^0.6. From the first look of the
    stopping rule on, the interval pays for the looks: a 95 % interval is made with 96 %.

    values: in the order in which they were measured.
    """
    n = len(values)
    confidence = 1 - (1 - confidence) * (_ERROR_AFTER_LOOK if n >= FIRST_LOOK else 1)
    ends = min(values), max(values)
    if n >= _LEAST_RANKED:
        ranks = ranks_of(values)
        block = block_length(ranks)
        spread = max(block_spread(_signs(ranks), block), sqrt(n) / 2)
        ends = _order_statistics(values, _reach(n, block, confidence) * spread)
    if n >= EXACT_BELOW:
        return ends
    low, high = _sign_test(values, confidence)
    return _stretched(median(values), (min(low, ends[0]), max(high, ends[1])), (EXACT_BELOW / n) ** _STRETCH)


def session_freedom(values: Sequence[float]) -> float:
    """The degrees of freedom of one session's interval: its number of blocks, less one."""
    return max(len(values) / block_length(ranks_of(values)) - 1, 1.0)


def _medians(groups: Groups) -> NDArray[np.float64]:
    """The median of each session."""
    if not groups or not all(len(group) and all(map(isfinite, group)) for group in groups):
        sizes = " + ".join(str(len(group)) for group in groups) or "0"
        raise MeasurementError(f"{sizes} samples, not all of them finite, have no interval; measure again")
    return np.array([median(group) for group in groups])


def _sign_test(values: Sequence[float], confidence: float) -> Interval:
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


def ranks_of(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each value, from 1. Equal values share the mean of their ranks.

    It equals `scipy.stats.rankdata`. That module takes half a second to import, in each measuring process.
    """
    _, places, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _signs(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """½ below the median, −½ above it, 0 at it. Their sum is the change of the median's rank."""
    return np.sign((len(ranks) + 1) / 2 - ranks) / 2


def _order_statistics(values: Sequence[float], reach: float) -> Interval:
    """The values whose ranks lie `reach` below and above the median's rank, interpolated."""
    n = len(values)
    middle = (n + 1) / 2
    low, high = np.interp([middle - reach, middle + reach], np.arange(1, n + 1), np.sort(values))
    return float(low), float(high)


def _stretched(middle: float, ends: Interval, factor: float) -> Interval:
    """The ends of an interval, `factor` times as far from its middle: as ratios if all are positive."""
    low, high = ends
    if low <= 0:
        return middle + factor * (low - middle), middle + factor * (high - middle)
    return middle * (low / middle) ** factor, middle * (high / middle) ** factor


def _reach(n: int, block: int, confidence: float) -> float:
    """The half width of the interval in spreads. It corrects that blocks underestimate the variance."""
    tail = (1 + confidence) / 2
    # For single samples the spread of the median's rank is known exactly, so the normal quantile is right.
    quantile = ndtri(tail) if block == 1 else stdtrit(n / block - 1, tail)
    return float(quantile) * sqrt(n / (n - block))


def design_effect(values: NDArray[np.float64], clusters: Sequence[int]) -> float:
    """How many samples are worth as much as one independent sample."""
    if are_alone(clusters):
        return 1.0
    sizes = np.unique(np.asarray(clusters), return_counts=True)[1]
    most = float(sizes @ sizes) / len(values)
    alone = cluster_spread(values, ())
    if alone == 0 or len(sizes) == 1:  # nothing says that the members of a cluster differ
        return most
    few = len(sizes) / (len(sizes) - 1)
    return float(np.clip(few * (cluster_spread(values, clusters) / alone) ** 2, 1.0, most))


def cluster_quantile(clusters: Sequence[int], confidence: float) -> float:
    """Student's t for the number of clusters; the normal quantile if each sample stands alone."""
    tail = (1 + confidence) / 2
    if are_alone(clusters):
        return float(ndtri(tail))
    return float(stdtrit(max(len(set(clusters)) - 1, 1), tail))
