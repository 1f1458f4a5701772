"""Doubts about a study of servers: a busy client, requests that waited, unequal answers, caches, failures, overload."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from trio_profile import units
from trio_profile.analysis.doubt import Doubt, Kind
from trio_profile.analysis.endpoints import LoadBreakEven, Quantity
from trio_profile.analysis.request_statistics import delay_ms, mean_of
from trio_profile.records.endpoint_study import EndpointStudy
from trio_profile.records.estimate import Estimate
from trio_profile.records.request_store import Asked
from trio_profile.records.requests import ARMS, Arm, Request, Segment, ServerFacts
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


def doubts_about(
    study: EndpointStudy, found: Asked, cache: Mapping[Arm, Estimate], break_evens: Sequence[LoadBreakEven] = ()
) -> Iterator[Doubt]:
    """Yield the doubts about a study of which a pair is finished.

    cache: for each arm, how much faster a repeated picture is; empty if that was not checked.
    break_evens: of each loop and quantity.
    """
    pairs = found.pairs()
    segments = [segment for pair in pairs for segment in pair]
    measured = {one.number: [r for r in found.requests[one.number] if r.measured] for one in segments}
    yield from _client(segments, measured)
    yield from _failures(segments, measured)
    compared = [segment for segment in segments if segment.test == "pruning"]
    yield from _lengths(compared, measured)
    yield from _prompts(compared, measured, found.servers)
    yield from _overload(compared, found.requests)
    yield from _caches(compared, measured, cache)
    yield from _percentiles(compared, measured)
    yield from _pieces(compared, measured)
    yield from _warm_ups(segments)
    yield from _contradictions(break_evens)
    yield from _unfinished(study.pairs - len(pairs), study.pairs)


_Requests = Mapping[int, Sequence[Request]]


def _client(segments: Sequence[Segment], measured: _Requests) -> Iterator[Doubt]:
    """Doubts about the client: it is saturated, or it sends late."""
    busiest = max(segments, key=lambda one: one.cpu_share)
    if busiest.cpu_share > BUSY:
        yield _doubt(
            "client saturated",
            f"at {busiest.load.name} the client uses {units.percent(busiest.cpu_share, 0)} of a CPU, so it may be "
            "the client that is slow",
            "run the client on another machine than the servers, or measure lower loads",
            busiest.cpu_share,
            BUSY,
        )
    late: tuple[tuple[Kind, str, Callable[[Segment], float]], ...] = (
        ("client saturated", "the event loop of the client is late by", lambda one: one.lag_ms),
        ("queueing at the client", "requests leave the client late, by", lambda one: delay_ms(measured[one.number])),
    )
    for kind, what, of in late:
        worst = max(segments, key=lambda one: of(one) / _ttft(measured[one.number]))
        share = of(worst) / _ttft(measured[worst.number])
        if share > LATE:
            yield _doubt(
                kind,
                f"at {worst.load.name} {what} {units.milliseconds(of(worst))} (99th percentile), "
                f"{units.percent(share)} of the median time to the first token",
                "run the client on another machine than the servers, or measure lower loads",
                share,
                LATE,
            )


def _failures(segments: Sequence[Segment], measured: _Requests) -> Iterator[Doubt]:
    for arm in ARMS:
        own = [one for segment in segments if segment.arm == arm for one in measured[segment.number]]
        errors = [one.error for one in own if one.error is not None]
        if not errors:
            continue
        share, common = len(errors) / len(own), max(set(errors), key=errors.count)
        yield _doubt(
            "failed requests" if share > FAILED else "failures left out",
            f"{units.exact(len(errors))} of {units.number_of(len(own), 'request')} to the {arm} server failed, most "
            f"often: {common}. Times are those of the other requests, so high percentiles may be too low",
            "look into the log of the server, or measure lower loads",
            share,
            FAILED if share > FAILED else 0.0,
        )


def _lengths(segments: Sequence[Segment], measured: _Requests) -> Iterator[Doubt]:
    dense, pruned = (_mean(segments, measured, arm, "output_tokens") for arm in ARMS)
    if dense and pruned and abs(pruned / dense - 1) > UNEQUAL:
        yield _doubt(
            "unequal answers",
            f"an answer has {units.plain(round(dense, 1))} tokens dense and {units.plain(round(pruned, 1))} pruned, on "
            "average, so throughput and total time compare unequal work",
            "ask for equal lengths: --body '{\"ignore_eos\": true}' if the servers know it, or fewer --new-tokens",
            abs(pruned / dense - 1),
            UNEQUAL,
        )


def _prompts(segments: Sequence[Segment], measured: _Requests, servers: Sequence[ServerFacts]) -> Iterator[Doubt]:
    """Doubts that the pruned server prunes.

    The requests that open a session show one picture to both servers. Means are over different pictures, so they count
    only if a server did not report the first prompt.
    """
    if not segments:
        return
    opening = {one.arm: one.prompt_tokens for one in servers}
    dense, pruned = (opening.get(arm) for arm in ARMS)
    if dense is None or pruned is None:
        dense, pruned = (_mean(segments, measured, arm, "prompt_tokens") for arm in ARMS)
    if dense is None or pruned is None:
        yield _doubt(
            "prompt length",
            "a server does not report the tokens of its prompts, so it is not known whether anything was pruned",
            "look into the log of the pruned server",
            0.0,
            0.0,
        )
    elif pruned >= dense:
        yield _doubt(
            "prompt length",
            f"the pruned server reports {units.plain(round(pruned, 1))} prompt tokens, and the dense one "
            f"{units.plain(round(dense, 1))}: nothing was pruned, or the server reports the prompt before pruning",
            "look into the log of the pruned server",
            pruned / dense,
            1.0,
        )


def _overload(segments: Sequence[Segment], requests: _Requests) -> Iterator[Doubt]:
    """Doubts that a server keeps up with the requests that arrive."""
    loads = dict.fromkeys(one.load for one in segments if one.load.loop == "open")
    for load, arm in product(loads, ARMS):
        own = [one for one in segments if one.load == load and one.arm == arm]
        arrived = sum(request.measured for one in own for request in requests[one.number])
        ended = sum(one.start_ms < request.end_ms <= one.end_ms for one in own for request in requests[one.number])
        if arrived and ended / arrived < ENDED:
            yield _doubt(
                "overload",
                f"at {load.name} the {arm} server answers {units.percent(ended / arrived, 0)} of what arrives, so its "
                "queue grows, and its times depend on how long a segment is",
                "compare times at lower rates; the throughput here is the most that the server can do",
                ended / arrived,
                ENDED,
            )


def _caches(segments: Sequence[Segment], measured: _Requests, cache: Mapping[Arm, Estimate]) -> Iterator[Doubt]:
    for arm in ARMS:
        cached, prompt = (_mean(segments, measured, arm, name) for name in ("cached_tokens", "prompt_tokens"))
        if cached and prompt and cached / prompt > CACHED:
            yield _doubt(
                "prefix cache",
                f"the {arm} server took {units.percent(cached / prompt)} of the prompt tokens from its prefix cache",
                "turn off prefix caching in both servers",
                cached / prompt,
                CACHED,
            )
        found = cache.get(arm)
        if found is not None and found.ci95[0] > 1:
            yield _doubt(
                "prefix cache",
                f"the {arm} server answers a repeated picture {units.times_within(found.value, found.ci95)} faster, so "
                "it caches pictures",
                "the study itself repeats no picture; turn off the caches to be sure that none answers",
                found.value,
                1.0,
            )


def _percentiles(segments: Sequence[Segment], measured: _Requests) -> Iterator[Doubt]:
    if not segments:
        return
    fewest = min(sum(r.error is None for r in measured[one.number]) for one in segments)
    short = [name for name, least in FEWEST.items() if fewest < least]
    if short:
        yield _doubt(
            "few requests",
            f"a segment has {units.number_of(fewest, 'answered request')}, so its {' and '.join(short)} percentile is "
            "one of its largest values",
            "raise --requests and --seconds",
            fewest,
            FEWEST[short[-1]],
        )


def _pieces(segments: Sequence[Segment], measured: _Requests) -> Iterator[Doubt]:
    for arm in ARMS:
        own = [one for segment in segments if segment.arm == arm for one in measured[segment.number]]
        long = [one for one in own if one.error is None and (one.output_tokens or 0) > 2]
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


def _warm_ups(segments: Sequence[Segment]) -> Iterator[Doubt]:
    share = sum(not one.steady for one in segments) / len(segments)
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
            word = "concurrency" if one.loop == "closed" else "rate"
            turns = listed([units.load(load) for load in one.against])
            yield _doubt(
                "no steady gain",
                f"the gain in {_short(one.quantity)} at {word} {turns} is on the other side of 1 than the fitted line, "
                "so no single load is the break-even",
                "decide by the table of the loads, or measure more loads",
                len(one.against),
                0.0,
            )


def _unfinished(left: int, planned: int) -> Iterator[Doubt]:
    if left > 0:
        yield _doubt(
            "unfinished",
            f"{units.exact(left)} of {units.number_of(planned, 'pair')} of segments {'is' if left == 1 else 'are'} not "
            "measured yet",
            "give the same command again: it measures those that are missing",
            left,
            0.0,
        )


def _short(quantity: Quantity) -> str:
    """Return the name of a quantity in a sentence: `throughput`, `TTFT p95`."""
    return quantity.removesuffix("_ms").replace("_", " ").replace("ttft", "TTFT")


def _doubt(kind: Kind, sentence: str, next_step: str, found: float, threshold: float) -> Doubt:
    return Doubt(cell=None, kind=kind, sentence=sentence, next_step=next_step, found=found, threshold=threshold)


def _ttft(requests: Sequence[Request]) -> float:
    """The median time to the first token; infinite without one."""
    times = [one.ttft_ms for one in requests if one.ttft_ms is not None]
    return float(np.median(times)) or float("inf") if times else float("inf")


def _mean(segments: Sequence[Segment], measured: _Requests, arm: Arm, name: str) -> float | None:
    """The mean of a field over the measured requests of one arm; None if no request has it."""
    return mean_of(
        [getattr(one, name) for segment in segments if segment.arm == arm for one in measured[segment.number]]
    )
