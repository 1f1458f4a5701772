"""Make an Estimate from raw samples."""

from collections.abc import Sequence
from typing import TypeVar

from trio_profile.records.estimate import Measured, Ratio
from trio_profile.records.schema import Stopped
from trio_profile.stats.intervals import median, median_interval, ratio_interval

M = TypeVar("M", bound=Measured)


def median_of(kind: type[M], values: Sequence[float], stopped: Stopped) -> M:
    """The median of independent samples, with the interval of the sign test."""
    return kind(value=median(values), ci95=median_interval(values), samples=len(values), stopped=stopped)


def ratio_of(ratios: Sequence[float], stopped: Stopped) -> Ratio:
    """The median of paired ratios in the order of measurement. The interval allows for similar neighbours."""
    return Ratio(value=median(ratios), ci95=ratio_interval(ratios), samples=len(ratios), stopped=stopped)
