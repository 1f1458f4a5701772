"""Doubts about a study of servers: a busy client, failures, odd counts, unequal answers, caches, overload."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from trio_profile import units
from trio_profile.judge.doubts import TRANSPARENT, Case, Cases, Doubt, Doubts, transparent_pictures
from trio_profile.kinds.servers.requests import ARMS, Arm, Request, RequestLog, Segment
from trio_profile.kinds.servers.traffic.stream import LIMITED

FAILURES = ("failed requests", "unanswered questions")
"""The kinds of doubt about a server that failed. They take away every advice."""


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


DOUBTS = Doubts[Measured]()


def doubts_about(log: RequestLog) -> Iterator[Doubt]:
    """Yield the doubts about a study of which a pair is finished."""
    return DOUBTS.about(Measured(log, [segment for pair in log.pairs() for segment in pair]))


def mean_of(requests: Sequence[Request], field: str) -> float | None:
    """Return the mean of a field over the answered requests that have it; None if none has."""
    answered = (request for request in requests if request.error is None)
    known = [value for request in answered if (value := getattr(request, field)) is not None]
    return float(np.mean(known)) if known else None


@DOUBTS.declare("client saturated", 0.7)
def saturated_client(seen: Measured) -> Cases:
    """Is it the client that is slow? It uses most of one CPU."""
    busiest = max(seen.segments, key=lambda segment: segment.cpu_share)
    share = units.percent(busiest.cpu_share, 0)
    yield Case(
        busiest.cpu_share,
        f"at {busiest.load.name} the client uses {share} of a CPU, so it may be the client that is slow",
        "run the client on another machine than the servers, or measure lower loads",
    )


@DOUBTS.declare("queueing at the client", 0.05)
def late_client(seen: Measured) -> Cases:
    """Is the client late, by a share of the time to the first token? Its event loop may be, or the sending."""
    delays: list[tuple[float, float, str]] = []
    for segment in seen.segments:
        requests = seen.requests[segment.number]
        if times := [r.ttft_ms for r in requests if r.ttft_ms]:
            sending = float(np.quantile([r.sent_ms - r.due_ms for r in requests], 0.99))
            ms = max(segment.lag_ms, sending)
            delays.append((ms / float(np.median(times)), ms, segment.load.name))
    if delays:
        share, ms, load = max(delays, key=lambda delay: delay[0])
        yield Case(
            share,
            f"at {load} the client is late by {units.milliseconds(ms)} (99th percentile), {units.percent(share)} of "
            "the median time to the first token",
            "stop other work on its machine, run it on another machine than the servers, or measure lower loads",
        )


def _faults(seen: Measured, field: str) -> Iterator[tuple[Arm, float, str, str]]:
    """Yield each arm with requests, the warm-up included, in which a field says what is wrong.

    Also their share, their number in words, and what most of them say.
    """
    for arm in ARMS:
        requests = [r for s in seen.segments if s.arm == arm for r in seen.log.requests[s.number]]
        if faults := [fault for r in requests if (fault := getattr(r, field)) is not None]:
            number = f"{units.exact(len(faults))} of {units.number_of(len(requests), 'request')}"
            yield arm, len(faults) / len(requests), number, _most_frequent(faults)


def _most_frequent(faults: Sequence[str]) -> str:
    return max(set(faults), key=faults.count)


@DOUBTS.declare(FAILURES[0])
def failed_requests(seen: Measured) -> Cases:
    """Did a request fail?"""
    for arm, share, number, error in _faults(seen, "error"):
        yield Case(
            share,
            f"{number} to the {arm} server failed, warm-up included, most often: {error}. Times are those of the other "
            "requests, so high percentiles may be too low",
            "look into the log of the server, or measure lower loads",
        )


@DOUBTS.declare(FAILURES[1])
def unanswered_questions(seen: Measured) -> Cases:
    """Did a server not answer a question?"""
    for arm in ARMS:
        errors = [pair[arm].error for pair in seen.log.answers.values() if arm in pair]
        if failed := [error for error in errors if error is not None]:
            number = f"{units.exact(len(failed))} of {units.number_of(len(errors), 'question')}"
            yield Case(
                len(failed),
                f"the {arm} server did not answer {number}, which count as wrong, most often: {_most_frequent(failed)}",
                "give the same command again: it asks them again",
            )


@DOUBTS.declare("odd numbers of tokens")
def odd_counts(seen: Measured) -> Cases:
    """Does a server report numbers of tokens that cannot be?"""
    for arm, share, number, counts in _faults(seen, "odd_counts"):
        yield Case(
            share,
            f"in {number} the {arm} server reports numbers of tokens that cannot be, and that are not used, most "
            f"often: {counts}",
            "update the server, or ask it without the proxy that stands before it",
        )


@DOUBTS.declare("limited answers")
def limited_answers(seen: Measured) -> Cases:
    """Does a server end answers at a lower limit than the other one, so below the one that was asked for?"""
    for arm, other in (ARMS, ARMS[::-1]):
        requests, most = seen.of(arm), max((r.output_tokens or 0 for r in seen.of(other)), default=0)
        if short := sum(r.finish in LIMITED and 0 < (r.output_tokens or 0) < most for r in requests):
            yield Case(
                short,
                f"{units.percent(short / len(requests))} of the answers of the {arm} server reach its limit "
                f"(finish_reason length) with fewer tokens than the {most} of the other server",
                "raise the longest context of the server, or ask for fewer --new-tokens",
            )


@DOUBTS.declare("no right answers")
def no_right_answers(seen: Measured) -> Cases:
    """Does the dense server answer no question right?"""
    right = [pair["dense"].right for pair in seen.log.answers.values() if "dense" in pair]
    if right and not any(right):
        questions = units.number_of(len(right), "question")
        yield Case(
            0.0,
            f"the dense server answers none of {questions} right, so they do not say whether pruning keeps the answers",
            "raise --new-tokens, or ask for answers in one word",
            threshold=0.0,
        )


@DOUBTS.declare("unequal answers", 0.02)
def unequal_answers(seen: Measured) -> Cases:
    """Do the mean lengths of answers differ?"""
    dense, pruned = seen.means("output_tokens")
    if dense and pruned:
        yield Case(
            abs(pruned / dense - 1),
            f"an answer has {_tokens(dense)} tokens dense and {_tokens(pruned)} pruned, on average, so throughput and "
            "total time compare unequal work",
            "ask for equal lengths: --body '{\"ignore_eos\": true}' if the servers know it, or fewer --new-tokens",
        )


@DOUBTS.declare("prompt length")
def unpruned_prompts(seen: Measured) -> Cases:
    """Was nothing pruned?

    The requests that open a session show one picture to both servers. Means are over different pictures, so they count
    only if a server did not report the first prompt.
    """
    next_step, opening = "look into the log of the pruned server", {s.arm: s.prompt_tokens for s in seen.log.servers}
    dense, pruned = opening.get("dense"), opening.get("pruned")
    if dense is None or pruned is None:
        dense, pruned = seen.means("prompt_tokens")
    if dense is None or pruned is None:
        unknown = "a server does not report the tokens of its prompts, so it is not known whether anything was pruned"
        yield Case(0.0, unknown, next_step, threshold=0.0)
    elif pruned >= dense:
        fault = f"the pruned server reports {_tokens(pruned)} prompt tokens, and the dense one {_tokens(dense)}: "
        fault += "nothing was pruned, or the server reports the prompt before pruning"
        yield Case(pruned / dense, fault, next_step, threshold=1.0)


def _tokens(mean: float) -> str:
    return units.plain(round(mean, 1))


@DOUBTS.declare("overload", 0.9, at_least=True)
def overload(seen: Measured) -> Cases:
    """Does a server end too few of the requests that arrive in the open loop?"""
    loads = dict.fromkeys(segment.load for segment in seen.segments if segment.load.loop == "open")
    for load, arm in product(loads, ARMS):
        own = [segment for segment in seen.segments if segment.load == load and segment.arm == arm]
        arrived = sum(len(seen.requests[segment.number]) for segment in own)
        ended = sum(s.start_ms < r.end_ms <= s.end_ms for s in own for r in seen.log.requests[s.number])
        if arrived:
            yield Case(
                ended / arrived,
                f"at {load.name} the {arm} server answers {units.percent(ended / arrived, 0)} of what arrives, so its "
                "queue grows, and its times depend on how long a segment is",
                "compare times at lower rates; the throughput here is the most that the server can do",
            )


@DOUBTS.declare("prefix cache", 0.1)
def prefix_cache(seen: Measured) -> Cases:
    """Were more prompt tokens cached than the text that all requests share, about 10 %?"""
    for arm in ARMS:
        cached, prompt = (mean_of(seen.of(arm), field) for field in ("cached_tokens", "prompt_tokens"))
        if cached and prompt:
            share = units.percent(cached / prompt)
            sentence = f"the {arm} server took {share} of the prompt tokens from its prefix cache"
            yield Case(cached / prompt, sentence, "turn off prefix caching in both servers")


@DOUBTS.declare("few requests", 100, at_least=True)
def few_requests(seen: Measured) -> Cases:
    """Is a percentile one of the largest values?"""
    fewest = min(sum(r.error is None for r in requests) for requests in seen.requests.values())
    yield Case(
        fewest,
        f"a segment has {units.number_of(fewest, 'answered request')}; of fewer than 100 the 99th percentile, and of "
        "fewer than 20 the 95th, is one of the largest values",
        "raise --requests and --seconds",
    )


@DOUBTS.declare("one piece", 0.5)
def whole_answers(seen: Measured) -> Cases:
    """Did most of the answers come in one piece?"""
    for arm in ARMS:
        if long := [r for r in seen.of(arm) if r.error is None and (r.output_tokens or 0) > 2]:
            share = sum(r.pieces == 1 for r in long) / len(long)
            yield Case(
                share,
                f"{units.percent(share)} of the answers of the {arm} server came in one piece, so the time to the "
                "first token is that of the whole answer",
                "look for a proxy that buffers, or for a setting of the server",
            )


@DOUBTS.declare("unsteady warm-up", 0.25)
def unsteady_warm_ups(seen: Measured) -> Cases:
    """Did the warm-up of many segments not become stable?"""
    share = sum(not segment.steady for segment in seen.segments) / len(seen.segments)
    sentence = f"in {units.percent(share)} of the segments the times of the warm-up did not become stable"
    yield Case(share, sentence, "raise --requests and --seconds, or stop other work on the servers")


DOUBTS.declare(TRANSPARENT)(lambda seen: transparent_pictures(seen.log.sessions))
