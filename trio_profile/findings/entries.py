"""Entries that the tables of several reports share: a quantity as text, its interval as note or title."""

from collections.abc import Mapping

from trio_profile import units
from trio_profile.analysis.sweep import CellSummary
from trio_profile.findings.blocks import Entry, Tone
from trio_profile.records.estimate import Accuracy, Difference, Estimate, Interval, Measured, Share
from trio_profile.records.schema import Cell

NATS_COLUMNS = ("mean KL, nats", "95th percentile", "median KL")
"""The columns of `divergence`."""
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
    return Entry(text, note=note, tone=tone(found.ci95, 1), order=found.value)


def short_speedup(found: Measured | None) -> Entry:
    """A speed-up whose interval is a tooltip."""
    if found is None:
        return NOTHING
    text, title = units.times(found.value, found.ci95), units.interval(found.ci95)
    return Entry(text, title=title, tone=tone(found.ci95, 1), order=found.value)


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


def divergence(cell: CellSummary) -> list[Entry]:
    """How far the next token lies from dense: the mean, the 95th percentile, the median. Old studies have the last."""
    return [nats(cell.kl_nats_mean), nats(cell.kl_nats_p95), nats(cell.kl_nats)]


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


def ratio(value: int | None, whole: int | None, digits: int = 1) -> Entry:
    """A count as a share of another."""
    if value is None or not whole:
        return NOTHING
    return Entry(units.percent(value / whole, digits), title=units.exact(value), order=value / whole)


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


def overhead_factor(cell: CellSummary) -> Entry:
    """The counted overhead factor, with the γ of the formula as a tooltip."""
    if cell.gamma is None or cell.gamma.counted is None:
        return NOTHING
    return Entry(
        units.factor(cell.gamma.counted), title=f"counted; the formula takes γ = {units.plain(cell.gamma.assumed)}"
    )


def budgets(cell: CellSummary) -> Entry:
    """The visual tokens that each stage keeps."""
    if not cell.budgets:
        return NOTHING
    return Entry(", ".join(map(str, cell.budgets)), title=f"after layers {', '.join(map(str, cell.layers))}")


def budgets_title(cell: CellSummary) -> str:
    """The budgets of a cell as a tooltip; empty if they are not known."""
    if not cell.budgets:
        return ""
    kept, layers = (", ".join(map(str, numbers)) for numbers in (cell.budgets, cell.layers))
    return f"keeps {kept} tokens after layers {layers}"


def doubt(method: str, retention: float, marked: Mapping[str, str]) -> str:
    """Why a cell is doubted; empty if it is not.

    retention: the nominal one. marked: why each doubted cell is doubted, by its id, as `doubts.marks` returns it.
    """
    return marked.get(Cell(method=method, retention=retention).id, "") if marked else ""


def unmeasured(cell: CellSummary | None, span: int) -> Entry:
    """Why a cell has no numbers, over `span` columns."""
    if cell is None:
        return Entry("not measured yet", tone="absent", span=span)
    return Entry(f"{cell.status}: {cell.reason or 'no reason was recorded'}", tone="absent", span=span)
