"""Entries that the tables of several reports share: a quantity as text, its interval as note or title."""

from trio_profile import units
from trio_profile.analysis.sweep import CellSummary
from trio_profile.findings.blocks import Entry, Tone
from trio_profile.records.estimate import Accuracy, Difference, Interval, Measured, Share

NOTHING = Entry("–")
"""What stands where there is no value."""


def tone(bounds: Interval, level: float) -> Tone:
    """`gain` for an interval above `level`, `loss` for one below it, and none for one that holds it."""
    return "gain" if bounds[0] > level else "loss" if bounds[1] < level else ""


def speedup(found: Measured | None) -> Entry:
    """A speed-up with its interval."""
    if found is None:
        return NOTHING
    return Entry(units.times(found.value, found.ci95), note=units.interval(found.ci95), tone=tone(found.ci95, 1))


def short_speedup(found: Measured | None) -> Entry:
    """A speed-up whose interval is a tooltip."""
    if found is None:
        return NOTHING
    return Entry(units.times(found.value, found.ci95), title=units.interval(found.ci95), tone=tone(found.ci95, 1))


def milliseconds(found: Measured | None) -> Entry:
    """A duration."""
    if found is None:
        return NOTHING
    low, high = (units.milliseconds(bound) for bound in found.ci95)
    return Entry(units.milliseconds(found.value), title=f"95 % interval {low} to {high}")


def factor(found: Measured | None) -> Entry:
    """A value without its unit, which the column names."""
    return NOTHING if found is None else Entry(units.factor(found.value))


def macs(value: int | None, dense: int | None = None) -> Entry:
    """A count of MACs, and its ratio to dense if `dense` is given."""
    if value is None:
        return NOTHING
    note = units.percent(value / dense) if dense else ""
    return Entry(units.count(value), note=note, title=f"{units.exact(value)} MACs")


def num_bytes(value: int | None, dense: int | None = None) -> Entry:
    """A number of bytes, and its ratio to dense if `dense` is given."""
    if value is None:
        return NOTHING
    note = units.percent(value / dense) if dense else ""
    return Entry(units.size(value), note=note, title=f"{units.exact(value)} bytes")


def ratio(value: int | None, whole: int | None, digits: int = 1) -> Entry:
    """A count as a share of another."""
    return Entry(units.percent(value / whole, digits)) if value is not None and whole else NOTHING


def share(found: Share | Accuracy | None) -> Entry:
    """A share with its interval."""
    return NOTHING if found is None else Entry(units.percent_within(found.value, found.ci95))


def short_share(found: Share | Accuracy | None) -> Entry:
    """A share whose interval is a tooltip."""
    if found is None:
        return NOTHING
    return Entry(units.percent_of_all(found.value), title=units.percent_within(found.value, found.ci95))


def points(found: Difference | None) -> Entry:
    """A difference of accuracies in points, with its interval."""
    if found is None:
        return NOTHING
    return Entry(units.points_within(found.value, found.ci95), tone=tone(found.ci95, 0))


def unmeasured(cell: CellSummary | None, span: int) -> Entry:
    """Why a cell has no numbers, over `span` columns."""
    if cell is None:
        return Entry("not measured yet", tone="absent", span=span)
    return Entry(f"{cell.status}: {cell.reason or 'no reason was recorded'}", tone="absent", span=span)
