"""One segment: requests to one server under one load, in a closed or an open loop.

The segment warms up until its times are stable (warm_up.py). Then it is measured, until enough requests have ended or
the time is over. After that nothing more is sent, and the segment ends when the last answer has come.

In a closed loop the measured part begins and ends with an answer, and holds a multiple of the requests under way. So
the throughput is right for a server that answers requests in batches, too.

    closed loop   some requests are always under way: each answer is followed by the next request
    open loop     requests arrive at random times (a Poisson process), whether or not earlier ones have been answered
"""

import asyncio
import random
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Any, Literal

import numpy as np

from trio_profile.records.endpoint_study import MOST_AT_ONCE, Load
from trio_profile.records.requests import Request
from trio_profile.traffic.stream import Ask, Body, Reply
from trio_profile.traffic.warm_up import MOST_WINDOWS, agree, keeps_up, window_of, window_seconds

EACH = 4
"""The least number of measured requests for each request under way of a closed loop."""
MOST_FAILURES = 8
"""A segment is broken off after max(this, 2 × concurrency) failures in a row."""
_DEVIATIONS = 6
"""A random number of arrivals is taken to exceed its mean by at most this many standard deviations."""
_LAG_EVERY = 0.05
"""Seconds between two looks at the event loop of the client."""


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


@dataclass
class Measured:
    """The requests of one segment, and its measured part. Times are in milliseconds since the segment began.

    requests: all of its requests, in the order in which they ended.
    start_ms, end_ms: the measured part.
    failure: why it was broken off, or why no measured request was answered; None if neither is so.
    The other fields are those of `records.requests.Segment`.
    """

    requests: list[Request] = field(default_factory=list)
    start_ms: float = 0.0
    end_ms: float = 0.0
    warm_ups: int = 0
    steady: bool = False
    stopped: Literal["requests", "seconds"] = "requests"
    lag_ms: float = 0.0
    cpu_share: float = 0.0
    failure: str | None = None


async def run_segment(
    ask: Ask,
    bodies: Iterator[tuple[int, Body]],
    load: Load,
    limits: Limits,
    *,
    number: int = 0,
    seed: str = "0",
) -> Measured:
    """Send requests under one load, and return them with their answers.

    ask: sends one request.
    bodies: the number of the picture and the fields of each request.
    number: of the segment.
    seed: of the arrivals. Two segments with one seed have the same arrivals; their warm-ups may end at different ones.
    """
    run = _Run(ask, bodies, load, limits, number)
    cpu, wall = time.process_time(), time.perf_counter()
    watching = asyncio.create_task(run.watch_lag())
    try:
        await (run.closed_loop() if load.loop == "closed" else run.open_loop(seed))
    finally:
        watching.cancel()
        run.cancel_timers()
    found = run.found
    found.lag_ms = float(np.quantile(run.lags, 0.99)) if run.lags else 0.0
    found.cpu_share = (time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9)
    errors = [one.error for one in found.requests if one.measured]
    if found.failure is None and errors and None not in errors:
        found.failure = errors[-1]
    return found


