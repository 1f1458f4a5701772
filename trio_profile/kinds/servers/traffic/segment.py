"""One segment: requests to one server under one load, in a closed or an open loop.

The segment warms up until the times of two neighbouring windows agree. Then it is measured, until enough requests have
ended or the time is over. After that nothing more is sent, and the segment ends when the last answer has come.

In a closed loop the measured part begins and ends with an answer, and holds a multiple of the requests under way. So
the throughput is right for a server that answers requests in batches, too.

    closed loop   some requests are always under way: each answer is followed by the next request
                  a window is a number of answers: as many as are under way, and at least four
    open loop     requests arrive at random times (a Poisson process), whether or not earlier ones have been answered
                  a window is a stretch of time. The server must also answer as many requests as arrive. At first it is
                  empty and answers quickly, so a few early answers say nothing about its later times.
"""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Literal

import numpy as np

from trio_profile.kinds.servers.requests import Request
from trio_profile.kinds.servers.study import MOST_AT_ONCE, Load
from trio_profile.kinds.servers.traffic.stream import Ask, Body
from trio_profile.stats.intervals import median

EACH = 4
"""The least number of measured requests for each request under way of a closed loop."""
MOST_FAILURES = 8
"""A segment is broken off after max(this, 2 × concurrency) failures in a row."""
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
_DEVIATIONS = 6
"""A random number of arrivals is taken to exceed its mean by at most this many standard deviations."""
_KEPT = ("prompt_tokens", "output_tokens", "cached_tokens", "pieces", "finish")
"""The fields of a stream that a request keeps."""
_LAG_EVERY = 0.05
"""The event loop of the client is timed every so many seconds."""


@dataclass(frozen=True)
class Limits:
    """When a segment ends.

    requests: measured requests.
    seconds: the longest time of the warm-up, and of the measured part. A closed loop then waits for answers that are
        under way.
    """

    requests: int
    seconds: float

    def measured(self, load: Load) -> int:
        """The number of measured requests under a load: a multiple of those under way."""
        return ceil(max(self.requests, EACH * load.at_once) / load.at_once) * load.at_once

    def most(self, load: Load) -> int:
        """The most requests that a segment under a load sends.

        An open loop draws its arrivals at random: less than one segment in a billion sends more.
        """
        if load.loop == "closed":
            return MOST_WINDOWS * window_of(load) + self.measured(load) + load.at_once
        expected = load.value * self.seconds
        warm_up = ceil(expected + _DEVIATIONS * sqrt(expected)) + _DEVIATIONS**2
        return warm_up + self.measured(load)


async def run_segment(
    ask: Ask, bodies: Iterator[tuple[int, Body]], load: Load, limits: Limits, *, number: int = 0, seed: str = "0"
) -> "SegmentRun":
    """Send requests under one load, and return them with their answers.

    ask: sends one request.
    bodies: the number of the picture and the fields of each request.
    number: of the segment.
    seed: of the arrivals. Two segments with one seed have the same arrivals; their warm-ups may end at different ones.
    """
    measured = SegmentRun(ask, bodies, load, limits, number)
    cpu, wall = time.process_time(), time.perf_counter()
    watching = asyncio.create_task(measured.watch_lag())
    try:
        async with asyncio.TaskGroup() as tasks:
            await (measured.closed_loop(tasks) if load.loop == "closed" else measured.open_loop(tasks, seed))
    except ExceptionGroup as group:  # it holds what ended the segment first
        if not isinstance(group.exceptions[0], _BrokenOff):
            raise group.exceptions[0] from None
    finally:
        watching.cancel()
    measured.lag_ms = round(float(np.quantile(measured.lags, 0.99)), 3) if measured.lags else 0.0
    measured.cpu_share = round((time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9), 4)
    errors = [request.error for request in measured.requests if request.measured]
    if measured.failure is None and None not in errors:
        measured.failure = errors[-1] if errors else "no request arrived while it was measured; raise --seconds"
    return measured


class _BrokenOff(Exception):
    """The segment is broken off. It never leaves this module."""


