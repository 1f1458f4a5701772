"""Closed and open loops, in virtual time: the servers are queues whose throughput is known."""

import asyncio
from itertools import count
from typing import Any

import numpy as np
import pytest

from tests.profile.kinds.servers.fake_servers import Queue, virtual
from trio_profile.errors import StudyError
from trio_profile.kinds.servers.requests import Request
from trio_profile.kinds.servers.study import Load
from trio_profile.kinds.servers.traffic.segment import (
    EACH,
    MOST_WINDOWS,
    Limits,
    SegmentRun,
    keeps_up,
    run_segment,
    window_of,
)
from trio_profile.kinds.servers.traffic.stream import Body, Reply, Stream


def run(queue: Any, load: Load, *, requests: int = 40, seconds: float = 1000.0, seed: str = "0") -> SegmentRun:
    bodies = ((number, {}) for number in count())
    return virtual(run_segment(queue.ask, bodies, load, Limits(requests, seconds), seed=seed))


def closed(value: int) -> Load:
    return Load(loop="closed", value=value)


def throughput(found: SegmentRun) -> float:
    """Measured requests per second."""
    return 1000 * sum(one.measured for one in found.requests) / (found.end_ms - found.start_ms)


def test_as_many_requests_are_measured_as_were_asked_for_and_the_warm_up_comes_first():
    found = run(Queue(0.1, 0.3), closed(3), requests=20)
    assert [one.measured for one in found.requests].count(True) == 21  # a multiple of the three that are under way
    assert not any(one.measured for one in found.requests[: found.warm_ups])
    assert found.requests[found.warm_ups].measured and found.warm_ups % window_of(closed(3)) == 0
    assert [one.measured for one in found.requests[-2:]] == [False, False]  # under way when the last one ended
    many = run(Queue(0.1, 0.3), closed(16), requests=20)
    assert sum(one.measured for one in many.requests) == EACH * 16


def test_no_more_requests_are_under_way_than_the_load_says():
    found = run(Queue(0.1, 0.3), closed(5), requests=30)
    marks = sorted([(one.sent_ms, 1) for one in found.requests] + [(one.end_ms, -1) for one in found.requests])
    running = most = 0
    for _, step in marks:
        running += step
        most = max(most, running)
    assert most == 5


def test_time_ends_a_segment_with_at_least_one_request():
    found = run(Queue(0.5, 0.5), closed(1), requests=10_000, seconds=20.0)
    assert found.stopped == "seconds"
    assert throughput(found) == pytest.approx(1.0)
    assert found.end_ms - found.start_ms <= 20_000
    slow = run(Queue(50.0, 50.0), closed(1), requests=10_000, seconds=20.0)
    assert sum(one.measured for one in slow.requests) == 1


class Batches:
    """A server that answers all waiting requests together after `batch_s`. New ones wait for the next batch."""

    def __init__(self, batch_s: float) -> None:
        self.batch_s, self.waiting, self.task = batch_s, list[asyncio.Future[None]](), None

    async def ask(self, body: Body) -> Reply:  # noqa: ARG002
        loop = asyncio.get_running_loop()
        start, answered = loop.time(), loop.create_future()
        self.waiting.append(answered)
        self.task = self.task or asyncio.create_task(self._work())
        await answered
        return Reply(start, loop.time(), Stream(first=loop.time(), finish="stop"), 200)

    async def _work(self) -> None:
        while self.waiting:
            await asyncio.sleep(0)  # all requests of the client's turn belong to the batch
            batch, self.waiting = self.waiting, []
            await asyncio.sleep(self.batch_s)
            for answered in batch:
                answered.set_result(None)
            await asyncio.sleep(0.001)
        self.task = None


@pytest.mark.parametrize("at_once", [1, 3, 7, 16])
@pytest.mark.parametrize(("requests", "seconds"), [(100, 1000.0), (10_000, 1.0), (10_000, 5.3), (10_000, 0.1)], ids=str)
def test_a_server_that_answers_in_batches_has_its_own_throughput(at_once, requests, seconds):
    """The window may end by the number of requests, or by the clock. So may the warm-up."""
    found = run(Batches(0.319), closed(at_once), requests=requests, seconds=seconds)
    assert throughput(found) == pytest.approx(at_once / 0.32, rel=0.01)
    assert sum(one.measured for one in found.requests) % at_once == 0


