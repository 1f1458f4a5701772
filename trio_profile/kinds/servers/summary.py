"""From requests to the document of `endpoints`.

Each round gives one value of each quantity for each arm. A ratio is made within a round, and its interval is over the
rounds. A gain is above 1 if pruning is better: throughput and goodput are pruned / dense, times are dense / pruned.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import mean, stdev
from typing import TypeVar, get_args

import numpy as np
from scipy.special import stdtrit

from trio_profile.errors import MeasurementError
from trio_profile.kinds.servers.break_even import break_even
from trio_profile.kinds.servers.document import (
    BREAK_EVENS,
    QUANTITIES,
    RATES,
    ArmAtLoad,
    AtLoad,
    EndpointsDocument,
    LoadBreakEven,
    Quantity,
)
from trio_profile.kinds.servers.doubts import FAILURES, doubts_about, mean_of
from trio_profile.kinds.servers.questions import answers_of
from trio_profile.kinds.servers.requests import ARMS, Request, RequestLog, Segment, ServerFacts
from trio_profile.kinds.servers.study import EndpointStudy, Load, Loop
from trio_profile.records.estimate import Gain, MillisecondsOverRounds, OverRounds, PerSecond
from trio_profile.stats.two_way import centre_of

_LEAST_ROUNDS = 2
"""One round has no interval."""
_Over = TypeVar("_Over", bound=OverRounds)
_Pair = tuple[Segment, Segment]
Values = dict[str, float]
"""The quantities of one segment, by name. What a segment does not have is left out."""


def document_of(study: EndpointStudy, log: RequestLog) -> EndpointsDocument:
    """Return the document of the pairs that are finished. Raises MeasurementError if none is."""
    pairs = log.pairs()
    if not pairs:
        raise MeasurementError("no pair of segments is finished, so there is nothing to compare; run the study again")
    values = {segment.number: values_of(study, segment, log.requests[segment.number]) for segment in chain(*pairs)}
    by_load = {load: [pair for pair in pairs if pair[0].load == load] for load in study.loads}
    by_load = {load: own for load, own in by_load.items() if own}
    ratios = {load: _ratios(own, values) for load, own in by_load.items()}
    doubts = tuple(doubts_about(log))
    failed = any(doubt.kind in FAILURES for doubt in doubts)
    return EndpointsDocument(
        sessions=tuple(log.sessions),
        environment=log.sessions[0].environment,
        study=study,
        model=log.servers[0].model if log.servers else study.model or "",
        servers=tuple(log.servers),
        retention=_retention(log.servers),
        pairs_left=study.pairs - len(pairs),
        loads=tuple(_at_load(load, own, log, values, ratios[load]) for load, own in by_load.items()),
        break_even=() if failed else tuple(_break_evens(ratios)),
        answers=answers_of(log),
        doubts=doubts,
    )


def values_of(study: EndpointStudy, segment: Segment, requests: Sequence[Request]) -> Values:
    """Return the quantities of one segment.

    requests: all requests of the segment.
    """
    seconds = (segment.end_ms - segment.start_ms) / 1000
    answered = [request for request in requests if request.ttft_ms is not None]
    measured = [request for request in answered if request.measured]
    # In an open loop the requests that end in the measured part are not the ones that arrive in it.
    in_time = [request for request in answered if segment.start_ms < request.end_ms <= segment.end_ms]
    ended = measured if segment.load.loop == "closed" else in_time
    values: Values = {}
    if seconds > 0:
        values["throughput"] = len(ended) / seconds
        if study.ttft_limit_ms is not None:
            values["goodput"] = sum((request.ttft_ms or 0.0) <= study.ttft_limit_ms for request in ended) / seconds
    if ttft := [request.ttft_ms for request in measured if request.ttft_ms is not None]:
        shares = np.quantile(ttft, [0.5, 0.95, 0.99])
        values |= dict(zip(("ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms"), map(float, shares), strict=True))
        values["total_ms"] = float(np.median([request.total_ms for request in measured]))
    if tpot := [request.tpot_ms for request in measured if request.tpot_ms is not None]:
        values["tpot_ms"] = float(np.median(tpot))
    return values


def _at_load(
    load: Load,
    pairs: Sequence[_Pair],
    log: RequestLog,
    values: Mapping[int, Values],
    ratios: Mapping[Quantity, list[float]],
) -> AtLoad:
    """Return both arms under one load. ratios: of costs, by quantity, one for each round."""
    dense, pruned = (_arm(segments, log, values) for segments in zip(*pairs, strict=True))
    gains: dict[Quantity, Gain] = {
        quantity: _over_rounds(Gain, [1 / cost for cost in costs]) for quantity, costs in ratios.items()
    }
    return AtLoad(loop=load.loop, load=load.value, rounds=len(pairs), dense=dense, pruned=pruned, gains=gains)


def _arm(segments: Sequence[Segment], log: RequestLog, values: Mapping[int, Values]) -> ArmAtLoad:
    """Return one arm under one load, from its segments, one for each round."""
    requests = [request for segment in segments for request in log.requests[segment.number] if request.measured]
    estimates: dict[str, OverRounds] = {}
    for name in QUANTITIES:
        known = [values[segment.number][name] for segment in segments if name in values[segment.number]]
        if len(known) >= _LEAST_ROUNDS:
            estimates[name] = _over_rounds(PerSecond if name in RATES else MillisecondsOverRounds, known)
    return ArmAtLoad(
        requests=len(requests),
        errors=sum(request.error is not None for request in requests),
        prompt_tokens=mean_of(requests, "prompt_tokens"),
        output_tokens=mean_of(requests, "output_tokens"),
        **estimates,  # pyright: ignore[reportArgumentType] - each name has its class
    )


def _ratios(pairs: Sequence[_Pair], values: Mapping[int, Values]) -> dict[Quantity, list[float]]:
    """Return the ratio of costs, pruned over dense, of each round, by quantity.

    The cost of a rate is its reciprocal. If one arm has a rate of 0, it counts as half a request in its segment. Rounds
    in which an arm lacks a value, or both have 0, are left out; a quantity with fewer than two rounds is left out too.
    """
    ratios: dict[Quantity, list[float]] = defaultdict(list)
    for pair in pairs:
        dense, pruned = (values[segment.number] for segment in pair)
        spans_ms = (segment.end_ms - segment.start_ms for segment in pair)
        halves = [500 / span if span > 0 else 0.0 for span in spans_ms]
        for name in QUANTITIES:
            costs = dense.get(name, 0.0), pruned.get(name, 0.0)
            if name in RATES and any(costs) and name in dense and name in pruned:
                costs = max(costs[1], halves[1]), max(costs[0], halves[0])
            if all(costs):
                ratios[name].append(costs[1] / costs[0])
    return {name: ratios[name] for name in QUANTITIES if len(ratios[name]) >= _LEAST_ROUNDS}


def _over_rounds(kind: type[_Over], values: Sequence[float]) -> _Over:
    """Return the value over rounds, of a class of its own, with its interval. No value is negative.

    It is the geometric mean, or the mean if a round has 0.
    """
    if min(values) > 0:
        centre = centre_of([[value] for value in values])
        return kind(value=centre.value, ci95=centre.interval(), samples=len(values))
    middle = mean(values)
    reach = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / len(values) ** 0.5
    return kind(value=middle, ci95=(max(middle - reach, 0.0), middle + reach), samples=len(values))


def _break_evens(ratios: Mapping[Load, Mapping[Quantity, list[float]]]) -> Iterator[LoadBreakEven]:
    """Yield the break-even of each loop and quantity that has values."""
    for loop in get_args(Loop):
        for quantity in BREAK_EVENS:
            known = {load.value: own[quantity] for load, own in ratios.items() if load.loop == loop and quantity in own}
            if known:
                yield break_even(quantity, loop, list(known), list(known.values()))


def _retention(servers: Sequence[ServerFacts]) -> float | None:
    """Return the share of a picture's tokens that stay, from the prompts that opened the last session.

    They show one picture to both servers.
    """
    known = [facts for facts in servers if facts.prompt_tokens is not None and facts.text_tokens is not None]
    visual = {facts.arm: (facts.prompt_tokens or 0) - (facts.text_tokens or 0) for facts in known}
    if set(visual) != set(ARMS) or not 0 < visual["pruned"] < visual["dense"]:
        return None
    return visual["pruned"] / visual["dense"]
