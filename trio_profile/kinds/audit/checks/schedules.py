"""Check schedules: the average that budgets give. Without budgets: what all schedules of one average have in common.

A layer's work is convex in its tokens. So of all schedules with one average the work is least where the pruned layers
share the tokens evenly, and greatest at a corner: some stages still whole, the next alike, the rest empty.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations, groupby, pairwise

from trio_profile.cost.printed import Interval, Printed
from trio_profile.inputs.claims.claims import Budgets, Model, Published, Setting
from trio_profile.inputs.claims.facts import Facts, Line
from trio_profile.kinds.audit.document import Finding, Subject, judge, number, share

Cost = Callable[[Fraction], Fraction]
"""A function from a layer's tokens to its work."""


@dataclass(frozen=True)
class Schedule:
    """Visual tokens by layer, those that each stage looks at, and the budgets in words.

    exact: printed for this very setting, and not scaled from another.
    """

    tokens: Sequence[Fraction]
    looked_at: Sequence[Fraction]
    budgets: str
    exact: bool

    @property
    def average(self) -> Fraction:
        """The mean number of visual tokens in a layer."""
        return sum(self.tokens, Fraction(0)) / len(self.tokens)


@dataclass(frozen=True)
class Bounds:
    """The range of work of the layers, and of the stages' inputs, over all schedules of one average.

    The values are those of the row's own schedule, or else the least.
    """

    layers: Interval
    stages: Interval


def check(facts: Facts) -> Iterator[Finding]:
    """Check the average of every printed schedule, and retentions that the unpruned first layers alone exceed."""
    for line in facts.lines:
        if line.row.schedule is not None:
            yield from _averages(line.place, line.row, line.row.schedule, line.model)
    for label, budgets in facts.claims.method.published_budgets.items():
        yield from _averages(f"method, {label}", budgets, budgets, facts.claims.models[budgets.model])
    for line in facts.lines:
        layers = facts.claims.layers_of(line.row)
        if line.retention is None or not layers or line.row.schedule is not None:
            continue
        first, count = layers[0], line.model.layers
        if line.retention.allowed.high < (least := Fraction(first, count)):
            sum_ = f"{first} / {count} = {share(least)}"
            why = f"The first {first} of {count} layers run on all tokens, so an average is {sum_} or more."
            subject = Subject("schedule", line.place, "retention", line.row.retention or "", "share")
            yield subject.finding("overstated", why, least)


def of_line(line: Line) -> Schedule | None:
    """The schedule of a row: its own, a published one for its setting, or one that is scaled from another setting."""
    claims, row, model = line.facts.claims, line.row, line.model
    if row.schedule is not None:
        return _schedule(row.schedule, model)
    if not line.own and row.overhead:
        return None
    published = [
        budgets for budgets in claims.method.published_budgets.values() if not budgets.variant and any(budgets.keep)
    ]
    for budgets in published:
        if budgets.model == row.model and line.facts.same_share(budgets, row):
            return _schedule(budgets, model)
    alike = [budgets for budgets in published if budgets.layers == claims.method.pruning_layers.get(row.model)]
    if line.retention is None or not alike:
        return None
    stated = line.retention.value

    def distance(budgets: Published) -> Fraction:
        other = claims.models[budgets.model]
        return abs(_schedule(budgets, other).average / other.visual_tokens - stated)

    # The schedule with the nearest average is scaled.
    return _scaled(min(alike, key=distance), model, stated * model.visual_tokens)


def bounds(model: Model, layers: Sequence[int] | None, average: Interval, cost: Cost) -> Bounds | None:
    """The least and the greatest work of all schedules of an average of visual tokens; None if no schedule has it.

    layers: the pruning layers; None allows any, the boundary before the decoder among them. The work of what the stages
    look at is bounded too, where the layers are known.
    """
    any_layers = tuple(range(model.layers)) if layers is None else layers
    ends = [end for total in (average.low, average.high) if (end := _bounds(model, any_layers, total, cost))]
    return Bounds(_around(end.layers for end in ends), _around(end.stages for end in ends)) if ends else None


def _around(intervals: Iterable[Interval]) -> Interval:
    """The least interval that contains all of these, with its least value."""
    lows, highs = zip(*((interval.low, interval.high) for interval in intervals), strict=True)
    return Interval(min(lows), max(highs), min(lows))