def test_a_warm_up_that_does_not_become_stable_ends_anyway():
    class Alternating(Queue):
        async def ask(self, body):
            self.encode_s = 10.0 if (len(self.bodies) // 4) % 2 else 0.1
            return await super().ask(body)

    found = run(Alternating(0.1, 0.1), closed(1), requests=8)
    assert not found.steady
    assert found.warm_ups == MOST_WINDOWS * 4


def test_an_open_loop_sends_at_its_rate_whether_or_not_answers_come():
    fast = run(Queue(0.01, 0.01), Load(loop="open", value=5), requests=400)
    span = max(one.due_ms for one in fast.requests) - min(one.due_ms for one in fast.requests)
    assert len(fast.requests) / span * 1000 == pytest.approx(5, rel=0.2)
    slow = run(Queue(1.0, 0.0), Load(loop="open", value=5), requests=60, seconds=30)
    waits = [one.ttft_ms for one in slow.requests if one.measured]
    assert max(waits) > 10_000  # the queue grows: arrivals do not wait for answers


class Sharing:
    """A server that works on all requests at once: a request takes `base_s`, and `each_s` for each one under way."""

    def __init__(self, base_s: float, each_s: float) -> None:
        self.base_s, self.each_s, self.under_way = base_s, each_s, 0

    async def ask(self, body: Body) -> Reply:  # noqa: ARG002
        loop, self.under_way = asyncio.get_running_loop(), self.under_way + 1
        start = loop.time()
        await asyncio.sleep(self.base_s + self.each_s * self.under_way)
        self.under_way -= 1
        return Reply(start, loop.time(), Stream(first=loop.time(), finish="stop"), 200)


def test_an_open_loop_is_measured_when_its_server_keeps_up():
    """At 40 a second 69 requests are under way, and a new one takes 0.5 s + 70 × 17.5 ms = 1.725 s. The first one takes
    about 0.5 s."""
    load = Load(loop="open", value=40)
    segments = [run(Sharing(0.5, 0.0175), load, requests=400, seconds=60.0, seed=str(seed)) for seed in range(5)]
    times = [np.median([one.total_ms for one in found.requests if one.measured]) for found in segments]
    assert np.mean(times) == pytest.approx(1725, rel=0.05)
    ended = [sum(found.start_ms < one.end_ms <= found.end_ms for one in found.requests) for found in segments]
    spans = [found.end_ms - found.start_ms for found in segments]
    assert 1000 * sum(ended) / sum(spans) == pytest.approx(40, rel=0.05)
    assert sum(found.steady for found in segments) >= 4


def test_two_segments_with_one_seed_have_the_same_arrivals():
    first, second = (run(Queue(rest, 0.0), Load(loop="open", value=2), seed="7") for rest in (0.01, 0.02))
    arrivals = [sorted(one.due_ms for one in found.requests)[:30] for found in (first, second)]
    assert arrivals[0] == arrivals[1]
    other = run(Queue(0.01, 0.0), Load(loop="open", value=2), seed="8")
    assert sorted(one.due_ms for one in other.requests)[:30] != arrivals[0]


def test_every_measured_arrival_of_an_open_loop_is_answered():
    found = run(Queue(0.6, 2.0), Load(loop="open", value=1.5), requests=50)
    assert sum(one.measured for one in found.requests) == 50
    assert all(one.first_ms is not None for one in found.requests)


@pytest.mark.parametrize("load", [closed(1), closed(8), Load(loop="open", value=3)])
def test_failures_in_a_row_break_a_segment_off(load):
    queue = Queue(0.1, 0.1, fails=lambda number: number > 6)
    found = run(queue, load, requests=1000)
    assert found.failure == "HTTP 503: too busy"
    assert len(queue.bodies) < 60


@pytest.mark.parametrize("load", [closed(1), closed(2), Load(loop="open", value=0.2)])
def test_a_server_that_hangs_is_no_measurement(load):
    """So few requests time out in a segment that they are no row of failures."""

    class Hangs(Queue):
        async def ask(self, body):
            if len(self.bodies) < 6:
                return await super().ask(body)
            await asyncio.sleep(120)
            now = asyncio.get_running_loop().time()
            return Reply(now - 120, now, error="no answer within 120 s")

    assert run(Hangs(0.1, 0.1), load, requests=50, seconds=60).failure == "no answer within 120 s"


@pytest.mark.slow
def test_time_that_ends_during_an_answer_does_not_favour_slow_servers():
    """Few answers of varying length fit in a segment. Throughput is n answers / the time from answer 0 to answer n."""

    def exponential(seed: int) -> SegmentRun:
        return run(Queue(10.0, 0.0, exponential=True, seed=seed), closed(1), requests=1000, seconds=60.0)

    segments = [exponential(seed) for seed in range(150)]
    answers = sum(one.measured for found in segments for one in found.requests)
    assert answers / sum(found.end_ms - found.start_ms for found in segments) == pytest.approx(1e-4, rel=0.08)


@pytest.mark.parametrize("load", [closed(2), Load(loop="open", value=3)])
def test_single_failures_are_recorded(load):
    found = run(Queue(0.1, 0.1, fails=lambda number: number % 5 == 0), load, requests=50)
    assert found.failure is None
    errors = [one for one in found.requests if one.error is not None]
    assert 0.1 < len(errors) / len(found.requests) < 0.3
    assert all(one.ttft_ms is None for one in errors)


def test_a_request_keeps_the_end_and_the_odd_counts_of_its_answer():
    class Odd(Queue):
        async def ask(self, body):
            reply = await super().ask(body)
            reply.stream.odd_counts = {"prompt": "-1 prompt tokens", "output": "2.5 output tokens"}
            return reply

    last = run(Odd(0.1, 0.1), closed(1), requests=4).requests[-1]
    assert (last.finish, last.odd_counts) == ("stop", "-1 prompt tokens; 2.5 output tokens")
    assert run(Queue(0.1, 0.1), closed(1), requests=4).requests[-1].odd_counts is None


@pytest.mark.parametrize("load", [closed(2), Load(loop="open", value=3)])
def test_pictures_that_run_out_end_the_segment_with_their_error(load):
    def bodies():
        for number in range(20):
            yield number, {}
        raise StudyError("too few pictures")

    with pytest.raises(StudyError, match="too few pictures"):
        virtual(run_segment(Queue(0.1, 0.1).ask, bodies(), load, Limits(100, 100.0)))


def test_the_delay_of_a_request_that_waits_for_the_client_counts():
    class Late(Queue):
        async def ask(self, body):
            await asyncio.sleep(0.2)
            return await super().ask(body)

    found = run(Late(0.1, 0.0), closed(1), requests=10)
    one = found.requests[-1]
    assert one.sent_ms - one.due_ms == pytest.approx(200)
    assert one.ttft_ms == pytest.approx(300)


# --- the warm-up --------------------------------------------------------------------------------------------------


def requests_of(*times_ms: float) -> list[Request]:
    """Requests that took so long."""
    return [Request(segment=0, measured=False, picture=0, due_ms=0, sent_ms=0, end_ms=time) for time in times_ms]


def test_a_server_keeps_up_if_as_many_end_as_arrive_and_it_becomes_no_slower():
    """Marks of (arrived, ended). Ten requests may be under way all the time."""
    times = requests_of(*[100.0] * 300)
    assert keeps_up([(0, 0), (110, 100), (210, 200)], times)
    assert keeps_up([(0, 0), (60, 5), (160, 100), (260, 200)], times)
    assert not keeps_up([(0, 0), (110, 100), (230, 190)], times)
    assert not keeps_up([(0, 0), (110, 100)], times)
    assert not keeps_up([(0, 0), (3, 3), (6, 6)], times)
    slower = requests_of(*[100.0] * 100, *[150.0] * 100)
    assert not keeps_up([(0, 0), (110, 100), (210, 200)], slower)
