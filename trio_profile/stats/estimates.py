"""Make an Estimate from raw samples, or from two other estimates."""

from math import hypot, isfinite
from typing import TypeVar

from trio_profile.records.estimate import Accuracy, Difference, Measured, Ratio, SpeedupRatio
from trio_profile.records.schema import Stopped
from trio_profile.stats.intervals import Groups, median, median_interval, quotient_interval
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


def quotient_of(base: Ratio, new: Ratio) -> SpeedupRatio:
    """Return new / base of two ratios that were measured independently of each other."""
    return SpeedupRatio(
        value=new.value / base.value,
        ci95=quotient_interval((base.value, new.value), (base.ci95, new.ci95)),
        samples=min(new.samples, base.samples),
        sessions=min(new.sessions, base.sessions),
    )


def difference_between(first: Accuracy, other: Accuracy) -> Difference:
    """The other accuracy minus the first one, of two independent samples (Newcombe 1998, his method 10).

    The distances to the ends of the two Wilson intervals are added in quadrature. For answers to the same questions the
    interval is too wide, never too narrow: paired differences vary less.
    """
    below = hypot(other.value - other.ci95[0], first.ci95[1] - first.value)
    above = hypot(other.ci95[1] - other.value, first.value - first.ci95[0])
    value = other.value - first.value
    return Difference(value=value, ci95=(value - below, value + above), samples=min(first.samples, other.samples))
