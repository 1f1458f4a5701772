"""Doubts about a study of servers: a busy client, requests that waited, unequal answers, caches, failures, overload."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from trio_profile import units
from trio_profile.analysis.doubts import Doubt, Kind
from trio_profile.kinds.servers.document import LoadBreakEven
from trio_profile.kinds.servers.requests import ARMS, Arm, Request, RequestLog, Segment
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.records.estimate import Estimate
from trio_profile.text import listed

BUSY = 0.7
"""A client that uses more than this share of one CPU is saturated."""
LATE = 0.05
"""The client may be late by this share of the time to the first token."""
UNEQUAL = 0.02
"""The mean lengths of answers may differ by this share."""
CACHED = 0.1
"""A prompt contains text that all requests share. More cached tokens than this share are not only text."""
FAILED = 0.01
"""More failed requests than this share."""
ENDED = 0.9
"""A server keeps up in the open loop if it ends at least this share of the requests that arrive."""
FEWEST = {"95th": 20, "99th": 100}
"""A percentile of fewer requests in a segment is one of the largest values."""
UNSTEADY = 0.25
"""More segments than this share whose warm-up did not become stable."""
_ELSEWHERE = "run the client on another machine than the servers, or measure lower loads"


def doubts_about(
    study: EndpointStudy, log: RequestLog, cache: Mapping[Arm, Estimate], break_evens: Sequence[LoadBreakEven] = ()
) -> Iterator[Doubt]:
    """Yield the doubts about a study of which a pair is finished.

    cache: for each arm, how much faster a repeated picture is; empty if that was not checked.
    break_evens: of each loop and quantity.
    """
    pairs = log.pairs()
    whole = _Measured(log, [segment for pair in pairs for segment in pair])
    compared = _Measured(log, [segment for segment in whole.segments if segment.test == "pruning"])
    yield from _client(whole)
    for arm in ARMS:
        yield from _failures(whole, arm)
    yield from _lengths(compared)
    if compared.segments:
        yield from _prompts(compared)
    yield from _overload(compared)
    for arm in ARMS:
        yield from _caches(compared, arm, cache.get(arm))
    if compared.segments:
        yield from _percentiles(compared)
    for arm in ARMS:
        yield from _pieces(compared, arm)
    yield from _warm_ups(whole)
    yield from _contradictions(break_evens)
    if (left := study.pairs - len(pairs)) > 0:
        yield _doubt(
            "unfinished",
            f"{units.exact(left)} of {units.number_of(study.pairs, 'pair')} of segments "
            f"{'is' if left == 1 else 'are'} not measured yet",
            "give the same command again: it measures those that are missing",
            left,
            0.0,
        )


def mean_of(requests: Sequence[Request], field: str) -> float | None:
    """Return the mean of a field over the requests that have it; None if none has."""
    known = [value for request in requests if (value := getattr(request, field)) is not None]
    return float(np.mean(known)) if known else None


def delay_ms(requests: Sequence[Request]) -> float:
    """Return how late requests were sent, in milliseconds: the 99th percentile; 0 without requests."""
    return float(np.quantile([one.sent_ms - one.due_ms for one in requests], 0.99)) if requests else 0.0


@dataclass(frozen=True)
class _Measured:
    """Segments of a study with their measured requests."""

    log: RequestLog
    segments: Sequence[Segment]

    @cached_property
    def requests(self) -> dict[int, list[Request]]:
        """By the number of the segment."""
        return {one.number: [r for r in self.log.requests[one.number] if r.measured] for one in self.segments}

    def of(self, arm: Arm) -> list[Request]:
        """All measured requests of an arm."""
        return [one for segment in self.segments if segment.arm == arm for one in self.requests[segment.number]]

    def means(self, field: str) -> tuple[float | None, float | None]:
        """The mean of a field, dense and pruned."""
        return mean_of(self.of("dense"), field), mean_of(self.of("pruned"), field)

    def share_of_ttft(self, ms: float, segment: Segment) -> float:
        """A time as a share of the segment's median time to the first token; 0 without one."""
        times = [one.ttft_ms for one in self.requests[segment.number] if one.ttft_ms is not None]
        return ms / (float(np.median(times)) or float("inf")) if times else 0.0


