"""Doubts about a study of servers, as rows: a busy client, failures, odd counts, unequal answers, caches, overload."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from trio_profile import units
from trio_profile.judge.doubts import Doubt, Facts, Row, doubts_of, of_transparent_pictures
from trio_profile.kinds.servers.requests import ARMS, Arm, Request, RequestLog, Segment
from trio_profile.kinds.servers.traffic.stream import LIMITED

BUSY = 0.7
"""A client that uses more than this share of one CPU is saturated."""
LATE = 0.05
"""The client may be late by this share of the time to the first token."""
FAILURES = ("failed requests", "unanswered questions")
"""The kinds of doubt about a server that failed. They take away every advice."""
FEWEST = 100
"""A 99th percentile of fewer requests in a segment is one of the largest values."""


@dataclass(frozen=True)
class Measured:
    """Segments of a study with their measured requests."""

    log: RequestLog
    segments: Sequence[Segment]

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


def doubts_about(log: RequestLog) -> Iterator[Doubt]:
    """Yield the doubts about a study of which a pair is finished."""
    return doubts_of(ROWS, Measured(log, [segment for pair in log.pairs() for segment in pair]))


def mean_of(requests: Sequence[Request], field: str) -> float | None:
    """Return the mean of a field over the answered requests that have it; None if none has."""
    answered = (request for request in requests if request.error is None)
    known = [value for request in answered if (value := getattr(request, field)) is not None]
    return float(np.mean(known)) if known else None


def _saturated(seen: Measured) -> Iterator[Facts]:
    busiest = max(seen.segments, key=lambda segment: segment.cpu_share)
    yield {"found": busiest.cpu_share, "load": busiest.load.name, "share": units.percent(busiest.cpu_share, 0)}


def _late(seen: Measured) -> Iterator[Facts]:
    """The segment in which the client is latest: its event loop, or the sending of requests."""
    delays: list[tuple[float, float, Segment]] = []
    for segment in seen.segments:
        requests = seen.requests[segment.number]
        if times := [r.ttft_ms for r in requests if r.ttft_ms]:
            sending = float(np.quantile([r.sent_ms - r.due_ms for r in requests], 0.99))
            ms = max(segment.lag_ms, sending)
            delays.append((ms / float(np.median(times)), ms, segment))
    if delays:
        share, ms, segment = max(delays, key=lambda delay: delay[0])
        delay = f"{units.milliseconds(ms)} (99th percentile), {units.percent(share)}"
        yield {"found": share, "load": segment.load.name, "delay": delay}


def _requests_with(field: str) -> Callable[[Measured], Iterator[Facts]]:
    """The test for requests, those of the warm-up included, in which a field says what is wrong."""

    def test(seen: Measured) -> Iterator[Facts]:
        for arm in ARMS:
            requests = [r for s in seen.segments if s.arm == arm for r in seen.log.requests[s.number]]
            if faults := [fault for r in requests if (fault := getattr(r, field)) is not None]:
                yield _fault(arm, faults, len(faults) / len(requests), units.number_of(len(requests), "request"))

    return test


def _unanswered(seen: Measured) -> Iterator[Facts]:
    for arm in ARMS:
        answers = [pair[arm] for pair in seen.log.answers.values() if arm in pair]
        if errors := [answer.error for answer in answers if answer.error is not None]:
            yield _fault(arm, errors, len(errors), units.number_of(len(answers), "question"))


def _fault(arm: Arm, errors: Sequence[str], number: float, all_of_them: str) -> Facts:
    """The facts about requests of an arm that failed."""
    failed = f"{units.exact(len(errors))} of {all_of_them}"
    return {"found": number, "arm": arm, "failed": failed, "error": max(set(errors), key=errors.count)}


def _limited(seen: Measured) -> Iterator[Facts]:
    """Answers that ended at a limit below the other server's, so below the one that was asked for."""
    for arm, other in (ARMS, ARMS[::-1]):
        requests, most = seen.of(arm), max((r.output_tokens or 0 for r in seen.of(other)), default=0)
        if short := sum(r.finish in LIMITED and 0 < (r.output_tokens or 0) < most for r in requests):
            yield {"found": short, "arm": arm, "share": units.percent(short / len(requests)), "most": most}


def _no_right_answers(seen: Measured) -> Iterator[Facts]:
    right = [pair["dense"].right for pair in seen.log.answers.values() if "dense" in pair]
    if right and not any(right):
        yield {"found": 0.0, "threshold": 0.0, "questions": units.number_of(len(right), "question")}


def _lengths(seen: Measured) -> Iterator[Facts]:
    dense, pruned = seen.means("output_tokens")
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
        dense, pruned = seen.means("prompt_tokens")
    if dense is None or pruned is None:
        unknown = "a server does not report the tokens of its prompts, so it is not known whether anything was pruned"
        yield {"found": 0.0, "threshold": 0.0, "fault": unknown}
    elif pruned >= dense:
        fault = f"the pruned server reports {_tokens(pruned)} prompt tokens, and the dense one {_tokens(dense)}: "
        fault += "nothing was pruned, or the server reports the prompt before pruning"
        yield {"found": pruned / dense, "threshold": 1.0, "fault": fault}


def _tokens(mean: float) -> str:
    return units.plain(round(mean, 1))


