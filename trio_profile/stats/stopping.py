"""When to stop sampling: the interval is narrow enough, it no longer becomes narrower, or the time is spent."""

from collections.abc import Sequence
from math import isfinite
from typing import Literal

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import median, ratio_interval, relative_half_width

Stop = Literal["converged", "plateau", "budget"]

LEAST_SAMPLES = 6
"""Fewer ratios stop sampling for no reason."""
PLATEAU_FROM = 48
"""With fewer samples the width is too uncertain to say that it no longer falls."""
_CHECKED_EVERY = 16
"""The number of samples between two checks for a plateau, as in nvbench's stdrel rule."""
STILL_FALLING = 0.95
"""The width still falls if it is below this share of its value at fewer samples. For independent noise the share is
0.71 against half of the samples and 0.5 against a quarter."""
_NEAR = 1.5
"""The bootstrap starts only when the sign test's width, which costs little, is within this factor of the precision."""


def decide(
    ratios: Sequence[float],
    spent_s: float,
    *,
    precision: float,
    seconds: float,
    least: int = LEAST_SAMPLES,
    most: int = 200,
) -> Stop | None:
    """The reason to stop after these paired ratios; None to continue.

    converged: the relative half width of the interval is at most `precision`.
    plateau: the interval is no narrower than with half or with a quarter of the samples (nvbench's rule).
    budget: `spent_s` has reached `seconds`, or there are `most` samples.

    ratios: in the order in which they were measured.
    least: with fewer samples there is no reason to stop.
    Raises MeasurementError if a ratio is not finite.
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
    """Half the width of the bootstrap interval of the median ratio, divided by the median."""
    low, high = ratio_interval(ratios)
    return (high - low) / 2 / median(ratios)


def _no_longer_falls(ratios: Sequence[float]) -> bool:
    now, n = half_width(ratios), len(ratios)
    return all(now > STILL_FALLING * half_width(ratios[: n // part]) for part in (2, 4))
