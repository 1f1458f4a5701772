"""When to stop sampling: the interval is narrow enough, it no longer becomes narrower, or the time is spent.

The rule looks at the width of the interval after 24, 48, 96, 192 … pairs and nowhere else. Each look is a chance to
stop where the interval is too narrow by chance. Few looks give few chances, and the interval pays for them
(`intervals.session_interval`).
"""

from collections.abc import Sequence
from math import isfinite
from typing import Literal

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import FIRST_LOOK, Groups, centre, ratio_interval

Stop = Literal["converged", "plateau", "budget"]

LEAST_SAMPLES = 6
"""With fewer samples there is no 95 % interval of the median (the sign test), and no reason to stop."""
MOST_SAMPLES = 200
"""The most pairs that are measured of a cell in one session."""
PLATEAU_FROM = 2 * FIRST_LOOK
"""With fewer samples the width is too uncertain to say that it no longer falls."""
STILL_FALLING = 0.95
"""The width still falls if it is below this share of its value at fewer samples. For independent noise the share is
0.71 against half of the samples and 0.5 against a quarter."""


def decide(
    ratios: Sequence[float],
    spent_s: float,
    *,
    precision: float,
    seconds: float,
    least: int = LEAST_SAMPLES,
    most: int = MOST_SAMPLES,
) -> Stop | None:
    """The reason to stop after these paired ratios of one session; None to continue.

    converged: the relative half width of the interval is at most `precision`.
    plateau: the interval is no narrower than with half or with a quarter of the samples (nvbench's rule).
    budget: `spent_s` has reached `seconds`, or there are `most` samples.
    The first two are looked for after 24, 48, 96, 192 … pairs. Time may run out after any number of pairs; an interval
    that is narrow enough by then is called converged.

    ratios: in the order in which they were measured.
    least: with fewer samples there is no reason to stop.
    Raises MeasurementError if a ratio is not finite.
    """
    n = len(ratios)
    if not all(isfinite(ratio) for ratio in ratios):
        raise MeasurementError(f"{n} ratios, not all of them finite, cannot decide anything; measure again")
    is_over = spent_s >= seconds or n >= most
    if n < least or not (is_over or is_look(n)):
        return None
    if half_width([ratios]) <= precision:
        return "converged"
    if is_over:
        return "budget"
    return "plateau" if n >= PLATEAU_FROM and _no_longer_falls(ratios) else None


def is_look(pairs: int) -> bool:
    """Whether the rule looks at the interval after this number of pairs: 24, 48, 96, 192 …"""
    looks, rest = divmod(pairs, FIRST_LOOK)
    return rest == 0 and looks.bit_count() == 1


def half_width(groups: Groups, machine: float = 0.0) -> float:
    """Half the width of the interval of the ratios, divided by their median.

    groups: by session, each in the order of measurement.
    machine: the spread of the machine's state, see `intervals.machine_spread`.
    """
    low, high = ratio_interval(groups, machine=machine)
    return (high - low) / 2 / centre(groups)


def _no_longer_falls(ratios: Sequence[float]) -> bool:
    now, n = half_width([ratios]), len(ratios)
    return all(now > STILL_FALLING * half_width([ratios[: n // part]]) for part in (2, 4))
