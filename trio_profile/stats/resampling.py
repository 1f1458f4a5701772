"""Spreads over resamples. Samples that belong together are drawn together.

Samples belong together in three ways:

    blocks     neighbours in time share a disturbance of the machine: `block_spread`
    clusters   questions share a picture: `cluster_spread`, and `draws` with clusters
    sessions   runs of one process share what that process got from the system: stats/sessions.py

A spread is the standard deviation of a sum over all resamples. It is computed exactly, without drawing. Statistics that
are not sums are computed again for each of many draws.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_LONGER = 1.6
"""Blocks are longer by this factor than is best for a variance. The ends of an interval need longer blocks, and the
ranks have a lower lag-1 correlation than the times. Found by simulation (tests/benchmarks/test_coverage.py)."""
_ERRORS_ADDED = 0.5
"""Half a standard error is added to the estimated autocorrelation. The error is 1 / √n. Sampling tends to stop where
the estimate is too low. Found by the same simulation."""


def draws(
    samples: int, resamples: int, seed: int | np.random.Generator = 0, clusters: Sequence[int] = ()
) -> NDArray[np.intp]:
    """[resamples, samples] indices into the samples, drawn with replacement.

    Whole clusters are drawn one after another until there are enough samples. The last cluster may be cut off.

    seed: a number, or a generator that several calls share.
    clusters: [samples], the number of each sample's cluster; empty if each sample stands alone.
    """
    generator = np.random.default_rng(seed)
    if are_alone(clusters):
        return generator.integers(samples, size=(resamples, samples))
    numbers = np.unique(np.asarray(clusters), return_inverse=True)[1]
    sizes = np.bincount(numbers)
    members = np.split(np.argsort(numbers, kind="stable"), np.cumsum(sizes)[:-1])
    found = np.empty((resamples, samples), dtype=np.intp)
    for row in found:
        # As many draws as samples are enough, because no cluster is empty.
        drawn = generator.integers(len(members), size=samples)
        needed = int(np.searchsorted(np.cumsum(sizes[drawn]), samples)) + 1
        row[:] = np.concatenate([members[number] for number in drawn[:needed]])[:samples]
    return found


def are_alone(clusters: Sequence[int]) -> bool:
    """Whether no two samples share a cluster."""
    return len(set(clusters)) == len(clusters)


def block_spread(values: NDArray[np.float64], block: int) -> float:
    """The standard deviation of the sum if circular blocks of neighbours are drawn again (Künsch 1989).

    values: [n], in the order of measurement.
    block: the number of neighbours in a block.
    """
    n = len(values)
    ends = np.concatenate([[0.0], np.cumsum(np.append(values, values[: block - 1]))])
    sums = ends[block:] - ends[:-block]
    return float(sums.std() * np.sqrt(n / block))


def cluster_spread(values: NDArray[np.float64], clusters: Sequence[int]) -> float:
    """The standard deviation of the sum if whole clusters are drawn again.

    values: [n].
    clusters: [n], the number of each sample's cluster; empty if each sample stands alone.
    """
    deviations = values - values.mean()
    if not are_alone(clusters):
        deviations = np.bincount(np.unique(np.asarray(clusters), return_inverse=True)[1], weights=deviations)
    return float(np.sqrt(deviations @ deviations))


def block_length(values: Sequence[float] | NDArray[np.float64]) -> int:
    """How many neighbours are drawn together: 1 without autocorrelation, at most a quarter of the samples.

    It is the best length for an AR(1) series and circular blocks (Politis & White 2004), b³ = 3/2 · (2ρ / (1 − ρ²))² ·
    n, times a factor. ρ is the lag-1 autocorrelation and half of its standard error. A negative ρ would make intervals
    narrower and is taken as 0.
    """
    n = len(values)
    rho = min(max(autocorrelation(values) + _ERRORS_ADDED / np.sqrt(n), 0.0), 0.9)
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


def percentile_interval(
    values: Sequence[float] | NDArray[np.float64], method: Literal["linear", "inverted_cdf"] = "linear"
) -> tuple[float, float]:
    """The 95 % interval: it contains the middle 95 % of the resampled values.

    method: how `numpy.quantile` treats a quantile between two values. `inverted_cdf` returns one of the values.
    """
    low, high = np.quantile(values, [0.025, 0.975], method=method)
    return float(low), float(high)
