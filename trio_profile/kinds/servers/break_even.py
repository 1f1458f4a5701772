"""Break-even over the load: where the ratio of costs, pruned over dense, crosses 1."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import isotonic_regression

from trio_profile.kinds.servers.document import LoadBreakEven, Quantity, Status
from trio_profile.kinds.servers.study import Loop
from trio_profile.stats.crossing import Line, first_crossing
from trio_profile.stats.two_way import centre_of


def break_even(
    quantity: Quantity, loop: Loop, loads: Sequence[float], ratios: Sequence[Sequence[float]]
) -> LoadBreakEven:
    """Return the load at which the ratio of costs, pruned over dense, crosses 1.

    The logarithm of the ratio is fitted over the logarithm of the load. The fit never falls if the ratio rises with the
    load on the whole, and never rises otherwise. Between two loads it is a straight line. The ends of each load's
    interval, joined by straight lines, are a band around the fit, and the break-even lies where the band contains 1.
    It is inconclusive if the interval of a load lies on the other side of 1 than the fit.

    loads: at least one, ascending, in requests under way or requests per second.
    ratios: of each load, one for each round.
    """
    centres = [centre_of([[ratio] for ratio in rounds]) for rounds in ratios]
    places, heights = np.log2(loads), np.array([centre.log for centre in centres])
    low, high = np.log([centre.interval() for centre in centres]).T
    weights = np.array([len(rounds) for rounds in ratios], dtype=float)
    rises = bool((places - places.mean()) @ (heights - heights.mean()) >= 0)
    if not rises:  # a line that falls is one that rises, seen from its other end
        places, heights, low, high, weights = -places[::-1], heights[::-1], low[::-1], high[::-1], weights[::-1]
    fit = isotonic_regression(heights, weights=weights).x
    against = places[((fit < 0) & (low > 0)) | ((fit > 0) & (high < 0))]
    status, crossing, ends = _place(places, fit, fit + low - heights, fit + high - heights)

    def load_at(place: float) -> float:
        return float(2 ** (place if rises else -place))

    def interval(ends: tuple[float, float]) -> tuple[float, float]:
        low, high = sorted(map(load_at, ends))
        return low, high

    return LoadBreakEven(
        quantity=quantity,
        loop=loop,
        status="inconclusive" if len(against) else status,
        pays="below" if rises else "above",
        load=None if crossing is None or len(against) else load_at(crossing),
        ci95=None if ends is None or len(against) else interval(ends),
        measured=interval((places[0], places[-1])),
        against=tuple(sorted(map(load_at, against))),
    )


def _place(x: Line, fit: Line, low: Line, high: Line) -> tuple[Status, float | None, tuple[float, float] | None]:
    """Return the status, the crossing and its interval, of a fit with a band from `low` to `high`."""
    crossing = first_crossing(x, fit)
    if np.isposinf(crossing) and high[-1] < 0:
        return "always", None, None
    if np.isneginf(crossing) and low[0] > 0:
        return "never", None, None
    # The interval begins where the upper line first reaches 0, and ends where the lower line last leaves it.
    begin, end = first_crossing(x, high), -first_crossing(-x[::-1], -low[::-1])
    ends = float(np.clip(begin, x[0], x[-1])), float(np.clip(end, x[0], x[-1]))
    if np.isinf(crossing) or np.isinf([begin, end]).all():
        return "inconclusive", None, ends
    return "crossing", crossing, ends
