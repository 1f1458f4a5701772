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
        return f"pays at {'every' if ranges.status == 'always' else 'no'} retention measured"
    parts = []
    if ranges.certain_gain is not None:
        parts.append(f"pays certainly up to {units.percent(ranges.certain_gain)} retention")
    if ranges.certain_loss is not None:
        parts.append(f"costs certainly more from {units.percent(ranges.certain_loss)}")
    return ", ".join(parts) or "may pay or not: nothing is certain"


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
    """The ends of the three ranges, and where the curve crosses 1."""
    low, high = ranges.ci95 or (0.0, 0.0)
    undecided = f"{units.percent(low)} to {units.percent(high)}" if low < high else "–"
    ends = (ranges.certain_gain, ranges.certain_loss, ranges.retention)
    gain, loss, crossing = ("–" if end is None else units.percent(end) for end in ends)
    return Entry(gain), Entry(undecided), Entry(loss), Entry(crossing)
