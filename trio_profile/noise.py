"""Simulated timing noise, to try statistics on a truth that is known.

    base, new = pairs(np.random.default_rng(0), "heavy_tailed", n=30, ratio=1.05)

Amplitudes are those of prefills on shared machines: about 1 % from run to run, a few percent where it is bad.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtri

Factors = NDArray[np.float64]

JITTER = 0.01
"""Relative spread (one standard deviation) of a run of the steady model."""
_TAIL = 1.2
_DRIFT = 0.10
_SLOW_SHARE, _SLOWER_BY = 0.3, 0.08
_CARRY = 0.5
_BLOCK = 4
_RECORDED = np.fromstring(
    """
    1.0061 1.0000 1.0516 1.0415 0.9888 0.9766 0.9997 1.0000 1.0484 1.0040 0.9858 0.9915 1.0359 0.9813 1.0203
    0.9863 0.9989 1.1021 0.9958 1.0000 1.0099 0.9881 1.0016 1.0014 0.9836 1.0307 0.9986 1.0353 0.9986 1.0085
    0.9938 1.0014 0.9926 0.9773 1.0894 1.0227 1.1173 0.9523 0.9488 0.9787 0.9969 1.0039 0.9864 1.0149 1.0031
    0.9876 1.0027 0.9973 1.0940 1.0259 0.9973 0.9824 0.9989 1.0011 0.9799 1.0282 1.0550 0.9987 0.9957 1.0053
    1.0135 0.9885 1.0013
    """,
    sep=" ",
)
"""Dense prefills of the pocket model on two shared cores, 10 cells of 6 or 7 in the order they ran, by their median."""


def steady(generator: np.random.Generator, n: int) -> Factors:
    """Log-normal jitter, each run for itself."""
    return np.exp(JITTER * generator.standard_normal(n))


def heavy_tailed(generator: np.random.Generator, n: int) -> Factors:
    """A floor that no run falls below, and a log-normal delay above it: now and then a run takes a third longer."""
    return 1 + JITTER * (generator.lognormal(0, _TAIL, n) - 1)


def drift(generator: np.random.Generator, n: int) -> Factors:
    """A machine that warms up or cools down: times move evenly by up to a tenth from the first run to the last."""
    return np.exp(generator.uniform(-_DRIFT, _DRIFT) * np.linspace(-0.5, 0.5, n)) * steady(generator, n)


def bimodal(generator: np.random.Generator, n: int) -> Factors:
    """Two states of the machine: three runs in ten take 8 % longer."""
    slow = generator.random(n) < _SLOW_SHARE
    # The modes lie eight spreads apart, so the median of both is a quantile of the fast one alone.
    median = np.exp(JITTER * ndtri(0.5 / (1 - _SLOW_SHARE)))
    return np.where(slow, 1 + _SLOWER_BY, 1) * steady(generator, n) / median


def autocorrelated(generator: np.random.Generator, n: int) -> Factors:
    """AR(1) in the logarithm: half of a run's deviation is carried over to the next."""
    shocks = generator.standard_normal(n)
    shocks[1:] *= np.sqrt(1 - _CARRY**2)
    return np.exp(JITTER * np.asarray(lfilter([1.0], [1.0, -_CARRY], shocks)))


def recorded(generator: np.random.Generator, n: int) -> Factors:
    """Runs that were really timed, drawn in stretches of four so that neighbours stay neighbours."""
    starts = generator.integers(len(_RECORDED), size=-(-n // _BLOCK))
    drawn = (starts[:, None] + np.arange(_BLOCK)).ravel()[:n] % len(_RECORDED)
    return _RECORDED[drawn]


MODELS: dict[str, Callable[[np.random.Generator, int], Factors]] = {
    "steady": steady,
    "heavy_tailed": heavy_tailed,
    "drift": drift,
    "bimodal": bimodal,
    "autocorrelated": autocorrelated,
    "recorded": recorded,
}
"""Each gives n positive factors whose true median is 1."""


def pairs(generator: np.random.Generator, model: str, n: int, ratio: float) -> tuple[Factors, Factors]:
    """n times of a base and of what is held against it, in units of the base's median; truly `new = ratio · base`.

    A common disturbance hits both members of a pair, which is what interleaving cancels; each has its own besides. Both
    members' own disturbances have one distribution, so the median of new / base is `ratio` exactly. Drift is the
    machine's and therefore common alone: beside it the members have steady jitter. Raises KeyError for an unknown
    model.
    """
    own = steady if model == "drift" else MODELS[model]
    common = MODELS[model](generator, n)
    return common * own(generator, n), ratio * common * own(generator, n)