class _Run:
    """A segment while it runs."""

    def __init__(self, ask: Ask, bodies: Iterator[tuple[int, Body]], load: Load, limits: Limits, number: int) -> None:
        self._ask, self._bodies, self._load, self._limits, self._number = ask, bodies, load, limits, number
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._over = asyncio.Event()
        self._measuring, self._counted, self._failures = False, 0, 0
        self._warm_up_expired, self._time_is_over = False, False
        self._timers = [self._loop.call_later(limits.seconds, self._end_warm_up)]
        self._arrived, self._looks = 0, [(0, 0)]
        self.found = Measured()
        self.lags: list[float] = []

    async def watch_lag(self) -> None:
        """Record every 50 ms how late the event loop is."""
        while True:
            due = self._loop.time() + _LAG_EVERY
            await asyncio.sleep(_LAG_EVERY)
            self.lags.append(1000 * (self._loop.time() - due))

    def cancel_timers(self) -> None:
        """Cancel the timers that end the warm-up and the measured part."""
        for timer in self._timers:
            timer.cancel()

    async def closed_loop(self) -> None:
        """Keep a fixed number of requests under way."""

        async def worker() -> None:
            while not self._over.is_set():
                await self._send(self._loop.time(), next(self._bodies))

        await self._all(worker() for _ in range(self._load.at_once))

    async def open_loop(self, seed: str) -> None:
        """Send requests as they arrive. Beyond MOST_AT_ONCE an arrival waits, which shows as a late sending."""
        draw = random.Random(seed)
        window = window_seconds(self._load, self._limits.seconds)
        places = range(1, int(self._limits.seconds / window) + 1)
        self._timers += [self._loop.call_later(place * window, self._see_window) for place in places]
        free = asyncio.Semaphore(MOST_AT_ONCE)
        under_way: set[asyncio.Task[None]] = set()

        async def one(due: float, asked: tuple[int, Body], counts: bool) -> None:
            try:
                await self._send(due, asked, counts)
            finally:
                free.release()

        due = self._loop.time()
        try:
            while not self._over.is_set():
                due += draw.expovariate(self._load.value)
                if await self._over_before(due):
                    break
                await free.acquire()
                asked = next(self._bodies)
                task = asyncio.create_task(one(due, asked, self._count_arrival()))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            if under_way and self.found.failure is None:
                await asyncio.gather(*under_way)
        finally:
            await _cancel(under_way)

    async def _over_before(self, due: float) -> bool:
        """Wait for an arrival. Return whether the measured part ended before it."""
        try:
            async with asyncio.timeout_at(due):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def _count_arrival(self) -> bool:
        """Return whether an arrival of the open loop is measured. The last one ends the measured part."""
        self._arrived += 1
        if not self._measuring or self._over.is_set():
            return False
        self._counted += 1
        if self._counted >= self._limits.measured(self._load):
            self._stop("requests")
        return True

    async def _all(self, workers: Iterator[Coroutine[Any, Any, None]]) -> None:
        """Run the workers until all have ended, or until the segment is broken off."""
        tasks = {asyncio.create_task(worker) for worker in workers}
        try:
            await asyncio.gather(*tasks)
        except _BrokenOff:
            pass
        finally:
            await _cancel(tasks)

    async def _send(self, due: float, asked: tuple[int, Body], counts: bool | None = None) -> None:
        """Send one request, and record its answer or its error.

        asked: the number of the picture and the fields of the request.
        counts: whether it is measured; None if that depends on when it ends.
        """
        picture, body = asked
        reply = await self._ask(body)
        closed = counts is None
        measured = self._measuring and not self._over.is_set() if closed else counts
        self.found.requests.append(self._record(picture, due, reply, measured))
        self._failures = self._failures + 1 if reply.error is not None else 0
        if self._failures >= max(MOST_FAILURES, 2 * self._load.at_once):
            self._break_off(str(reply.error))
        elif closed and not self._measuring:
            self._see_answers()
        elif closed and measured:
            self._count_end()

    def _count_end(self) -> None:
        """Count a measured request of the closed loop. The measured part ends with one of them."""
        self._counted += 1
        self.found.end_ms = self._ms(self._loop.time())
        if self._counted >= self._limits.measured(self._load):
            self._stop("requests")
        elif self._time_is_over and self._counted % self._load.at_once == 0:
            self._stop("seconds")

    def _see_answers(self) -> None:
        """Begin to measure a closed loop if the times of its last two windows agree, or if the time is over."""
        ended, window = self.found.requests, window_of(self._load)
        windows, rest = divmod(len(ended), window)
        if not rest and windows >= 2:
            self.found.steady = agree(ended[-2 * window : -window], ended[-window:])
        if self._warm_up_expired or self.found.steady or windows >= MOST_WINDOWS:
            self._begin_measuring()

    def _see_window(self) -> None:
        """Begin to measure an open loop if its server keeps up."""
        if self._measuring:
            return
        self._looks.append((self._arrived, len(self.found.requests)))
        self.found.steady = keeps_up(self._looks, self.found.requests)
        if self.found.steady:
            self._begin_measuring()

    def _end_warm_up(self) -> None:
        """End the warm-up because the time is over. A closed loop is measured from the next answer on."""
        self._warm_up_expired = True
        if self._load.loop == "open":
            self._begin_measuring()

    def _begin_measuring(self) -> None:
        if self._measuring:
            return
        self._measuring = True
        self._timers.append(self._loop.call_later(self._limits.seconds, self._run_out))
        self.found.warm_ups = len(self.found.requests)
        self.found.start_ms = self.found.end_ms = self._ms(self._loop.time())

    def _run_out(self) -> None:
        """End the measured part because the time is over. A closed loop waits for a multiple of those under way."""
        self._time_is_over = True
        if self._load.loop == "open":
            self._stop("seconds")

    def _stop(self, why: Literal["requests", "seconds"]) -> None:
        if self._over.is_set():
            return
        self._over.set()
        self.found.stopped = why
        if self._load.loop == "open":
            self.found.end_ms = self._ms(self._loop.time())

    def _break_off(self, why: str) -> None:
        self.found.failure = why
        self._over.set()
        if self._load.loop == "closed":
            raise _BrokenOff

    def _record(self, picture: int, due: float, reply: Reply, measured: bool) -> Request:
        return Request(
            segment=self._number,
            measured=measured,
            picture=picture,
            due_ms=self._ms(due),
            sent_ms=self._ms(reply.sent),
            first_ms=None if reply.first is None else self._ms(reply.first),
            end_ms=self._ms(reply.end),
            prompt_tokens=reply.stream.prompt_tokens,
            output_tokens=reply.stream.output_tokens,
            cached_tokens=reply.stream.cached_tokens,
            pieces=reply.stream.pieces,
            status=reply.status,
            error=reply.error,
        )

    def _ms(self, when: float) -> float:
        return round(max(1000 * (when - self._began), 0.0), 3)


class _BrokenOff(Exception):
    """The segment is broken off. It never leaves this module."""


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
