"""Simulated timing noise, to test statistics against a known true ratio.

    base, new = pairs(np.random.default_rng(0), "heavy_tailed", n=30, ratio=1.05)

The amplitudes are those of prefills on shared machines: about 1 % from run to run, and a few percent on bad machines.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Factors = NDArray[np.float64]

JITTER = 0.01
"""The relative standard deviation of a run under `steady` noise."""
SESSION_SPREAD = 0.02
"""The standard deviation of the ratio's logarithm between sessions. Seven fresh processes of the pocket model had about
0.02 at one thread, and 0.03 at two."""
_TAIL = 1.2
_DRIFT = 0.10
_SLOW_SHARE, _SLOWER_BY = 0.3, 0.08
_CARRY = 0.5
_BUSY_SHARE = 0.2
_STRETCH = 16
_RECORDED = np.fromstring(
    """
    0.9664 0.9742 0.9592 0.9893 1.0006 0.9955 1.0004 1.0307 1.0237 1.0231 0.9898 1.0224 1.0196 1.0515 1.0080
    1.0012 1.0156 1.0751 0.9876 0.9896 1.1464 1.0095 0.9779 1.0550 0.9827 0.9683 0.9997 1.0336 0.9910 0.9900
    1.0025 0.9881 0.9853 0.9798 0.9800 0.9696 0.9742 0.9622 0.9818 0.9996 1.0000 0.9970 0.9847 0.9977 1.0009
    1.0142 1.0594 0.9942 1.0155 0.9993 0.9726 0.9850 1.0042 1.0114 1.0542 1.0401 0.9833 0.9933 1.0131 1.0447
    0.9959 1.0269 1.0193 0.9985 0.9957 1.0032 1.0257 1.0150 1.0804 1.0750 1.0825 1.0404 1.0121 1.0226 0.9997
    0.9943 0.9941 0.9807 1.0137 0.9846 0.9875 0.9965 1.0148 1.0110 1.0576

    0.9478 1.0120 0.9667 0.9812 0.9888 0.9663 0.9670 1.0134 1.0290 0.9876 1.0736 1.0040 1.0422 1.0070 0.9956
    1.0381 1.0393 1.0507 1.0242 0.9827 1.0680 0.9649 0.9829 1.1650 0.9674 1.1402 0.9859 1.1482 1.2033 0.9964
    1.0796 1.0063 0.9677 1.1037 0.9534 1.0278 0.9579 0.9647 0.9883 1.0066 1.0343 0.9921 0.9992 1.0169 0.9991
    1.0313 0.9855 1.0587 0.9874 0.9806 0.9694 1.0019 1.0433 0.9582 0.9595 1.0534 1.0064 0.9980 1.0320 1.0569
    0.9843 0.9967 0.9813 1.0203 1.0514 1.0003 1.0235 1.0250 1.0069 1.0337 1.0825 1.0232 1.0231 1.0657 0.9952
    1.0062 0.9551 0.9859 0.9748 0.9750 0.9922 0.9928 1.0047 1.0225 1.0121
    """,
    sep=" ",
).reshape(2, -1)
"""85 interleaved prefills of the pocket model on two shared cores, in order. The first row is the dense times over
their median. The second row is the pruned times, scaled so that the median of pruned / dense is 1."""


def steady(generator: np.random.Generator, n: int) -> Factors:
    """Independent log-normal jitter."""

    return np.exp(JITTER * generator.standard_normal(n))


def heavy_tailed(generator: np.random.Generator, n: int) -> Factors:
    """A floor plus a log-normal delay. Now and then a run takes a third longer."""
    return 1 + JITTER * (generator.lognormal(0, _TAIL, n) - 1)


def drift(generator: np.random.Generator, n: int) -> Factors:
    """A machine that warms up or cools down. Times change evenly, by up to a tenth from the first run to the last."""
    return np.exp(generator.uniform(-_DRIFT, _DRIFT) * np.linspace(-0.5, 0.5, n)) * steady(generator, n)


def bimodal(generator: np.random.Generator, n: int) -> Factors:
    """Two states of the machine: three runs in ten take 8 % longer."""
    slow = generator.random(n) < _SLOW_SHARE
    # The modes are eight standard deviations apart, so the median is a quantile of the fast mode.
    median = np.exp(JITTER * ndtri(0.5 / (1 - _SLOW_SHARE)))
    return np.where(slow, 1 + _SLOWER_BY, 1) * steady(generator, n) / median


def autocorrelated(generator: np.random.Generator, n: int) -> Factors:
    """AR(1) in the logarithm. Half of a run's deviation carries over to the next run."""
    from scipy.signal import lfilter  # takes a second to import

    shocks = generator.standard_normal(n)
    shocks[1:] *= np.sqrt(1 - _CARRY**2)
    return np.exp(JITTER * np.asarray(lfilter([1.0], [1.0, -_CARRY], shocks)))