class SegmentRun:
    """The requests of one segment, while it runs and afterwards. Times are in milliseconds since the segment began.

    requests: all of its requests, in the order in which they ended.
    failure: why it was broken off, or why no measured request was answered; None if neither is so.
    The other fields are those of `requests.Segment`.
    """

    def __init__(self, ask: Ask, bodies: Iterator[tuple[int, Body]], load: Load, limits: Limits, number: int) -> None:
        self.requests: list[Request] = []
        self.failure: str | None = None
        self.start_ms = self.end_ms = self.lag_ms = self.cpu_share = 0.0
        self.warm_ups, self.steady, self.stopped = 0, False, "requests"
        self._ask, self._bodies, self._load, self._limits, self._number = ask, bodies, load, limits, number
        self._loop = asyncio.get_running_loop()
        self._began = self._start = self._loop.time()
        self._over = asyncio.Event()
        self._measuring, self._arrived, self._counted, self._failures = False, 0, 0, 0
        self.lags: list[float] = []

    async def watch_lag(self) -> None:
        """Record every 50 ms how late the event loop is."""
        while True:
            begin = self._loop.time()
            await asyncio.sleep(_LAG_EVERY)
            self.lags.append(1000 * (self._loop.time() - begin - _LAG_EVERY))

    async def closed_loop(self, tasks: asyncio.TaskGroup) -> None:
        """Keep a fixed number of requests under way."""

        async def worker() -> None:
            while not self._over.is_set():
                request = await self._send(self._loop.time(), next(self._bodies))
                if not self._measuring:
                    self._see_answers()
                elif request.measured:
                    self._count()

        for _ in range(self._load.at_once):
            tasks.create_task(worker())

    def _see_answers(self) -> None:
        """Begin to measure a closed loop if the times of its last two windows agree, or if the time is over."""
        ended, window = self.requests, window_of(self._load)
        windows, rest = divmod(len(ended), window)
        if not rest and windows >= 2:
            self.steady = agree(ended[-2 * window : -window], ended[-window:])
        if self._time_is_over() or self.steady or windows >= MOST_WINDOWS:
            self._begin_measuring()

    async def open_loop(self, tasks: asyncio.TaskGroup, seed: str) -> None:
        """Send requests as they arrive. Beyond MOST_AT_ONCE an arrival waits, which shows as a late sending."""
        clock = tasks.create_task(self._watch_windows())
        draw = random.Random(seed)
        free = asyncio.Semaphore(MOST_AT_ONCE)
        arrival = self._loop.time()
        while not self._over.is_set():
            arrival += draw.expovariate(self._load.value)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(arrival):
                    await self._over.wait()
                break  # the measured part ended before this arrival
            await free.acquire()
            self._arrived += 1
            counts = self._measuring and not self._over.is_set()
            if counts:
                self._count()
            request = self._send(arrival, next(self._bodies), counts=counts)
            tasks.create_task(request).add_done_callback(lambda _: free.release())
        clock.cancel()

    async def _watch_windows(self) -> None:
        """Begin to measure an open loop if its server keeps up, or if the time is over. Then measure for as long."""
        seconds = self._limits.seconds
        window = max(seconds / _WINDOWS, 2 * LEAST_WINDOW / self._load.value)  # several requests arrive in each
        marks = [(0, 0)]
        for _ in range(int(seconds / window)):
            await asyncio.sleep(window)
            marks.append((self._arrived, len(self.requests)))
            self.steady = keeps_up(marks, self.requests)
            if self.steady:
                break
        else:
            await asyncio.sleep(self._began + seconds - self._loop.time())
        self._begin_measuring()
        await asyncio.sleep(seconds)
        self._stop("seconds")

    def _time_is_over(self) -> bool:
        """Whether the warm-up, or else the measured part, has taken its longest time."""
        return self._loop.time() - self._start >= self._limits.seconds

    def _begin_measuring(self) -> None:
        self._measuring, self._start = True, self._loop.time()
        self.warm_ups, self.start_ms = len(self.requests), self._ms(self._start)

    def _count(self) -> None:
        """Count a measured request. The measured part ends with enough of them, in a closed loop also after its time.

        A closed loop waits for a multiple of the requests under way.
        """
        self._counted += 1
        if self._counted >= self._limits.measured(self._load):
            self._stop("requests")
        elif self._load.loop == "closed" and self._time_is_over() and self._counted % self._load.at_once == 0:
            self._stop("seconds")

    def _stop(self, why: Literal["requests", "seconds"]) -> None:
        self._over.set()
        self.stopped, self.end_ms = why, self._ms(self._loop.time())

    async def _send(self, arrival: float, content: tuple[int, Body], *, counts: bool | None = None) -> Request:
        """Send one request, and record its answer or its error. Raises _BrokenOff after too many failures in a row.

        arrival: when it was due.
        content: the number of the picture and the fields of the request.
        counts: whether it is measured; None in a closed loop, where that depends on when it ends.
        """
        picture, body = content
        reply = await self._ask(body)
        measured = self._measuring and not self._over.is_set() if counts is None else counts
        stream = reply.stream
        request = Request(
            segment=self._number,
            measured=measured,
            picture=picture,
            due_ms=self._ms(arrival),
            sent_ms=self._ms(reply.start),
            first_ms=None if stream.first is None else self._ms(stream.first),
            end_ms=self._ms(reply.end),
            status=reply.status,
            error=reply.error,
            odd_counts="; ".join(stream.odd_counts.values()) or None,
            **{name: getattr(stream, name) for name in _KEPT},
        )
        self.requests.append(request)
        self._failures = self._failures + 1 if reply.error is not None else 0
        if self._failures >= max(MOST_FAILURES, 2 * self._load.at_once):
            self.failure = str(reply.error)
            raise _BrokenOff
        return request

    def _ms(self, when: float) -> float:
        return round(max(1000 * (when - self._began), 0.0), 3)


def window_of(load: Load) -> int:
    """Return the number of answers in a window of a closed loop."""
    return max(load.at_once, LEAST_WINDOW)


def agree(before: Sequence[Request], now: Sequence[Request]) -> bool:
    """Return whether the times of two windows agree."""
    first, second = (median([request.total_ms for request in window]) for window in (before, now))
    return abs(second - first) <= STABLE * first


def keeps_up(marks: Sequence[tuple[int, int]], ended: Sequence[Request]) -> bool:
    """Return whether the server of an open loop answers what arrives, at times that agree, in the last two windows.

    marks: how many requests had arrived, and how many had ended, at the beginning and at the end of each window.
    ended: the requests in the order in which they ended.
    """
    if len(marks) < 3:
        return False
    (arrived, begin), (_, middle), (arrived_now, end) = marks[-3:]
    if min(middle - begin, end - middle) < LEAST_WINDOW:
        return False
    arrivals = arrived_now - arrived
    grown = arrivals - (end - begin)
    return grown <= max(_BACKLOG * arrivals, sqrt(arrivals)) and agree(ended[begin:middle], ended[middle:end])
