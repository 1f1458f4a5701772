"""One field of a table, and the values that fields show: a value as text, its interval as note or title."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from trio_profile import units
from trio_profile.records.estimate import Difference, Estimate, Interval, Measured, Share

Tone = Literal["", "gain", "loss", "absent"]
"""How an entry is coloured: better than dense, worse, without a value, or plain."""


@dataclass(frozen=True)
class Entry:
    """One field of a table.

    note: smaller, after the text.
    title: more digits, or an explanation. The page shows it when the entry is pointed at, touched or focused.
    doubt: why the entry is doubted; empty if it is not. The page marks it, and links to the doubts.
    colour: number of a method's colour, drawn as a dot before the text.
    order: the number by which a column is sorted; None for the text.
    bounds: the 95 % interval of `order`, which a drawn column shows.
    """

    text: str
    note: str = ""
    title: str = ""
    doubt: str = ""
    tone: Tone = ""
    colour: int | None = None
    order: float | None = None
    bounds: Interval | None = None


NOTHING = Entry("–")
"""The entry of an unknown value."""


def tone(bounds: Interval, level: float) -> Tone:
    """`gain` for an interval above `level`, `loss` for one below it, and none for one that holds it."""
    return "gain" if bounds[0] > level else "loss" if bounds[1] < level else ""


def speedup(ratio: Estimate | None) -> Entry:
    """A speed-up with its interval."""
    if ratio is None:
        return NOTHING
    text, note = units.times(ratio.value, ratio.ci95), units.interval(ratio.ci95)
    return Entry(text, note=note, tone=tone(ratio.ci95, 1), order=ratio.value, bounds=ratio.ci95)


def milliseconds(time: Measured | None) -> Entry:
    """A duration."""
    if time is None:
        return NOTHING
    low, high = (units.milliseconds(bound) for bound in time.ci95)
    return Entry(units.milliseconds(time.value), title=f"95 % interval {low} to {high}", order=time.value)


def nats(divergence: Measured | None) -> Entry:
    """A divergence whose interval is a tooltip. The column names the unit."""
    if divergence is None:
        return NOTHING
    title = units.nats_within(divergence.value, divergence.ci95)
    return Entry(units.power(divergence.value), title=title, order=divergence.value, bounds=divergence.ci95)


def changed(agreement: Share | None) -> Entry:
    """The share of answers that differ from the dense model's: the rest of a share that agrees."""
    if agreement is None:
        return NOTHING
    low, high = (1 - bound for bound in reversed(agreement.ci95))
    return short_share(agreement.model_copy(update={"value": 1 - agreement.value, "ci95": (low, high)}))


def points_lost(difference: Difference | None) -> Entry:
    """Right answers that dense has and the pruned model has not, in points, with the interval."""
    if difference is None:
        return NOTHING
    text, _, note = units.points_lost(difference.value, difference.ci95).partition(" ")
    low, high = difference.ci95
    return Entry(text, note=note, tone=tone(difference.ci95, 0), order=-difference.value, bounds=(-high, -low))


def macs(value: int | None, dense: int | None = None) -> Entry:
    """A count of MACs, and its ratio to dense if `dense` is given."""
    return _count(value, dense, units.count, "MACs")


def num_bytes(value: int | None, dense: int | None = None) -> Entry:
    """A number of bytes, and its ratio to dense if `dense` is given."""
    return _count(value, dense, units.size, "bytes")


def _count(value: int | None, dense: int | None, text: Callable[[float], str], unit: str) -> Entry:
    if value is None:
        return NOTHING
    note = units.percent(value / dense) if dense else ""
    return Entry(text(value), note=note, title=f"{units.exact(value)} {unit}", order=value)


def ratio(value: float | None, whole: float | None, unit: str = "MACs", digits: int = 1) -> Entry:
    """A count, or a mean count, as a share of another."""
    if value is None or not whole:
        return NOTHING
    return Entry(units.percent(value / whole, digits), title=f"{units.exact(round(value))} {unit}", order=value / whole)


def share(part: Estimate | None) -> Entry:
    """A share with its interval."""
    return NOTHING if part is None else Entry(units.percent_within(part.value, part.ci95), order=part.value)


def short_share(part: Estimate | None) -> Entry:
    """A share whose interval is a tooltip."""
    if part is None:
        return NOTHING
    return Entry(units.percent_of_all(part.value), title=share(part).text, order=part.value)


def points(difference: Difference | None) -> Entry:
    """A difference of accuracies in points, with its interval."""
    if difference is None:
        return NOTHING
    text, _, note = units.points_within(difference.value, difference.ci95).partition(" ")
    ends = difference.ci95
    return Entry(text, note=note, tone=tone(ends, 0), order=difference.value, bounds=ends)


def pairs(speedup: Measured | None) -> Entry:
    """The number of pairs behind a ratio, and why sampling ended."""
    return NOTHING if speedup is None else Entry(str(speedup.samples), note=speedup.stopped)
