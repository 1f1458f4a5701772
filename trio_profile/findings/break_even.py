"""Break-even in words: the retention above which pruning costs more than it saves."""

from typing import Any

from trio_profile import units
from trio_profile.findings.blocks import Entry, Table
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.stats.crossing import BreakEven

_UNKNOWN = BreakEven(status="inconclusive")


def find(document: Any, method: str, quantity: str) -> BreakEven:
    """The break-even of a method in one quantity; inconclusive where nothing is known."""
    return document.break_even_by_method.get(method, {}).get(quantity, _UNKNOWN)


def pays(document: Any, method: str, quantity: str, *, with_loss: bool = True) -> str:
    """Up to which retention a method pays: `pays certainly up to 77.0 % retention`, and from which it costs more."""
    found = find(document, method, quantity)
    if found.status in ("always", "never"):
        return f"pays at {'every' if found.status == 'always' else 'no'} retention measured"
    if found.certain_gain is None and found.certain_loss is None:
        return "may pay or not: nothing is certain"
    gain = [] if found.certain_gain is None else [f"pays certainly up to {units.percent(found.certain_gain)} retention"]
    loss = [] if found.certain_loss is None else [f"costs certainly more from {units.percent(found.certain_loss)}"]
    return ", ".join(gain + loss if with_loss or not gain else gain)


def table(document: Any, first: str) -> Table:
    """The three ranges of each method and quantity, those of `first` on top. Those with the same ranges share a row."""
    methods, rows = document.study.methods, list[list[Entry]]()
    for method in dict.fromkeys((first, *methods)):
        by_ranges: dict[tuple[Entry, ...], list[str]] = {}
        for quantity in document.break_even:
            by_ranges.setdefault(_ranges(find(document, method, quantity)), []).append(QUANTITIES[quantity].label)
        name = [Entry(method)] if len(methods) > 1 else []
        rows += [[*name, Entry("; ".join(labels)), *ranges] for ranges, labels in by_ranges.items()]
    heads = ["", "pays up to", "undecided", "costs more from", "curve crosses 1 at"]
    keys = len(methods) > 1
    return Table(
        "Break-even, as retentions", ["method", *heads] if keys else heads, rows, keys=2 if keys else 1, most=6
    )


def _ranges(found: BreakEven) -> tuple[Entry, ...]:
    """The ends of the three ranges, and where the curve crosses 1."""
    low, high = found.ci95 or (0.0, 0.0)
    undecided = f"{units.percent(low)} to {units.percent(high)}" if low < high else "–"
    ends = (found.certain_gain, found.certain_loss, found.retention)
    gain, loss, crossing = ("–" if end is None else units.percent(end) for end in ends)
    return Entry(gain), Entry(undecided), Entry(loss), Entry(crossing)
