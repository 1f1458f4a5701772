"""The quantities of an arm under a load, a record each. One that is added here is measured, kept and shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from trio_profile.kinds.servers.requests import Request, Segment
from trio_profile.records.estimate import MillisecondsOverRounds, OverRounds, PerSecond


class Answers:
    """The answered requests of a segment.

    seconds: of its measured part.
    measured: those that are measured.
    ended: those that ended in the measured part. In an open loop these are not the ones that arrive in it.
    limit_ms: of the time to the first token, for the goodput; None without a limit.
    """

    def __init__(self, segment: Segment, requests: Sequence[Request], limit_ms: float | None) -> None:
        answered = [request for request in requests if request.ttft_ms is not None]
        in_time = [request for request in answered if segment.start_ms < request.end_ms <= segment.end_ms]
        self.seconds, self.limit_ms = (segment.end_ms - segment.start_ms) / 1000, limit_ms
        self.measured = [request for request in answered if request.measured]
        self.ended = self.measured if segment.load.loop == "closed" else in_time

    def rate(self, limit_ms: float | None) -> float | None:
        """Return the requests per second whose first token came within a limit; None if that is not known."""
        if self.seconds <= 0 or limit_ms is None:
            return None
        return sum((request.ttft_ms or 0.0) <= limit_ms for request in self.ended) / self.seconds

    def quantile(self, field: str, share: float) -> float | None:
        """Return a quantile of a time of the measured requests; None if none of them has it."""
        times = [value for request in self.measured if (value := getattr(request, field)) is not None]
        return float(np.quantile(times, share)) if times else None


@dataclass(frozen=True)
class Quantity:
    """One quantity.

    name: its field in `--json`. The last part of a time says the unit.
    label: its name in a sentence and at the head of a column.
    kind: the class of its values over the rounds. Of a rate more is better, of a time less.
    value: its value in one segment; None if the segment has none.
    has_break_even: whether the load at which its gain crosses 1 is looked for.
    is_drawn: whether the page draws its gain.
    """

    name: str
    label: str
    kind: type[OverRounds]
    value: Callable[[Answers], float | None]
    has_break_even: bool = False
    is_drawn: bool = False

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.kind is PerSecond


def _time(name: str, label: str, field: str, share: float = 0.5, **more: bool) -> Quantity:
    """Return the quantity that is a quantile of a time of all requests."""
    return Quantity(name, label, MillisecondsOverRounds, lambda answers: answers.quantile(field, share), **more)


QUANTITIES: dict[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        Quantity(
            "throughput", "throughput", PerSecond, lambda answers: answers.rate(inf), has_break_even=True, is_drawn=True
        ),
        Quantity("goodput", "goodput", PerSecond, lambda answers: answers.rate(answers.limit_ms), has_break_even=True),
        _time("ttft_p50_ms", "TTFT p50", "ttft_ms", 0.5, has_break_even=True, is_drawn=True),
        _time("ttft_p95_ms", "TTFT p95", "ttft_ms", 0.95, has_break_even=True),
        _time("ttft_p99_ms", "TTFT p99", "ttft_ms", 0.99, has_break_even=True),
        _time("tpot_ms", "TPOT", "tpot_ms"),
        _time("total_ms", "total time", "total_ms"),
    )
}
"""By name, in the order of tables."""