def _overload(seen: Measured) -> Iterator[Facts]:
    loads = dict.fromkeys(segment.load for segment in seen.segments if segment.load.loop == "open")
    for load, arm in product(loads, ARMS):
        own = [segment for segment in seen.segments if segment.load == load and segment.arm == arm]
        arrived = sum(len(seen.requests[segment.number]) for segment in own)
        ended = sum(s.start_ms < r.end_ms <= s.end_ms for s in own for r in seen.log.requests[s.number])
        if arrived:
            share = ended / arrived
            yield {"found": share, "load": load.name, "arm": arm, "share": units.percent(share, 0)}


def _prefixes(seen: Measured) -> Iterator[Facts]:
    for arm in ARMS:
        cached, prompt = (mean_of(seen.of(arm), field) for field in ("cached_tokens", "prompt_tokens"))
        if cached and prompt:
            yield {"found": cached / prompt, "arm": arm, "share": units.percent(cached / prompt)}


def _percentiles(seen: Measured) -> Iterator[Facts]:
    fewest = min(sum(r.error is None for r in requests) for requests in seen.requests.values())
    yield {"found": fewest, "answers": units.number_of(fewest, "answered request")}


def _pieces(seen: Measured) -> Iterator[Facts]:
    for arm in ARMS:
        if long := [r for r in seen.of(arm) if r.error is None and (r.output_tokens or 0) > 2]:
            share = sum(r.pieces == 1 for r in long) / len(long)
            yield {"found": share, "arm": arm, "share": units.percent(share)}


def _warm_ups(seen: Measured) -> Iterator[Facts]:
    share = sum(not segment.steady for segment in seen.segments) / len(seen.segments)
    yield {"found": share, "share": units.percent(share)}


ROWS: tuple[Row[Measured], ...] = (
    Row(
        "client saturated",
        "Is it the client that is slow?",
        _saturated,
        BUSY,
        "at {load} the client uses {share} of a CPU, so it may be the client that is slow",
        "run the client on another machine than the servers, or measure lower loads",
    ),
    Row(
        "queueing at the client",
        "Is the client late?",
        _late,
        LATE,
        "at {load} the client is late by {delay} of the median time to the first token",
        "stop other work on its machine, run it on another machine than the servers, or measure lower loads",
    ),
    Row(
        FAILURES[0],
        "Did a request fail?",
        _requests_with("error"),
        0,
        "{failed} to the {arm} server failed, warm-up included, most often: {error}. Times are those of the other "
        "requests, so high percentiles may be too low",
        "look into the log of the server, or measure lower loads",
    ),
    Row(
        FAILURES[1],
        "Did a server not answer a question?",
        _unanswered,
        0,
        "the {arm} server did not answer {failed}, which count as wrong, most often: {error}",
        "give the same command again: it asks them again",
    ),
    Row(
        "odd numbers of tokens",
        "Does a server report numbers of tokens that cannot be?",
        _requests_with("odd_counts"),
        0,
        "in {failed} the {arm} server reports numbers of tokens that cannot be, and that are not used, most often: "
        "{error}",
        "update the server, or ask it without the proxy that stands before it",
    ),
    Row(
        "limited answers",
        "Does a server end answers at a lower limit than the other one?",
        _limited,
        0,
        "{share} of the answers of the {arm} server reach its limit (finish_reason length) with fewer tokens than the "
        "{most} of the other server",
        "raise the longest context of the server, or ask for fewer --new-tokens",
    ),
    Row(
        "no right answers",
        "Does the dense server answer no question right?",
        _no_right_answers,
        None,
        "the dense server answers none of {questions} right, so they do not say whether pruning keeps the answers",
        "raise --new-tokens, or ask for answers in one word",
    ),
    Row(
        "unequal answers",
        "Do the mean lengths of answers differ by more than 2 %?",
        _lengths,
        0.02,
        "an answer has {dense} tokens dense and {pruned} pruned, on average, so throughput and total time compare "
        "unequal work",
        "ask for equal lengths: --body '{{\"ignore_eos\": true}}' if the servers know it, or fewer --new-tokens",
    ),
    Row("prompt length", "Was nothing pruned?", _prompts, None, "{fault}", "look into the log of the pruned server"),
    Row(
        "overload",
        "Does a server end less than 90 % of the requests that arrive in the open loop?",
        _overload,
        0.9,
        "at {load} the {arm} server answers {share} of what arrives, so its queue grows, and its times depend on how "
        "long a segment is",
        "compare times at lower rates; the throughput here is the most that the server can do",
        at_least=True,
    ),
    Row(
        "prefix cache",
        "Were more prompt tokens cached than the text that all requests share, about 10 %?",
        _prefixes,
        0.1,
        "the {arm} server took {share} of the prompt tokens from its prefix cache",
        "turn off prefix caching in both servers",
    ),
    Row(
        "few requests",
        "Is a percentile one of the largest values?",
        _percentiles,
        FEWEST,
        "a segment has {answers}; of fewer than 100 the 99th percentile, and of fewer than 20 the 95th, is one of the "
        "largest values",
        "raise --requests and --seconds",
        at_least=True,
    ),
    Row(
        "one piece",
        "Did most of the answers come in one piece?",
        _pieces,
        0.5,
        "{share} of the answers of the {arm} server came in one piece, so the time to the first token is that of the "
        "whole answer",
        "look for a proxy that buffers, or for a setting of the server",
    ),
    Row(
        "unsteady warm-up",
        "Did the warm-up of more than a quarter of the segments not become stable?",
        _warm_ups,
        0.25,
        "in {share} of the segments the times of the warm-up did not become stable",
        "raise --requests and --seconds, or stop other work on the servers",
    ),
    of_transparent_pictures(lambda seen: seen.log.sessions),
)
"""The doubts about a study of servers."""
