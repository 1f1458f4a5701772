"""The intervals of medians and of shares. They assume little about the noise.

Samples that belong together are treated together: questions about one picture (stats/resampling.py). Times have a
module of their own, stats/two_way.py: they come in groups, one group for each process, each in the order of
measurement.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, exp, hypot, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

from trio_profile.errors import MeasurementError
from trio_profile.stats.resampling import are_alone, cluster_spread

MACHINE_SPREAD = 0.0125
"""How much the state of a CPU machine moves the speed-ups of two runs apart, as a standard deviation on the logarithmic
scale. The processes of one study run within minutes and share this state, so they cannot show it. Measured on two
shared cores with one and two threads: of 120 intervals of alike sweeps 101 held the median of all sweeps without it,
and 115 with it (tests/benchmarks/identical_sweeps.py). On a GPU it is not known."""
MACHINE_FREEDOM = 30
"""The degrees of freedom of MACHINE_SPREAD: it is known from forty sweeps."""
_FARTHEST = log(1e6)
"""The end of an interval lies no farther from its centre, on the logarithmic scale."""
Interval = tuple[float, float]
Groups = Sequence[Sequence[float]]
"""Samples by process, each process in the order of measurement."""


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
    signs = _signs(values)
    spread = max(cluster_spread(signs, clusters), sqrt(len(signs)) / 2)
    low, high = _order_statistics(values, cluster_quantile(clusters, confidence) * spread)
    return min(low, exact[0]), max(high, exact[1])


def share_interval(shares: Sequence[float] | NDArray[np.float64], clusters: Sequence[int] = ()) -> Interval:
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
    quantile = cluster_quantile(clusters)
    middle = (share * samples + quantile**2 / 2) / (samples + quantile**2)
    reach = quantile / (samples + quantile**2) * sqrt(samples * share * (1 - share) + quantile**2 / 4)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def joint(comparisons: int) -> float:
    """The level of each of several intervals that hold together at 95 % (Bonferroni)."""
    return 1 - 0.05 / max(comparisons, 1)


def difference_interval(
    differences: Sequence[float] | NDArray[np.float64], clusters: Sequence[int] = (), confidence: float = 0.95
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


def loss_interval(
    lost: Sequence[float] | NDArray[np.float64], clusters: Sequence[int] = (), confidence: float = 0.95
) -> Interval:
    """The interval of the mean loss of paired scores, whose upper end excludes a loss even if few or none are lost.

    `difference_interval` is normal, so it promises too much where hardly any pair differs, and more so at a high
    level. The upper end is therefore never below the exact one (Clopper & Pearson 1934) of the lost pairs less the
    gained ones, nor below that of as many pairs without a loss. Clusters count by their design effect.

    lost: [n], of each pair, -1 to 1.
    """
    values = np.asarray(lost, dtype=float)
    low, high = difference_interval(values, clusters, confidence)
    effect = float(design_effect(values, clusters))
    pairs, fell = len(values) / effect, float(np.maximum(values, 0).sum()) / effect
    gained = float(np.maximum(-values, 0).mean())
    exact = most_lost(fell, pairs, confidence) - gained
    return low, min(max(high, exact, most_lost(0, pairs, confidence)), 1.0)


def most_lost(lost: float, pairs: float, confidence: float = 0.95) -> float:
    """The exact upper end of the share of pairs that are lost (Clopper & Pearson 1934)."""
    return float(betaincinv(lost + 1, pairs - lost, (1 + confidence) / 2)) if lost < pairs else 1.0


def mean_interval(values: Sequence[float] | NDArray[np.float64], clusters: Sequence[int] = ()) -> Interval:
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
    reach = cluster_quantile(clusters) * spread / len(samples)
    return max(float(middle - reach), 0.0), float(middle + reach)


@dataclass(frozen=True)
class Effects:
    """How much each question moves one score.

    The effects of all questions on a score sum to 0. Their spread over resampled pictures is the score's standard error
    (the infinitesimal jackknife). So scores that are no means have intervals too: F1, or a total over categories.

    each: [n]. They sum to 0.
    step: how far one question can move the score. Two questions, one up and one down, are added to the sample, so that
        the interval has a width even if nothing differs [Bonett and Price 2012].
    clusters: [n], the number of each question's picture.
    """

    each: NDArray[np.float64]
    step: float
    clusters: Sequence[int]


def reach(scores: Sequence[Effects]) -> float:
    """Half the width of the interval of a sum of scores. Questions of one picture are drawn together.

    scores: the parts of the sum. Equal numbers of pictures in two of them mean the same picture.
    """
    each = np.concatenate([score.each for score in scores])
    clusters = [number for score in scores for number in score.clusters]
    spread = cluster_spread(each, ())
    if not are_alone(clusters):
        spread = max(spread, cluster_spread(each, clusters))
    added = sum(2 * (design_effect(score.each, score.clusters) * score.step) ** 2 for score in scores)
    return cluster_quantile(clusters) * sqrt(spread**2 + added)


def machine_spread(device: str) -> float:
    """Return MACHINE_SPREAD for a CPU, and 0 for a GPU, where it is not known."""
    return MACHINE_SPREAD if device.startswith("cpu") else 0.0


def sum_of_errors(first: float, first_freedom: float, second: float, second_freedom: float) -> tuple[float, float]:
    """The standard error of a sum of two independent values, with its degrees of freedom (Satterthwaite 1946).

    first, second: the standard errors of the two values, each with its degrees of freedom.
    """
    both = hypot(first, second)
    parts = first**4 / first_freedom + second**4 / second_freedom
    return both, both**4 / parts if parts else first_freedom


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


def _signs(values: Sequence[float]) -> NDArray[np.float64]:
    """½ for a value below the median, −½ above it, 0 at it. Equal values have one sign.

    The sum of the signs is the change of the median's rank.
    """
    ordered = np.sort(values)
    below, at_most = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.sign(len(ordered) - at_most - below) / 2


def _order_statistics(values: Sequence[float], reach: float) -> Interval:
    """The values whose ranks lie `reach` below and above the median's rank, interpolated."""
    n = len(values)
    middle = (n + 1) / 2
    low, high = np.interp([middle - reach, middle + reach], np.arange(1, n + 1), np.sort(values))
    return float(low), float(high)


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


