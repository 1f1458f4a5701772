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
from scipy.optimize import isotonic_regression
from scipy.special import stdtrit

from trio_profile.errors import MeasurementError
from trio_profile.kinds.servers.document import ArmAtLoad, AtLoad, EndpointsDocument, LoadBreakEven, Status
from trio_profile.kinds.servers.doubts import FAILURES, doubts_about, mean_of
from trio_profile.kinds.servers.quantities import QUANTITIES, Answers
from trio_profile.kinds.servers.questions import answers_of
from trio_profile.kinds.servers.requests import ARMS, Request, RequestLog, Segment, ServerFacts
from trio_profile.kinds.servers.study import EndpointStudy, Load, Loop
from trio_profile.records.estimate import Gain, OverRounds
from trio_profile.stats.crossing import Line, first_crossing
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
    by_load = {load: own for load in study.loads if (own := [pair for pair in pairs if pair[0].load == load])}
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
    answers = Answers(segment, requests, study.ttft_limit_ms)
    values = {name: quantity.value(answers) for name, quantity in QUANTITIES.items()}
    return {name: value for name, value in values.items() if value is not None}


def _at_load(
    load: Load, pairs: Sequence[_Pair], log: RequestLog, values: Mapping[int, Values], ratios: Mapping[str, list[float]]
) -> AtLoad:
    """Return both arms under one load. ratios: of costs, by quantity, one for each round."""
    dense, pruned = (_arm(segments, log, values) for segments in zip(*pairs, strict=True))
    gains = {name: _over_rounds(Gain, [1 / cost for cost in costs]) for name, costs in ratios.items()}
    return AtLoad(loop=load.loop, load=load.value, rounds=len(pairs), dense=dense, pruned=pruned, gains=gains)


def _arm(segments: Sequence[Segment], log: RequestLog, values: Mapping[int, Values]) -> ArmAtLoad:
    """Return one arm under one load, from its segments, one for each round."""
    requests = [request for segment in segments for request in log.requests[segment.number] if request.measured]
    estimates: dict[str, OverRounds] = {}
    for name, quantity in QUANTITIES.items():
        known = [values[segment.number][name] for segment in segments if name in values[segment.number]]
        if len(known) >= _LEAST_ROUNDS:
            estimates[name] = _over_rounds(quantity.kind, known)
    return ArmAtLoad(
        requests=len(requests),
        errors=sum(request.error is not None for request in requests),
        prompt_tokens=mean_of(requests, "prompt_tokens"),
        output_tokens=mean_of(requests, "output_tokens"),
        **estimates,
    )


def _ratios(pairs: Sequence[_Pair], values: Mapping[int, Values]) -> dict[str, list[float]]:
    """Return the ratio of costs, pruned over dense, of each round, by quantity.

    The cost of a rate is its reciprocal. If one arm has a rate of 0, it counts as half a request in its segment. Rounds
    in which an arm lacks a value, or both have 0, are left out; a quantity with fewer than two rounds is left out too.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        dense, pruned = (values[segment.number] for segment in pair)
        spans_ms = (segment.end_ms - segment.start_ms for segment in pair)
        halves = [500 / span if span > 0 else 0.0 for span in spans_ms]
        for name, quantity in QUANTITIES.items():
            costs = dense.get(name, 0.0), pruned.get(name, 0.0)
            if quantity.is_rate and any(costs) and name in dense and name in pruned:
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


def _break_evens(ratios: Mapping[Load, Mapping[str, list[float]]]) -> Iterator[LoadBreakEven]:
    """Yield the break-even of each loop and quantity that has values."""
    for loop in get_args(Loop):
        for name, quantity in QUANTITIES.items():
            known = {load.value: own[name] for load, own in ratios.items() if load.loop == loop and name in own}
            if known and quantity.has_break_even:
                yield break_even(name, loop, list(known), list(known.values()))


def _retention(servers: Sequence[ServerFacts]) -> float | None:
    """Return the share of a picture's tokens that stay, from the prompts that opened the last session.

    They show one picture to both servers.
    """
    known = [facts for facts in servers if facts.prompt_tokens is not None and facts.text_tokens is not None]
    visual = {facts.arm: (facts.prompt_tokens or 0) - (facts.text_tokens or 0) for facts in known}
    if set(visual) != set(ARMS) or not 0 < visual["pruned"] < visual["dense"]:
        return None
    return visual["pruned"] / visual["dense"]


def break_even(quantity: str, loop: Loop, loads: Sequence[float], ratios: Sequence[Sequence[float]]) -> LoadBreakEven:
    """Return the load at which the ratio of costs, pruned over dense, crosses 1.

    The logarithm of the ratio is fitted over the logarithm of the load. The fit never falls if the ratio rises with the
    load on the whole, and never rises otherwise. Between two loads it is a straight line. The ends of each load's
    interval, joined by straight lines, are a band around the fit, and the break-even lies where the band contains 1.
    It is inconclusive if the interval of a load lies on the other side of 1 than the fit.

    loads: at least one, ascending, in requests under way or requests per second.
    ratios: of each load, one for each round.
    """
    centres = [centre_of([[ratio] for ratio in rounds]) for rounds in ratios]
    places, heights = np.log2(loads), np.array([centre.log for centre in centres])
    low, high = np.log([centre.interval() for centre in centres]).T
    weights = np.array([len(rounds) for rounds in ratios], dtype=float)
    rises = bool((places - places.mean()) @ (heights - heights.mean()) >= 0)
    if not rises:  # a line that falls is one that rises, seen from its other end
        places, heights, low, high, weights = -places[::-1], heights[::-1], low[::-1], high[::-1], weights[::-1]
    fit = isotonic_regression(heights, weights=weights).x
    against = places[((fit < 0) & (low > 0)) | ((fit > 0) & (high < 0))]
    status, crossing, ends = _place(places, fit, fit + low - heights, fit + high - heights)

    def load_at(place: float) -> float:
        return float(2 ** (place if rises else -place))

    def interval(ends: tuple[float, float]) -> tuple[float, float]:
        low, high = sorted(map(load_at, ends))
        return low, high

    return LoadBreakEven(
        quantity=quantity,
        loop=loop,
        status="inconclusive" if len(against) else status,
        pays="below" if rises else "above",
        load=None if crossing is None or len(against) else load_at(crossing),
        ci95=None if ends is None or len(against) else interval(ends),
        measured=interval((places[0], places[-1])),
        against=tuple(sorted(map(load_at, against))),
    )


def _place(x: Line, fit: Line, low: Line, high: Line) -> tuple[Status, float | None, tuple[float, float] | None]:
    """Return the status, the crossing and its interval, of a fit with a band from `low` to `high`."""
    crossing = first_crossing(x, fit)
    if np.isposinf(crossing) and high[-1] < 0:
        return "always", None, None
    if np.isneginf(crossing) and low[0] > 0:
        return "never", None, None
    # The interval begins where the upper line first reaches 0, and ends where the lower line last leaves it.
    begin, end = first_crossing(x, high), -first_crossing(-x[::-1], -low[::-1])
    ends = float(np.clip(begin, x[0], x[-1])), float(np.clip(end, x[0], x[-1]))
    if np.isinf(crossing) or np.isinf([begin, end]).all():
        return "inconclusive", None, ends
    return "crossing", crossing, ends
