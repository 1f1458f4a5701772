"""When the warm-up of a segment is over: the times of two neighbouring windows agree.

closed loop   a window is a number of answers: as many as are under way, and at least four
open loop     a window is a stretch of time. The server must also answer as many requests as arrive. At first it is
              empty and answers quickly, so a few early answers say nothing about its later times.
"""

from collections.abc import Sequence
from math import sqrt

from trio_profile.records.endpoint_study import Load
from trio_profile.records.requests import Request
from trio_profile.stats.intervals import median

LEAST_WINDOW = 4
"""A window has at least this many answers."""
MOST_WINDOWS = 6
"""The warm-up of a closed loop ends after so many windows, stable or not."""
STABLE = 0.1
"""The medians of two neighbouring windows may differ by this share."""
_WINDOWS = 8
"""Windows of an open loop in the time that a warm-up may take."""
_BACKLOG = 0.1
"""In an open loop, the share of the arrivals of two windows by which the requests under way may grow."""


def window_of(load: Load) -> int:
    """Return the number of answers in a window of a closed loop."""
    return max(load.at_once, LEAST_WINDOW)


def window_seconds(load: Load, seconds: float) -> float:
    """Return the length of a window of an open loop, in which several requests arrive.

    seconds: the longest time of the warm-up.
    """
    return max(seconds / _WINDOWS, 2 * LEAST_WINDOW / load.value)


def agree(before: Sequence[Request], now: Sequence[Request]) -> bool:
    """Return whether the times of two windows agree."""
    first, second = (median([one.total_ms for one in window]) for window in (before, now))
    return abs(second - first) <= STABLE * first


def keeps_up(looks: Sequence[tuple[int, int]], ended: Sequence[Request]) -> bool:
    """Return whether the server of an open loop answers what arrives, at times that agree, in the last two windows.

    looks: how many requests had arrived, and how many had ended, at the ends of the windows, and at the beginning.
    ended: the requests in the order in which they ended.
    """
    if len(looks) < 3:
        return False
    (arrived, begin), (_, middle), (arrived_now, end) = looks[-3:]
    if min(middle - begin, end - middle) < LEAST_WINDOW:
        return False
    arrivals = arrived_now - arrived
    grown = arrivals - (end - begin)
    return grown <= max(_BACKLOG * arrivals, sqrt(arrivals)) and agree(ended[begin:middle], ended[middle:end])
