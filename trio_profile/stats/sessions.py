"""Compare two sides that were measured apart from each other, each in one or more sessions.

ratio, ci95 = quotient(log_mean(base_groups), log_mean(new_groups))
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np
from scipy.special import stdtrit

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import (
    MACHINE_FREEDOM,
    Groups,
    Interval,
    centre,
    median,
    session_freedom,
    session_interval,
    sum_of_errors,
)

Spread = tuple[float, float]
"""A standard deviation between sessions on the logarithmic scale, with its degrees of freedom."""
USUAL_SPREAD: Spread = (0.03, 6)
"""The spread between processes of the same program, if the studies do not say it. Its source: seven sweeps of `pocket`
with two threads, whose medians lay between 1.385 and 1.517."""


@dataclass(frozen=True)
class LogMean:
    """The logarithm of one side's median, with its error.

    centre: the mean of the logarithms of the sessions' medians.
    error: standard error of `centre`. With one session it does not contain the spread between sessions.
    freedom: degrees of freedom of `error`.
    sessions: number of sessions.
    session_spread: standard deviation of the logarithms of the sessions' medians; None for one session.
    """

    centre: float
    error: float
    freedom: float
    sessions: int
    session_spread: float | None

    def with_spread(self, session_spread: float, freedom: float) -> "LogMean":
        """The same side with a spread between sessions that is known from elsewhere.

        With several sessions it replaces the side's own spread. With one session it is added to the error within it.

        session_spread: standard deviation of the logarithms of the medians of sessions.
        freedom: degrees of freedom of `session_spread`.
        """
        if self.session_spread is not None:
            return replace(self, error=session_spread / sqrt(self.sessions), freedom=freedom)
        error, freedom = sum_of_errors(self.error, self.freedom, session_spread, freedom)
        return replace(self, error=error, freedom=freedom)

    def with_machine(self, machine: float) -> "LogMean":
        """The same side with the spread of the machine's state, which its sessions share. 0 leaves it as it is."""
        if not machine:
            return self
        error, freedom = sum_of_errors(self.error, self.freedom, machine, MACHINE_FREEDOM)
        return replace(self, error=error, freedom=freedom)


def log_mean(groups: Groups) -> LogMean:
    """The log-scale centre of one side, with its error.

    Several sessions: mean and standard error of the logarithms of the sessions' medians.
    One session: the error is the half width of its 95 % interval, in quantiles of Student's t.

    groups: times or ratios by session, each in the order of measurement.
    Raises MeasurementError if a session has no samples, or if one is not finite or not positive.
    """
    middle = centre(groups)
    if any(min(group) <= 0 for group in groups):
        raise MeasurementError("a time or a ratio of 0 or less has no logarithm; measure again")
    if len(groups) > 1:
        logs = np.log([median(group) for group in groups])
        spread = float(logs.std(ddof=1))
        return LogMean(log(middle), spread / sqrt(len(logs)), len(logs) - 1, len(logs), spread)
    low, high = session_interval(groups[0])
    freedom = session_freedom(groups[0])
    return LogMean(log(middle), log(high / low) / 2 / float(stdtrit(freedom, 0.975)), freedom, 1, None)


def quotient(base: LogMean, new: LogMean, confidence: float = 0.95) -> tuple[float, Interval]:
    """The ratio new / base of two independent sides, with its interval (Welch 1947, Satterthwaite 1946)."""
    difference = new.centre - base.centre
    error, freedom = sum_of_errors(base.error, base.freedom, new.error, new.freedom)
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    return exp(difference), (exp(difference - reach), exp(difference + reach))


def known_spread(sides: Sequence[Groups]) -> Spread:
    """The spread between sessions, pooled over the sides that have several, with its degrees of freedom.

    If none has, it is USUAL_SPREAD. Other cells of the same studies are not used: they were measured in the same
    sessions, and a session may move all of them together, so they know the spread no better.

    sides: samples of each side, by session.
    """
    several = [side for side in map(log_mean, sides) if side.session_spread is not None]
    freedom = sum(side.freedom for side in several)
    if not freedom:
        return USUAL_SPREAD
    return sqrt(sum(side.freedom * (side.session_spread or 0.0) ** 2 for side in several) / freedom), freedom