def _bounds(model: Model, layers: Sequence[int], average: Fraction, cost: Cost) -> Bounds | None:
    whole = Fraction(model.visual_tokens)
    first = layers[0] if layers else 0
    runs = [later - earlier for earlier, later in pairwise((*layers, model.layers))] or [model.layers]
    left = average * model.layers - first * whole
    if not 0 <= left <= whole * sum(runs):
        return None
    ahead = [0, *accumulate(runs)]
    unpruned, full, empty = first * cost(whole), cost(whole), cost(Fraction(0))
    others = len(runs) - 1  # what the last stage leaves, no further stage looks at
    greatest, most_looked, least_looked = Fraction(0), Fraction(0), whole * others
    for start, end in combinations(range(len(runs) + 1), 2):
        # A corner: stages before `start` keep all tokens, those before `end` share the rest, the others keep none.
        shared = (left - whole * ahead[start]) / (ahead[end] - ahead[start])
        if not 0 <= shared <= whole:
            continue
        corner = ahead[start] * full + (ahead[end] - ahead[start]) * cost(shared) + (ahead[-1] - ahead[end]) * empty
        greatest = max(greatest, unpruned + corner)
        leave_all, leave_some = min(start, others), min(end, others) - min(start, others)
        looked = leave_all * full + leave_some * cost(shared) + (others - leave_all - leave_some) * empty
        most_looked = max(most_looked, looked)
        least_looked = min(least_looked, leave_all * whole + leave_some * shared)
    # The stages look at everything, and then at what each but the last one left. The mean cost of that is at least the
    # cost of its mean, and the least mean is at a corner, because it is linear in the tokens.
    everything = full * bool(layers)
    least = unpruned + ahead[-1] * cost(left / ahead[-1])
    least_stages = everything + (others * cost(least_looked / others) if others else 0)
    return Bounds(Interval(least, greatest, least), Interval(least_stages, everything + most_looked, least_stages))


def _schedule(budgets: Budgets, model: Model) -> Schedule:
    tokens = budgets.tokens_by_layer(model)
    kept = ", ".join(number(tokens[layer]) for layer in budgets.layers)
    words = f"{kept} {_after(budgets)}" if budgets.layers else number(tokens[0])
    return Schedule(tokens, _looked_at(budgets, tokens, model), words, exact=True)


def _scaled(budgets: Budgets, model: Model, average: Fraction) -> Schedule | None:
    """Budgets of the same proportion with another average; None if the first stage would have to add tokens."""
    tokens, first = budgets.tokens_by_layer(model), budgets.layers[0]
    factor = (average * model.layers - sum(tokens[:first])) / sum(tokens[first:])
    if factor <= 0 or factor * tokens[first] > model.visual_tokens:
        return None
    tokens[first:] = [factor * kept for kept in tokens[first:]]
    kept = ", ".join(str(round(tokens[layer])) for layer in budgets.layers)
    words = f"{kept} {_after(budgets)}, in the published proportion {' : '.join(map(str, budgets.keep))}"
    return Schedule(tokens, _looked_at(budgets, tokens, model), words, exact=False)


def _looked_at(budgets: Budgets, tokens: Sequence[Fraction], model: Model) -> list[Fraction]:
    """The tokens that each stage looks at."""
    return [tokens[layer - 1] if layer else Fraction(model.visual_tokens) for layer in budgets.layers]


def _after(budgets: Budgets) -> str:
    return f"after layer{'s' if len(budgets.layers) > 1 else ''} {', '.join(map(str, budgets.layers))}"


def _averages(where: str, setting: Setting, budgets: Budgets, model: Model) -> Iterator[Finding]:
    by_layer = budgets.tokens_by_layer(model)
    average, visual = sum(by_layer, Fraction(0)) / model.layers, model.visual_tokens
    runs = [(len(list(layers)), kept) for kept, layers in groupby(by_layer)]
    sum_ = " + ".join(f"{length} · {number(kept)}" for length, kept in runs)
    stated = (("tokens", setting.tokens, 1, "tokens"), ("retention", setting.retention, visual, "share"))
    for quantity, text, whole, unit in stated:
        if text is None:
            continue
        printed, value, last = Printed.of(text), average / whole, by_layer[-1] / whole
        part = "" if quantity == "tokens" else f", {share(value)} of {visual}"
        verdict = judge(printed, Interval.at(value), larger_is_better=False)
        why = f"({sum_}) / {model.layers} = {number(average)} tokens a layer{part}."
        if verdict != "supported" and len(runs) == 2 and abs(printed.value - last) < abs(printed.value - value):
            verdict = "not_comparable"
            why += (
                f" {text} is near to the {number(by_layer[-1])} that the one stage leaves: another count by that name."
            )
        yield Subject("schedule", where, quantity, text, unit).finding(verdict, why, value)