def _client(measured: _Measured) -> Iterator[Doubt]:
    """Doubts about the client: it is saturated, other work delays it, or it sends late."""
    busiest = max(measured.segments, key=lambda one: one.cpu_share)
    if busiest.cpu_share > BUSY:
        yield _doubt(
            "client saturated",
            f"at {busiest.load.name} the client uses {units.percent(busiest.cpu_share, 0)} of a CPU, so it may be "
            "the client that is slow",
            _ELSEWHERE,
            busiest.cpu_share,
            BUSY,
        )
    lags = [(one.lag_ms, one) for one in measured.segments]
    delays = [(delay_ms(measured.requests[one.number]), one) for one in measured.segments]
    for times, what in (
        (lags, "the event loop of the client is late by"),
        (delays, "requests leave the client late, by"),
    ):
        ms, segment = max(times, key=lambda row: measured.share_of_ttft(*row))
        share = measured.share_of_ttft(ms, segment)
        if share > LATE:
            busy = times is lags and segment.cpu_share > BUSY
            cause = f". It uses {units.percent(segment.cpu_share)} of a CPU, so other work on its machine delays it"
            yield _doubt(
                "client saturated" if busy else "queueing at the client",
                f"at {segment.load.name} {what} {units.milliseconds(ms)} (99th percentile), {units.percent(share)} of "
                f"the median time to the first token{cause if times is lags and not busy else ''}",
                _ELSEWHERE,
                share,
                LATE,
            )


def _failures(measured: _Measured, arm: Arm) -> Iterator[Doubt]:
    requests = measured.of(arm)
    errors = [one.error for one in requests if one.error is not None]
    if errors:
        share, common = len(errors) / len(requests), max(set(errors), key=errors.count)
        yield _doubt(
            "failed requests" if share > FAILED else "failures left out",
            f"{units.exact(len(errors))} of {units.number_of(len(requests), 'request')} to the {arm} server failed, "
            f"most often: {common}. Times are those of the other requests, so high percentiles may be too low",
            "look into the log of the server, or measure lower loads",
            share,
            FAILED if share > FAILED else 0.0,
        )


def _lengths(measured: _Measured) -> Iterator[Doubt]:
    dense, pruned = measured.means("output_tokens")
    if dense and pruned and abs(pruned / dense - 1) > UNEQUAL:
        yield _doubt(
            "unequal answers",
            f"an answer has {units.plain(round(dense, 1))} tokens dense and {units.plain(round(pruned, 1))} pruned, on "
            "average, so throughput and total time compare unequal work",
            "ask for equal lengths: --body '{\"ignore_eos\": true}' if the servers know it, or fewer --new-tokens",
            abs(pruned / dense - 1),
            UNEQUAL,
        )


def _prompts(measured: _Measured) -> Iterator[Doubt]:
    """Doubts that the pruned server prunes.

    The requests that open a session show one picture to both servers. Means are over different pictures, so they count
    only if a server did not report the first prompt.
    """
    opening = {facts.arm: facts.prompt_tokens for facts in measured.log.servers}
    dense, pruned = opening.get("dense"), opening.get("pruned")
    if dense is None or pruned is None:
        dense, pruned = measured.means("prompt_tokens")
    way_out = "look into the log of the pruned server"
    if dense is None or pruned is None:
        unknown = "a server does not report the tokens of its prompts, so it is not known whether anything was pruned"
        yield _doubt("prompt length", unknown, way_out, 0.0, 0.0)
    elif pruned >= dense:
        yield _doubt(
            "prompt length",
            f"the pruned server reports {units.plain(round(pruned, 1))} prompt tokens, and the dense one "
            f"{units.plain(round(dense, 1))}: nothing was pruned, or the server reports the prompt before pruning",
            way_out,
            pruned / dense,
            1.0,
        )