def recorded(generator: np.random.Generator, n: int) -> Factors:
    """Recorded dense prefills, drawn in runs of sixteen, so that neighbours stay neighbours."""
    return _RECORDED[0, _stretches(generator, n)]


def disturbed(generator: np.random.Generator, n: int) -> Factors:
    """Another program comes and goes. In a fifth of the stretches of eight runs a run takes up to twice as long."""
    busy = np.repeat(generator.random(n // 8 + 1) < _BUSY_SHARE, 8)[:n]
    middle = np.exp(JITTER * ndtri(0.5 / (1 - _BUSY_SHARE)))
    return np.where(busy, 1 + generator.random(n), 1) * steady(generator, n) / middle


MODELS: dict[str, Callable[[np.random.Generator, int], Factors]] = {
    "steady": steady,
    "heavy_tailed": heavy_tailed,
    "drift": drift,
    "bimodal": bimodal,
    "autocorrelated": autocorrelated,
    "recorded": recorded,
    "disturbed": disturbed,
}
"""The kinds of noise by name. Each gives n positive factors with a true median of 1."""


def pairs(generator: np.random.Generator, model: str, n: int, ratio: float) -> tuple[Factors, Factors]:
    """n times of a base and n of a new side, in units of the base's median. The true ratio is `ratio`.

    Each pair has a common disturbance, which cancels in the ratio, and each member has one of its own. Both have the
    same distribution, so the true median of new / base is exactly `ratio`. Drift is only common; the members then have
    steady jitter. Recorded pairs stay together, and their members are swapped at random in runs of sixteen.

    model: a key of `MODELS`. Raises KeyError for an unknown one.
    """
    if model == "recorded":
        base, new = _recorded_pairs(generator, n)
        return base, ratio * new
    own = steady if model == "drift" else MODELS[model]
    common = MODELS[model](generator, n)
    return common * own(generator, n), ratio * common * own(generator, n)


def sessions(
    generator: np.random.Generator, model: str, lengths: Sequence[int], ratio: float, factors: Factors | None = None
) -> list[Factors]:
    """The ratios new / base of several sessions, each in a process of its own.

    lengths: the number of pairs of each session.
    factors: what each session multiplies the ratio by; None for `session_factors`.
    """
    if factors is None:
        factors = session_factors(generator, len(lengths))
    found = []
    for n, factor in zip(lengths, factors, strict=True):
        base, new = pairs(generator, model, n, ratio * float(factor))
        found.append(new / base)
    return found


def session_factors(generator: np.random.Generator, count: int, spread: float = SESSION_SPREAD) -> Factors:
    """What each session multiplies a ratio by: a constant in the session, log-normal between sessions.

    count: number of sessions.
    spread: standard deviation of the logarithm.
    """
    return np.exp(spread * generator.standard_normal(count))


def _recorded_pairs(generator: np.random.Generator, n: int) -> tuple[Factors, Factors]:
    first, second = _RECORDED[:, _stretches(generator, n)]
    swapped = np.repeat(generator.random(-(-n // _STRETCH)) < 0.5, _STRETCH)[:n]
    return np.where(swapped, second, first), np.where(swapped, first, second)


def _stretches(generator: np.random.Generator, n: int) -> NDArray[np.intp]:
    """Indices into the record: runs of neighbours that begin anywhere and continue at its start."""
    length = _RECORDED.shape[1]
    starts = generator.integers(length, size=-(-n // _STRETCH))
    return (starts[:, None] + np.arange(_STRETCH)).ravel()[:n] % length
