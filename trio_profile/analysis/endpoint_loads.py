"""From requests to the document of `endpoints`.

Each round gives one value of each quantity for each arm. A ratio is made within a round, and its interval is over the
rounds. A gain is above 1 if pruning is better: throughput and goodput are pruned / dense, times are dense / pruned.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from trio_profile.analysis.endpoint_doubts import doubts_about
from trio_profile.analysis.endpoints import (
    BREAK_EVENS,
    QUANTITIES,
    RATES,
    ArmAtLoad,
    AtLoad,
    CacheCheck,
    ClientAtLoad,
    EndpointsDocument,
    LoadBreakEven,
    Quantity,
)
from trio_profile.analysis.request_statistics import delay_ms, mean_of
from trio_profile.errors import MeasurementError
from trio_profile.records.endpoint_study import EndpointStudy, Load, Loop
from trio_profile.records.estimate import Gain, MillisecondsOverRounds, OverRounds, PerSecond
from trio_profile.records.request_store import Asked
from trio_profile.records.requests import ARMS, Arm, Request, Segment, ServerFacts
from trio_profile.stats.crossing import contradictions, measured_break_even
from trio_profile.stats.intervals import centre, ratio_interval

_LEAST_ROUNDS = 2
"""One round has no interval."""
_Over = TypeVar("_Over", bound=OverRounds)
Values = dict[str, float]
"""The quantities of one segment, by name. What a segment does not have is left out."""


def document_of(study: EndpointStudy, found: Asked) -> EndpointsDocument:
    """Return the document of the pairs that are finished. Raises MeasurementError if none is."""
    pairs = found.pairs()
    if not pairs:
        raise MeasurementError("no pair of segments is finished, so there is nothing to compare; run the study again")
    by_load: dict[Load, list[tuple[Segment, Segment]]] = defaultdict(list)
    for pair in pairs:
        if pair[0].test == "pruning":
            by_load[pair[0].load].append(pair)
    ratios = {load: _ratios(study, by_load[load], found) for load in study.loads if load in by_load}
    loads = tuple(_at_load(study, load, by_load[load], found, ratios[load]) for load in ratios)
    break_evens = _break_evens(loads, ratios)
    checks = _cache_checks(study, pairs, found)
    return EndpointsDocument(
        sessions=tuple(found.sessions),
        environment=found.sessions[0].environment,
        study=study,
        model=found.servers[0].model if found.servers else study.model or "",
        servers=tuple(found.servers),
        retention=_retention(found.servers),
        pairs_left=study.pairs - len(pairs),
        loads=loads,
        break_even=break_evens,
        cache=checks,
        clients=tuple(_client(load, by_load[load], found) for load in ratios),
        doubts=tuple(doubts_about(study, found, {check.arm: check.speedup for check in checks}, break_evens)),
    )


def values_of(study: EndpointStudy, segment: Segment, requests: Sequence[Request]) -> Values:
    """Return the quantities of one segment.

    requests: all requests of the segment.
    """
    seconds = (segment.end_ms - segment.start_ms) / 1000
    answered = [one for one in requests if one.error is None and one.first_ms is not None]
    measured = [one for one in answered if one.measured]
    # In an open loop the requests that end in the measured part are not the ones that arrive in it.
    in_time = [one for one in answered if segment.start_ms < one.end_ms <= segment.end_ms]
    ended = measured if segment.load.loop == "closed" else in_time
    found: Values = {}
    if seconds > 0:
        found["throughput"] = len(ended) / seconds
        if study.ttft_limit_ms is not None:
            found["goodput"] = sum((one.ttft_ms or 0.0) <= study.ttft_limit_ms for one in ended) / seconds
    ttft = [one.ttft_ms for one in measured if one.ttft_ms is not None]
    if ttft:
        shares = np.quantile(ttft, [0.5, 0.95, 0.99])
        found |= dict(zip(("ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms"), map(float, shares), strict=True))
        found["total_ms"] = float(np.median([one.total_ms for one in measured]))
    if tpot := [one.tpot_ms for one in measured if one.tpot_ms is not None]:
        found["tpot_ms"] = float(np.median(tpot))
    return found


def _at_load(
    study: EndpointStudy,
    load: Load,
    pairs: Sequence[tuple[Segment, Segment]],
    found: Asked,
    ratios: Mapping[Quantity, list[float]],
) -> AtLoad:
    """Return both arms under one load. ratios: of costs, by quantity, one for each round."""
    arms = {arm: _arm(study, [pair[place] for pair in pairs], found) for place, arm in enumerate(ARMS)}
    return AtLoad(
        loop=load.loop,
        load=load.value,
        rounds=len(pairs),
        dense=arms["dense"],
        pruned=arms["pruned"],
        gains={quantity: _over_rounds(Gain, [1 / one for one in costs]) for quantity, costs in ratios.items()},
    )


def _arm(study: EndpointStudy, segments: Sequence[Segment], found: Asked) -> ArmAtLoad:
    """Return one arm under one load, from its segments, one for each round."""
    requests = [one for segment in segments for one in found.requests[segment.number] if one.measured]
    values = [values_of(study, segment, found.requests[segment.number]) for segment in segments]

    def over(kind: type[OverRounds], name: str) -> OverRounds | None:
        known = [one[name] for one in values if name in one]
        return _over_rounds(kind, known) if len(known) >= _LEAST_ROUNDS else None

    estimates = {name: over(PerSecond if name in RATES else MillisecondsOverRounds, name) for name in QUANTITIES}
    return ArmAtLoad(
        requests=len(requests),
        errors=sum(one.error is not None for one in requests),
        prompt_tokens=mean_of([one.prompt_tokens for one in requests]),
        output_tokens=mean_of([one.output_tokens for one in requests]),
        **estimates,  # pyright: ignore[reportArgumentType] - each name has its class
    )


def _ratios(
    study: EndpointStudy, pairs: Sequence[tuple[Segment, Segment]], found: Asked
) -> dict[Quantity, list[float]]:
    """Return the ratio of costs, pruned over dense, of each round, by quantity.

    The cost of a rate is its reciprocal. If one arm has a rate of 0, it counts as half a request in its segment. Rounds
    in which an arm lacks a value, or both have 0, are left out; a quantity with fewer than two rounds is left out too.
    """
    ratios: dict[Quantity, list[float]] = defaultdict(list)
    for segments in pairs:
        dense, pruned = (values_of(study, one, found.requests[one.number]) for one in segments)
        halves = [500 / (one.end_ms - one.start_ms) if one.end_ms > one.start_ms else 0.0 for one in segments]
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
    groups = [[value] for value in values]
    low, high = ratio_interval(groups)
    return kind(value=centre(groups), ci95=(max(low, 0.0), high), samples=len(values))


def _break_evens(
    loads: Sequence[AtLoad], ratios: Mapping[Load, Mapping[Quantity, list[float]]]
) -> tuple[LoadBreakEven, ...]:
    found: list[LoadBreakEven] = []
    loops: tuple[Loop, ...] = ("closed", "open")
    for loop in loops:
        at = [Load(loop=loop, value=one.load) for one in loads if one.loop == loop]
        for quantity in BREAK_EVENS:
            known = [(load.value, ratios[load][quantity]) for load in at if quantity in ratios[load]]
            if known:
                found.append(break_even(quantity, loop, *zip(*known, strict=True)))
    return tuple(found)


def break_even(
    quantity: Quantity, loop: Loop, loads: Sequence[float], ratios: Sequence[Sequence[float]]
) -> LoadBreakEven:
    """Return the load at which the ratio of costs, pruned over dense, crosses 1.

    The logarithm of the ratio is fitted over the logarithm of the load. The fit never falls if the ratio rises with the
    load on the whole, and never rises otherwise. It is inconclusive if a load contradicts the fit.

    loads: in requests under way, or requests per second.
    ratios: of each load, one for each round.
    """
    places = np.log2(loads)
    groups = [[[ratio] for ratio in one] for one in ratios]
    heights = np.log([centre(one) for one in groups])
    rises = bool((places - places.mean()) @ (heights - heights.mean()) >= 0)
    along = list(places if rises else -places)
    found = measured_break_even(along, groups, logarithmic=True)
    against = contradictions(along, groups, logarithmic=True)

    def load_at(place: float) -> float:
        return float(2 ** (place if rises else -place))

    def as_loads(ends: tuple[float, float] | None) -> tuple[float, float] | None:
        if ends is None:
            return None
        low, high = sorted(map(load_at, ends))
        return low, high

    return LoadBreakEven(
        quantity=quantity,
        loop=loop,
        status="inconclusive" if against else found.status,
        pays="below" if rises else "above",
        load=None if found.retention is None or against else load_at(found.retention),
        ci95=None if against else as_loads(found.ci95),
        measured=as_loads(found.measured),
        against=tuple(sorted(map(load_at, against))),
    )


def _cache_checks(
    study: EndpointStudy, pairs: Sequence[tuple[Segment, Segment]], found: Asked
) -> tuple[CacheCheck, ...]:
    checks: list[CacheCheck] = []
    for arm in ARMS:
        ratios: list[float] = []
        own = [pair for pair in pairs if pair[0].test == "cache" and pair[0].arm == arm]
        for segments in own:
            distinct, repeated = (values_of(study, one, found.requests[one.number]) for one in segments)
            if "ttft_p50_ms" in distinct and repeated.get("ttft_p50_ms"):
                ratios.append(distinct["ttft_p50_ms"] / repeated["ttft_p50_ms"])
        if len(ratios) >= _LEAST_ROUNDS:
            checks.append(CacheCheck(arm=arm, load=own[0][0].load, speedup=_over_rounds(Gain, ratios)))
    return tuple(checks)


def _client(load: Load, pairs: Sequence[tuple[Segment, Segment]], found: Asked) -> ClientAtLoad:
    """Return how the client did under one load."""
    own = [(segment, found.requests[segment.number]) for pair in pairs for segment in pair]
    return ClientAtLoad(
        load=load,
        cpu_share=max(segment.cpu_share for segment, _ in own),
        cpu_ms=max((one.cpu_share * _length_ms(asked) / len(asked) for one, asked in own if asked), default=0.0),
        lag_ms=max(segment.lag_ms for segment, _ in own),
        delay_ms=max(delay_ms([one for one in requests if one.measured]) for _, requests in own),
    )


def _length_ms(requests: Sequence[Request]) -> float:
    """Return how long a segment was, from its requests. There is at least one."""
    return max(one.end_ms for one in requests)


def _retention(servers: Sequence[ServerFacts]) -> float | None:
    """Return the share of a picture's tokens that stay, from the prompts that opened the last session.

    They show one picture to both servers.
    """
    visual: dict[Arm, int] = {}
    for facts in servers:
        if facts.prompt_tokens is not None and facts.text_tokens is not None:
            visual[facts.arm] = facts.prompt_tokens - facts.text_tokens
    if set(visual) != set(ARMS) or not 0 < visual["pruned"] < visual["dense"]:
        return None
    return visual["pruned"] / visual["dense"]