def _overload(measured: _Measured) -> Iterator[Doubt]:
    """Doubts that a server keeps up with the requests that arrive."""
    loads = dict.fromkeys(one.load for one in measured.segments if one.load.loop == "open")
    for load, arm in product(loads, ARMS):
        own = [one for one in measured.segments if one.load == load and one.arm == arm]
        arrived = sum(len(measured.requests[one.number]) for one in own)
        ended = sum(one.start_ms < r.end_ms <= one.end_ms for one in own for r in measured.log.requests[one.number])
        if arrived and ended / arrived < ENDED:
            yield _doubt(
                "overload",
                f"at {load.name} the {arm} server answers {units.percent(ended / arrived, 0)} of what arrives, so its "
                "queue grows, and its times depend on how long a segment is",
                "compare times at lower rates; the throughput here is the most that the server can do",
                ended / arrived,
                ENDED,
            )


def _caches(measured: _Measured, arm: Arm, repeated: Estimate | None) -> Iterator[Doubt]:
    """Doubts about the caches of a server. repeated: how much faster a repeated picture is, if that was checked."""
    cached, prompt = (mean_of(measured.of(arm), field) for field in ("cached_tokens", "prompt_tokens"))
    if cached and prompt and cached / prompt > CACHED:
        yield _doubt(
            "prefix cache",
            f"the {arm} server took {units.percent(cached / prompt)} of the prompt tokens from its prefix cache",
            "turn off prefix caching in both servers",
            cached / prompt,
            CACHED,
        )
    if repeated is not None and repeated.ci95[0] > 1:
        yield _doubt(
            "prefix cache",
            f"the {arm} server answers a repeated picture {units.times_within(repeated.value, repeated.ci95)} faster, "
            "so it caches pictures",
            "the study itself repeats no picture; turn off the caches to be sure that none answers",
            repeated.value,
            1.0,
        )


def _percentiles(measured: _Measured) -> Iterator[Doubt]:
    fewest = min(sum(one.error is None for one in requests) for requests in measured.requests.values())
    if short := [name for name, least in FEWEST.items() if fewest < least]:
        yield _doubt(
            "few requests",
            f"a segment has {units.number_of(fewest, 'answered request')}, so its {' and '.join(short)} percentile is "
            "one of its largest values",
            "raise --requests and --seconds",
            fewest,
            FEWEST[short[-1]],
        )


def _pieces(measured: _Measured, arm: Arm) -> Iterator[Doubt]:
    long = [one for one in measured.of(arm) if one.error is None and (one.output_tokens or 0) > 2]
    whole = sum(one.pieces == 1 for one in long)
    if long and whole > len(long) / 2:
        yield _doubt(
            "one piece",
            f"{units.percent(whole / len(long))} of the answers of the {arm} server came in one piece, so the time "
            "to the first token is that of the whole answer",
            "look for a proxy that buffers, or for a setting of the server",
            whole / len(long),
            0.5,
        )


def _warm_ups(measured: _Measured) -> Iterator[Doubt]:
    share = sum(not one.steady for one in measured.segments) / len(measured.segments)
    if share > UNSTEADY:
        yield _doubt(
            "unsteady warm-up",
            f"in {units.percent(share)} of the segments the times of the warm-up did not become stable",
            "raise --requests and --seconds, or stop other work on the servers",
            share,
            UNSTEADY,
        )


def _contradictions(break_evens: Sequence[LoadBreakEven]) -> Iterator[Doubt]:
    for one in break_evens:
        if one.against:
            quantity = one.quantity.removesuffix("_ms").replace("_", " ").replace("ttft", "TTFT")
            word = "concurrency" if one.loop == "closed" else "rate"
            yield _doubt(
                "no steady gain",
                f"the gain in {quantity} at {word} {listed([units.load(load) for load in one.against])} is on the "
                "other side of 1 than the fitted line, so no single load is the break-even",
                "decide by the table of the loads, or measure more loads",
                len(one.against),
                0.0,
            )


def _doubt(kind: Kind, sentence: str, next_step: str, found: float, threshold: float) -> Doubt:
    return Doubt(cell=None, kind=kind, sentence=sentence, next_step=next_step, found=found, threshold=threshold)
