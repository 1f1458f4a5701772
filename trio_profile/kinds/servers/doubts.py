"""Doubts about a study of servers, as rows: a busy client, unequal answers, caches, failures, overload."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

from trio_profile import units
from trio_profile.analysis.doubts import Doubt, Facts, Row, doubts_of
from trio_profile.kinds.servers.document import LoadBreakEven
from trio_profile.kinds.servers.requests import ARMS, Arm, Request, RequestLog, Segment
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.records.estimate import Estimate
from trio_profile.text import listed

BUSY = 0.7
"""A client that uses more than this share of one CPU is saturated."""
LATE = 0.05
"""The client may be late by this share of the time to the first token."""
FAILED = 0.01
"""More failed requests than this share."""
FEWEST = {"95th": 20, "99th": 100}
"""A percentile of fewer requests in a segment is one of the largest values."""
_ELSEWHERE = "run the client on another machine than the servers, or measure lower loads"


@dataclass(frozen=True)
class Measured:
    """Segments of a study with their measured requests.

    cache: for each arm, how much faster a repeated picture is; empty if that was not checked.
    break_evens: of each loop and quantity.
    """

    study: EndpointStudy
    log: RequestLog
    segments: Sequence[Segment]
    cache: Mapping[Arm, Estimate] = field(default_factory=dict)
    break_evens: Sequence[LoadBreakEven] = ()

    @cached_property
    def compared(self) -> "Measured":
        """The segments that compare the pruned server with the dense one."""
        pruning = [segment for segment in self.segments if segment.test == "pruning"]
        return Measured(self.study, self.log, pruning)

    @cached_property
    def requests(self) -> dict[int, list[Request]]:
        """By the number of the segment."""
        return {s.number: [r for r in self.log.requests[s.number] if r.measured] for s in self.segments}

    def of(self, arm: Arm) -> list[Request]:
        """All measured requests of an arm."""
        return [r for segment in self.segments if segment.arm == arm for r in self.requests[segment.number]]

    def means(self, field: str) -> tuple[float | None, float | None]:
        """The mean of a field, dense and pruned."""
        return mean_of(self.of("dense"), field), mean_of(self.of("pruned"), field)

    def share_of_ttft(self, ms: float, segment: Segment) -> float:
        """A time as a share of the segment's median time to the first token; 0 without one."""
        times = [r.ttft_ms for r in self.requests[segment.number] if r.ttft_ms is not None]
        return ms / (float(np.median(times)) or float("inf")) if times else 0.0


def doubts_about(
    study: EndpointStudy, log: RequestLog, cache: Mapping[Arm, Estimate], break_evens: Sequence[LoadBreakEven] = ()
) -> Iterator[Doubt]:
    """Yield the doubts about a study of which a pair is finished."""
    segments = [segment for pair in log.pairs() for segment in pair]
    return doubts_of(ROWS, Measured(study, log, segments, cache, break_evens))


def mean_of(requests: Sequence[Request], field: str) -> float | None:
    """Return the mean of a field over the requests that have it; None if none has."""
    known = [value for request in requests if (value := getattr(request, field)) is not None]
    return float(np.mean(known)) if known else None


def delay_ms(requests: Sequence[Request]) -> float:
    """Return how late requests were sent, in milliseconds: the 99th percentile; 0 without requests."""
    return float(np.quantile([r.sent_ms - r.due_ms for r in requests], 0.99)) if requests else 0.0


def _saturated(seen: Measured) -> Iterator[Facts]:
    busiest = max(seen.segments, key=lambda segment: segment.cpu_share)
    yield {"found": busiest.cpu_share, "load": busiest.load.name, "share": units.percent(busiest.cpu_share, 0)}


def _late(delay_of: Callable[[Measured, Segment], float], *, event_loop: bool) -> Callable[[Measured], Iterator[Facts]]:
    """The test for a delay of the client, in milliseconds of a segment. event_loop: whether its loop is late."""

    def test(seen: Measured) -> Iterator[Facts]:
        delays = [(delay_of(seen, segment), segment) for segment in seen.segments]
        ms, segment = max(delays, key=lambda delay: seen.share_of_ttft(*delay))
        share, busy = seen.share_of_ttft(ms, segment), event_loop and segment.cpu_share > BUSY
        cause = f". It uses {units.percent(segment.cpu_share)} of a CPU, so other work on its machine delays it"
        yield {
            "kind": "client saturated" if busy else "queueing at the client",
            "found": share,
            "load": segment.load.name,
            "delay": f"{units.milliseconds(ms)} (99th percentile), {units.percent(share)}",
            "cause": cause if event_loop and not busy else "",
        }

    return test


