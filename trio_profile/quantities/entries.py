"""One field of a table, and the values that fields show: a value as text, its interval as note or title."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trio_profile import units
from trio_profile.records.estimate import Accuracy, Difference, Estimate, Interval, Measured, Share

Tone = Literal["", "gain", "loss", "absent"]
"""How an entry is coloured: better than dense, worse, without a value, or plain."""


@dataclass(frozen=True)
class Entry:
    """One field of a table.

    note: smaller, after the text.
    title: more digits, or an explanation. The page shows it when the entry is pointed at, touched or focused.
    doubt: why the entry is doubted; empty if it is not. The page marks it, and links to the doubts.
    colour: number of a method's colour, drawn as a dot before the text.
    span: how many columns it fills.
    order: the number by which a column is sorted; None for the text.
    ratio: a speed-up and the ends of its interval. All speed-ups of a column are written with as many digits.
    """

    text: str
    note: str = ""
    title: str = ""
    doubt: str = ""
    tone: Tone = ""
    colour: int | None = None
    span: int = 1
    order: float | None = None
    ratio: tuple[float, float, float] | None = None


NOTHING = Entry("–")
"""What stands where there is no value."""


def tone(bounds: Interval, level: float) -> Tone:
    """`gain` for an interval above `level`, `loss` for one below it, and none for one that holds it."""
    return "gain" if bounds[0] > level else "loss" if bounds[1] < level else ""


def speedup(found: Estimate | None) -> Entry:
    """A speed-up with its interval."""
    if found is None:
        return NOTHING
    text, note = units.times(found.value, found.ci95), units.interval(found.ci95)
    return Entry(text, note=note, tone=tone(found.ci95, 1), order=found.value, ratio=(found.value, *found.ci95))


def with_equal_digits(column: Sequence[Entry]) -> list[Entry]:
    """The entries of a column, its speed-ups with the same number of digits, at most two decimals."""
    digits = min(max((units.ratio_digits(entry.ratio[1:]) for entry in column if entry.ratio), default=0), 2)
    return [
        replace(entry, text=units.times(entry.ratio[0], digits=digits), note=units.interval(entry.ratio[1:], digits))
        if entry.ratio
        else entry
        for entry in column
    ]


def milliseconds(found: Measured | None) -> Entry:
    """A duration."""
    if found is None:
        return NOTHING
    low, high = (units.milliseconds(bound) for bound in found.ci95)
    return Entry(units.milliseconds(found.value), title=f"95 % interval {low} to {high}", order=found.value)


def nats(found: Measured | None) -> Entry:
    """A divergence whose interval is a tooltip. The column names the unit."""
    if found is None:
        return NOTHING
    return Entry(units.power(found.value), title=units.nats_within(found.value, found.ci95), order=found.value)


def changed(found: Share | None) -> Entry:
    """The share of answers that differ from the dense model's: the rest of a share that agrees."""
    if found is None:
        return NOTHING
    low, high = (1 - bound for bound in reversed(found.ci95))
    share = 1 - found.value
    return Entry(units.percent_of_all(share), title=units.percent_within(share, (low, high)), order=share)


def points_lost(found: Difference | None) -> Entry:
    """Right answers that dense has and the pruned model has not, in points, with the interval."""
    if found is None:
        return NOTHING
    text, _, note = units.points_lost(found.value, found.ci95).partition(" ")
    return Entry(text, note=note, tone=tone(found.ci95, 0), order=-found.value)


def macs(value: int | None, dense: int | None = None) -> Entry:
    """A count of MACs, and its ratio to dense if `dense` is given."""
    if value is None:
        return NOTHING
    note = units.percent(value / dense) if dense else ""
    return Entry(units.count(value), note=note, title=f"{units.exact(value)} MACs", order=value)


def num_bytes(value: int | None, dense: int | None = None) -> Entry:
    """A number of bytes, and its ratio to dense if `dense` is given."""
    if value is None:
        return NOTHING
    note = units.percent(value / dense) if dense else ""
    return Entry(units.size(value), note=note, title=f"{units.exact(value)} bytes", order=value)


def ratio(value: int | None, whole: int | None, digits: int = 1, unit: str = "MACs") -> Entry:
    """A count as a share of another."""
    if value is None or not whole:
        return NOTHING
    return Entry(units.percent(value / whole, digits), title=f"{units.exact(value)} {unit}", order=value / whole)


def share(found: Share | Accuracy | None) -> Entry:
    """A share with its interval."""
    return NOTHING if found is None else Entry(units.percent_within(found.value, found.ci95), order=found.value)


def short_share(found: Share | Accuracy | None) -> Entry:
    """A share whose interval is a tooltip."""
    if found is None:
        return NOTHING
    title = units.percent_within(found.value, found.ci95)
    return Entry(units.percent_of_all(found.value), title=title, order=found.value)


def points(found: Difference | None) -> Entry:
    """A difference of accuracies in points, with its interval."""
    if found is None:
        return NOTHING
    text = units.points_within(found.value, found.ci95)
    return Entry(text, tone=tone(found.ci95, 0), order=found.value)


def pairs(found: Measured | None) -> Entry:
    """The number of pairs behind a ratio, and why sampling ended."""
    return NOTHING if found is None else Entry(str(found.samples), note=found.stopped)
