"""Make an Estimate from raw samples."""

from math import isfinite
from typing import TypeVar

from trio_profile.records.estimate import Measured
from trio_profile.records.schema import Stopped
from trio_profile.stats.intervals import Groups, median, median_interval
from trio_profile.stats.two_way import Centre, centre_of

M = TypeVar("M", bound=Measured)


def measured(kind: type[M], centre: Centre, stopped: Stopped) -> M:
    """Return a centre as an estimate of a class."""
    return kind(
        value=centre.value, ci95=centre.interval(), samples=centre.samples, sessions=centre.processes, stopped=stopped
    )


def median_of(kind: type[M], groups: Groups, stopped: Stopped, machine: float = 0.0) -> M:
    """Return the median of samples with its interval. Of several processes it is the geometric mean of their medians.

    Times of 0 have no logarithm. Then it is the median of all samples, with the interval of the sign test.

    kind: the class of the result.
    groups: the samples by process, each in the order of measurement.
    machine: the spread of the machine's state, see `intervals.machine_spread`.
    Raises MeasurementError if a process has no samples, or if one is not finite.
    """
    values = [value for group in groups for value in group]
    if values and min(values) <= 0 and all(map(isfinite, values)):
        interval = median_interval(values)
        return kind(value=median(values), ci95=interval, samples=len(values), sessions=len(groups), stopped=stopped)
    return measured(kind, centre_of(groups, machine), stopped)