def _failures(seen: Measured) -> Iterator[Facts]:
    for arm in ARMS:
        requests = seen.of(arm)
        errors = [r.error for r in requests if r.error is not None]
        if errors:
            share = len(errors) / len(requests)
            yield {
                "kind": "failed requests" if share > FAILED else "failures left out",
                "found": share,
                "threshold": FAILED if share > FAILED else 0.0,
                "failed": f"{units.exact(len(errors))} of {units.number_of(len(requests), 'request')}",
                "arm": arm,
                "error": max(set(errors), key=errors.count),
            }


def _unanswered(seen: Measured) -> Iterator[Facts]:
    for arm in ARMS:
        given = [pair[arm] for pair in seen.log.answers.values() if arm in pair]
        if errors := [one.error for one in given if one.error is not None]:
            failed = f"{units.exact(len(errors))} of {units.number_of(len(given), 'question')}"
            yield {"found": len(errors), "failed": failed, "arm": arm, "error": max(set(errors), key=errors.count)}


def _no_right_answers(seen: Measured) -> Iterator[Facts]:
    given = [pair["dense"].right for pair in seen.log.answers.values() if "dense" in pair]
    if given and not any(given):
        yield {"found": 0.0, "threshold": 0.0, "asked": units.number_of(len(given), "question")}


def _lengths(seen: Measured) -> Iterator[Facts]:
    dense, pruned = seen.compared.means("output_tokens")
    if dense and pruned:
        yield {"found": abs(pruned / dense - 1), "dense": _tokens(dense), "pruned": _tokens(pruned)}


def _prompts(seen: Measured) -> Iterator[Facts]:
    """Whether the pruned server prunes.

    The requests that open a session show one picture to both servers. Means are over different pictures, so they count
    only if a server did not report the first prompt.
    """
    opening = {facts.arm: facts.prompt_tokens for facts in seen.log.servers}
    dense, pruned = opening.get("dense"), opening.get("pruned")
    if dense is None or pruned is None:
        dense, pruned = seen.compared.means("prompt_tokens")
    if not seen.compared.segments:
        return
    if dense is None or pruned is None:
        unknown = "a server does not report the tokens of its prompts, so it is not known whether anything was pruned"
        yield {"found": 0.0, "threshold": 0.0, "what": unknown}
    elif pruned >= dense:
        what = f"the pruned server reports {_tokens(pruned)} prompt tokens, and the dense one {_tokens(dense)}: "
        what += "nothing was pruned, or the server reports the prompt before pruning"
        yield {"found": pruned / dense, "threshold": 1.0, "what": what}


def _tokens(mean: float) -> str:
    return units.plain(round(mean, 1))


def _overload(seen: Measured) -> Iterator[Facts]:
    compared = seen.compared
    loads = dict.fromkeys(segment.load for segment in compared.segments if segment.load.loop == "open")
    for load, arm in product(loads, ARMS):
        own = [segment for segment in compared.segments if segment.load == load and segment.arm == arm]
        arrived = sum(len(compared.requests[segment.number]) for segment in own)
        ended = sum(s.start_ms < r.end_ms <= s.end_ms for s in own for r in seen.log.requests[s.number])
        if arrived:
            share = ended / arrived
            yield {"found": share, "load": load.name, "arm": arm, "share": units.percent(share, 0)}


def _prefixes(seen: Measured) -> Iterator[Facts]:
    for arm in ARMS:
        cached, prompt = (mean_of(seen.compared.of(arm), field) for field in ("cached_tokens", "prompt_tokens"))
        if cached and prompt:
            yield {"found": cached / prompt, "arm": arm, "share": units.percent(cached / prompt)}


def _pictures(seen: Measured) -> Iterator[Facts]:
    for arm, faster in seen.cache.items():
        if faster.ci95[0] > 1:
            yield {"found": faster.value, "arm": arm, "faster": units.times_within(faster.value, faster.ci95)}


def _percentiles(seen: Measured) -> Iterator[Facts]:
    answered = [sum(r.error is None for r in requests) for requests in seen.compared.requests.values()]
    fewest = min(answered, default=max(FEWEST.values()))
    if short := [name for name, least in FEWEST.items() if fewest < least]:
        answers, names = units.number_of(fewest, "answered request"), " and ".join(short)
        yield {"found": fewest, "threshold": FEWEST[short[-1]], "answers": answers, "names": names}


def _pieces(seen: Measured) -> Iterator[Facts]:
    for arm in ARMS:
        long = [r for r in seen.compared.of(arm) if r.error is None and (r.output_tokens or 0) > 2]
        if long:
            share = sum(r.pieces == 1 for r in long) / len(long)
            yield {"found": share, "arm": arm, "share": units.percent(share)}


