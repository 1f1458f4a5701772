"""Break-even in words: the retention above which pruning costs more than it saves."""

from typing import Any

from trio_profile import units
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.report.blocks import Entry, Table
from trio_profile.stats.crossing import BreakEven

_UNKNOWN = BreakEven(status="inconclusive")


def find(document: Any, method: str, quantity: str) -> BreakEven:
    """The break-even of a method in one quantity; inconclusive where nothing is known."""
    return document.break_even_by_method.get(method, {}).get(quantity, _UNKNOWN)


def pays(document: Any, method: str, quantity: str) -> str:
    """Up to which retention a method pays: `pays certainly up to 77.0 % retention`, and from which it costs more."""
    ranges = find(document, method, quantity)
    if ranges.status in ("always", "never"):
        return f"pays at {'every' if ranges.status == 'always' else 'no'} retention measured{_measured(ranges)}"
    parts = []
    if ranges.certain_gain is not None:
        parts.append(f"pays certainly up to {units.percent(ranges.certain_gain)} retention")
    if ranges.certain_loss is not None:
        parts.append(f"costs certainly more from {units.percent(ranges.certain_loss)}")
    return " and ".join(parts) or "may pay or not: nothing is certain"


def _measured(ranges: BreakEven) -> str:
    """The retentions that were measured: `, 11.0 % to 77.0 %`. Empty if they are not known."""
    if ranges.measured is None:
        return ""
    low, high = map(units.percent, ranges.measured)
    return f", {low} to {high}" if low != high else f", {low} alone"


def table(document: Any, first: str) -> Table:
    """The three ranges of each method and quantity, those of `first` on top. Those with the same ranges share a row."""
    methods, rows = document.study.methods, list[list[Entry]]()
    several = len(methods) > 1
    for method in dict.fromkeys((first, *methods)):
        by_ranges: dict[tuple[Entry, ...], list[str]] = {}
        for quantity in document.break_even:
            by_ranges.setdefault(_ranges(find(document, method, quantity)), []).append(QUANTITIES[quantity].label)
        name = [Entry(method)] * several
        rows += [[*name, Entry("; ".join(labels)), *ranges] for ranges, labels in by_ranges.items()]
    heads = [*["method"] * several, "", "pays up to", "undecided", "costs more from", "curve crosses 1 at"]
    return Table("Break-even, as retentions", heads, rows, keys=1 + several, most=6)


def _ranges(ranges: BreakEven) -> tuple[Entry, ...]:
    """The ends of the three ranges, and where the curve crosses 1. An end of what was measured is a bound."""
    low, high = ranges.ci95 or (0.0, 0.0)
    undecided = f"{units.percent(low)} to {units.percent(high)}" if low < high else "–"
    lowest, highest = ranges.measured or (None, None)
    return (
        _end(ranges.certain_gain, highest, "at least ", "the highest retention measured"),
        Entry(undecided),
        _end(ranges.certain_loss, lowest, "at most ", "the lowest retention measured"),
        _end(ranges.retention),
    )


def _end(end: float | None, edge: float | None = None, bound: str = "", meaning: str = "") -> Entry:
    """The end of a range. At the edge of what was measured it is a bound: `at least 77.0 %`."""
    if end is None:
        return Entry("–")
    is_edge = end == edge
    return Entry(f"{bound if is_edge else ''}{units.percent(end)}", title=meaning if is_edge else "")