def widened(interval: Interval, comparisons: int, samples: int, *, of_ratio: bool = False) -> Interval:
    """Return a 95 % interval widened so that it holds with all others of so many comparisons (Bonferroni).

    Its half width grows as the quantiles of Student's t do. That of a ratio grows on the logarithmic scale.

    samples: number of independent samples behind the interval.
    of_ratio: whether its values are ratios.
    """
    freedom = max(samples - 1, 1)
    factor = float(stdtrit(freedom, 1 - 0.025 / max(comparisons, 1)) / stdtrit(freedom, 0.975))
    low, high = map(log, interval) if of_ratio else interval
    middle, reach = (low + high) / 2, factor * (high - low) / 2
    return of_logarithms(middle, reach) if of_ratio else (middle - reach, middle + reach)


def of_logarithms(middle: float, below: float, above: float | None = None) -> Interval:
    """Return the interval of a ratio, or of a time, from its logarithms.

    An end that lies more than a millionfold from the middle is put there. Such an interval says nothing, and a wider
    one may be no number.

    middle: logarithm of the centre.
    below, above: distances to the ends. above: None if it is the same.
    """
    above = below if above is None else above
    return exp(middle - min(below, _FARTHEST)), exp(middle + min(above, _FARTHEST))


def cluster_quantile(clusters: Sequence[int], confidence: float = 0.95) -> float:
    """Student's t for the number of clusters; the normal quantile if each sample stands alone."""
    tail = (1 + confidence) / 2
    if are_alone(clusters):
        return float(ndtri(tail))
    return float(stdtrit(max(len(set(clusters)) - 1, 1), tail))


def quotient_interval(values: tuple[float, float], intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the interval of new / base from the intervals of two independent values.

    The distances to the ends are added in quadrature, on the logarithmic scale (MOVER: Zou & Donner 2008).

    values, intervals: of the base and of the new side.
    """
    (base, new), ((base_low, base_high), (new_low, new_high)) = values, intervals
    below = hypot(log(new / new_low), log(base_high / base))
    above = hypot(log(new_high / new), log(base / base_low))
    return of_logarithms(log(new / base), below, above)
