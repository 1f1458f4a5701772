"""The percentile bootstrap: draw the samples again with replacement, compute again, take the quantiles."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray


def draws(samples: int, resamples: int, seed: int | np.random.Generator = 0) -> NDArray[np.intp]:
    """[resamples, samples] indices into the samples, drawn with replacement.

    seed: a number, or a generator that several calls share.
    """
    return np.random.default_rng(seed).integers(samples, size=(resamples, samples))


def percentile_interval(
    values: Sequence[float] | NDArray[np.float64], method: Literal["linear", "inverted_cdf"] = "linear"
) -> tuple[float, float]:
    """The 95 % interval: it contains the middle 95 % of the resampled values.

    method: how `numpy.quantile` treats a quantile between two values. `inverted_cdf` returns one of the values.
    """
    low, high = np.quantile(values, [0.025, 0.975], method=method)
    return float(low), float(high)
