"""When to stop sampling pairs: the interval is narrow enough, will not get narrower, or the time is spent."""

from collections.abc import Sequence
from math import isfinite
from typing import Literal

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import median, ratio_interval, relative_half_width

Stop = Literal["converged", "plateau", "budget"]

PLATEAU_FROM = 48
"""Earlier the width itself is known too badly to say that it no longer falls."""
_CHECKED_EVERY = 16
"""Samples between two looks for a plateau, as in nvbench's stdrel rule."""
STILL_FALLING = 0.95
"""A width below this share of what it was at fewer samples falls: independent noise has 0.71 of a half's, 0.5 of a
quarter's."""
_NEAR = 1.5
"""Bootstrapping waits until the sign test's width, which costs little, is this near to what is asked."""


def decide(
    ratios: Sequence[float], spent_s: float, *, precision: float, seconds: float, least: int = 6, most: int = 200
) -> Stop | None:
    """Why to stop after these paired ratios, in the order they were taken; None to go on.

    converged: the relative half width of their interval is at most `precision`. plateau: it is no narrower than at half
    of the samples, nor than at a quarter, so that more of them are of no use: nvbench's rule for tens of samples.
    budget: `spent_s` reached `seconds`, or `most` samples are taken. Fewer than `least` samples stop for nothing.
    Raises MeasurementError for a ratio that is not finite.
    """
    n = len(ratios)
    if not all(isfinite(ratio) for ratio in ratios):
        raise MeasurementError(f"{n} ratios, not all of them finite, cannot decide anything; measure again")
    if n < least:
        return None
    if relative_half_width(ratios) <= _NEAR * precision and half_width(ratios) <= precision:
        return "converged"
    if spent_s >= seconds or n >= most:
        return "budget"
    if n >= PLATEAU_FROM and n % _CHECKED_EVERY == 0 and _no_longer_falls(ratios):
        return "plateau"
    return None


def half_width(ratios: Sequence[float]) -> float:
    """Half the width of the bootstrapped interval of the median ratio, over that median."""
    low, high = ratio_interval(ratios)
    return (high - low) / 2 / median(ratios)


def _no_longer_falls(ratios: Sequence[float]) -> bool:
    now, n = half_width(ratios), len(ratios)
    return all(now > STILL_FALLING * half_width(ratios[: n // part]) for part in (2, 4))
