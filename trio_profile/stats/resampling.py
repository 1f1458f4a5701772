"""Spreads over resamples. Samples that belong together are drawn together.

Samples that belong together are clusters: questions that share a picture. Times of one process belong together too: see
stats/two_way.py.

A spread is the standard deviation of a sum over all resamples. It is computed exactly, without drawing. Statistics that
are not sums are computed again for each of many draws.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray


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
    rows = np.empty((resamples, samples), dtype=np.intp)
    for row in rows:
        # As many draws as samples are enough, because no cluster is empty.
        drawn = generator.integers(len(members), size=samples)
        needed = int(np.searchsorted(np.cumsum(sizes[drawn]), samples)) + 1
        row[:] = np.concatenate([members[number] for number in drawn[:needed]])[:samples]
    return rows


def are_alone(clusters: Sequence[int]) -> bool:
    """Whether no two samples share a cluster."""
    return len(set(clusters)) == len(clusters)


def cluster_spread(values: NDArray[np.float64], clusters: Sequence[int]) -> float:
    """The standard deviation of the sum if whole clusters are drawn again.

    values: [n].
    clusters: [n], the number of each sample's cluster; empty if each sample stands alone.
    """
    deviations = values - values.mean()
    if not are_alone(clusters):
        deviations = np.bincount(np.unique(np.asarray(clusters), return_inverse=True)[1], weights=deviations)
    return float(np.sqrt(deviations @ deviations))


def percentile_interval(
    values: Sequence[float] | NDArray[np.float64], method: Literal["linear", "inverted_cdf"] = "linear"
) -> tuple[float, float]:
    """The 95 % interval: it contains the middle 95 % of the resampled values.

    method: how `numpy.quantile` treats a quantile between two values. `inverted_cdf` returns one of the values.
    """
    low, high = np.quantile(values, [0.025, 0.975], method=method)
    return float(low), float(high)