def _warm_ups(seen: Measured) -> Iterator[Facts]:
    share = sum(not segment.steady for segment in seen.segments) / len(seen.segments)
    yield {"found": share, "share": units.percent(share)}


def _contradictions(seen: Measured) -> Iterator[Facts]:
    for crossing in seen.break_evens:
        yield {
            "found": len(crossing.against),
            "quantity": crossing.quantity.removesuffix("_ms").replace("_", " ").replace("ttft", "TTFT"),
            "word": "concurrency" if crossing.loop == "closed" else "rate",
            "loads": listed([units.load(load) for load in crossing.against]),
        }


def _unfinished(seen: Measured) -> Iterator[Facts]:
    left, pairs = seen.study.pairs - len(seen.log.pairs()), seen.study.pairs
    are = f"{units.exact(left)} of {units.number_of(pairs, 'pair')} of segments {'is' if left == 1 else 'are'}"
    yield {"found": left, "are": are}


ROWS: tuple[Row[Measured], ...] = (
    Row(
        "client saturated",
        _saturated,
        BUSY,
        "at {load} the client uses {share} of a CPU, so it may be the client that is slow",
        _ELSEWHERE,
    ),
    Row(
        "queueing at the client",
        _late(lambda _, segment: segment.lag_ms, event_loop=True),
        LATE,
        "at {load} the event loop of the client is late by {delay} of the median time to the first token{cause}",
        _ELSEWHERE,
    ),
    Row(
        "queueing at the client",
        _late(lambda seen, segment: delay_ms(seen.requests[segment.number]), event_loop=False),
        LATE,
        "at {load} requests leave the client late, by {delay} of the median time to the first token",
        _ELSEWHERE,
    ),
    Row(
        "failed requests",
        _failures,
        0,
        "{failed} to the {arm} server failed, most often: {error}. Times are those of the other requests, so high "
        "percentiles may be too low",
        "look into the log of the server, or measure lower loads",
    ),
    Row(
        "unanswered questions",
        _unanswered,
        0,
        "the {arm} server did not answer {failed}, which count as wrong, most often: {error}",
        "give the same command again: it asks them again",
    ),
    Row(
        "no right answers",
        _no_right_answers,
        None,
        "the dense server answers none of {asked} right, so they do not say whether pruning keeps the answers",
        "raise --new-tokens, or ask for answers in one word",
    ),
    Row(
        "unequal answers",
        _lengths,
        0.02,
        "an answer has {dense} tokens dense and {pruned} pruned, on average, so throughput and total time compare "
        "unequal work",
        "ask for equal lengths: --body '{{\"ignore_eos\": true}}' if the servers know it, or fewer --new-tokens",
    ),
    Row("prompt length", _prompts, None, "{what}", "look into the log of the pruned server"),
    Row(
        "overload",
        _overload,
        0.9,
        "at {load} the {arm} server answers {share} of what arrives, so its queue grows, and its times depend on how "
        "long a segment is",
        "compare times at lower rates; the throughput here is the most that the server can do",
        at_least=True,
    ),
    Row(
        "prefix cache",
        _prefixes,
        0.1,
        "the {arm} server took {share} of the prompt tokens from its prefix cache",
        "turn off prefix caching in both servers",
    ),
    Row(
        "prefix cache",
        _pictures,
        1.0,
        "the {arm} server answers a repeated picture {faster} faster, so it caches pictures",
        "the study itself repeats no picture; turn off the caches to be sure that none answers",
    ),
    Row(
        "few requests",
        _percentiles,
        None,
        "a segment has {answers}, so its {names} percentile is one of its largest values",
        "raise --requests and --seconds",
    ),
    Row(
        "one piece",
        _pieces,
        0.5,
        "{share} of the answers of the {arm} server came in one piece, so the time to the first token is that of the "
        "whole answer",
        "look for a proxy that buffers, or for a setting of the server",
    ),
    Row(
        "unsteady warm-up",
        _warm_ups,
        0.25,
        "in {share} of the segments the times of the warm-up did not become stable",
        "raise --requests and --seconds, or stop other work on the servers",
    ),
    Row(
        "no steady gain",
        _contradictions,
        0,
        "the gain in {quantity} at {word} {loads} is on the other side of 1 than the fitted line, so no single load is "
        "the break-even",
        "decide by the table of the loads, or measure more loads",
    ),
    Row(
        "unfinished",
        _unfinished,
        0,
        "{are} not measured yet",
        "give the same command again: it measures those that are missing",
    ),
)
"""The doubts about a study of servers."""
