"""Make an Estimate from raw samples, or from two other estimates."""

from math import hypot
from typing import TypeVar

from trio_profile.records.estimate import Accuracy, Difference, Measured, Ratio
from trio_profile.records.schema import Stopped
from trio_profile.stats.intervals import Groups, centre, ratio_interval

M = TypeVar("M", bound=Measured)


def median_of(kind: type[M], groups: Groups, stopped: Stopped, machine: float = 0.0) -> M:
    """The median of samples with its interval. With several sessions it is the geometric mean of their medians.

    kind: the class of the result.
    groups: the samples by session, each in the order of measurement.
    machine: the spread of the machine's state, see `intervals.machine_spread`.
    Raises MeasurementError if a session has no samples, or if one is not finite.
    """
    return kind(
        value=centre(groups),
        ci95=ratio_interval(groups, machine=machine),
        samples=sum(len(group) for group in groups),
        sessions=len(groups),
        stopped=stopped,
    )


def ratio_of(groups: Groups, stopped: Stopped, machine: float = 0.0) -> Ratio:
    """The median of paired ratios. See `median_of`."""
    return median_of(Ratio, groups, stopped, machine)


def difference_between(first: Accuracy, other: Accuracy) -> Difference:
    """The other accuracy minus the first one, of two independent samples (Newcombe 1998, his method 10).

    The distances to the ends of the two Wilson intervals are added in quadrature. For answers to the same questions the
    interval is too wide, never too narrow: paired differences vary less.
    """
    below = hypot(other.value - other.ci95[0], first.ci95[1] - first.value)
    above = hypot(other.ci95[1] - other.value, first.value - first.ci95[0])
    value = other.value - first.value
    return Difference(value=value, ci95=(value - below, value + above), samples=min(first.samples, other.samples))
