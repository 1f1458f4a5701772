"""From raw samples to an Estimate: the one place where samples meet an interval."""

from collections.abc import Sequence
from typing import TypeVar

from trio_profile.records.estimate import Measured, Ratio
from trio_profile.records.schema import Stopped
from trio_profile.stats.intervals import median, median_interval, ratio_interval

M = TypeVar("M", bound=Measured)


def median_of(kind: type[M], values: Sequence[float], stopped: Stopped) -> M:
    """The median of samples that do not depend on each other, with the interval of the sign test."""
    return kind(value=median(values), ci95=median_interval(values), samples=len(values), stopped=stopped)


def ratio_of(ratios: Sequence[float], stopped: Stopped) -> Ratio:
    """The median of paired ratios, in the order in which they were taken: neighbours may be alike."""
    return Ratio(value=median(ratios), ci95=ratio_interval(ratios), samples=len(ratios), stopped=stopped)
