"""Break-even in words: the retention above which pruning costs more than it saves."""

from trio_profile import units
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings.blocks import Entry, Table
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.stats.crossing import BreakEven

_UNKNOWN = BreakEven(status="inconclusive")


def find(document: SweepDocument, method: str, quantity: str) -> BreakEven:
    """The break-even of a method in one quantity; inconclusive where nothing is known."""
    return document.break_even_by_method.get(method, {}).get(quantity, _UNKNOWN)


def pays(document: SweepDocument, method: str, quantity: str) -> str:
    """Up to which retention a method pays: `pays: certainly up to 77.0 %, certainly not from 94.0 %`."""
    return _words(find(document, method, quantity))


def pays_with_counted_gamma(document: SweepDocument, method: str) -> str:
    """Up to which retention a method pays by the formula with its counted γ, as `pays` says it."""
    return _words(document.break_even_counted_gamma.get(method, _UNKNOWN))


def sentence(document: SweepDocument, method: str, quantity: str, name: str) -> str:
    """Up to which retention a method pays, as a whole sentence.

    name: the quantity in a sentence, such as `prefill`.
    """
    return f"Pruning with {method} {_words(find(document, method, quantity), f' in {name}')}."


def table(document: SweepDocument) -> Table:
    """The three ranges of each method and quantity, a row each."""
    methods, rows = document.study.methods, list[list[Entry]]()
    for method in methods:
        name = [Entry(method)] if len(methods) > 1 else []
        for quantity in document.break_even:
            counted = document.break_even_counted_gamma.get(method) if quantity == "fastv_macs" else None
            note = "" if counted is None else f"γ = {units.plain(document.study.gamma)}"
            label = QUANTITIES[quantity].label
            rows.append([*name, Entry(label, note=note), *_ranges(find(document, method, quantity))])
            if counted is not None:
                rows.append([*name, Entry(label, note="overhead factor as counted"), *_ranges(counted)])
    heads = ["", "pays up to", "undecided", "costs more from", "curve crosses 1 at"]
    keys = len(methods) > 1
    return Table("Break-even, as retentions", ["method", *heads] if keys else heads, rows, keys=2 if keys else 1)


def _ranges(found: BreakEven) -> list[Entry]:
    """The ends of the three ranges, and where the curve crosses 1."""
    low, high = found.ci95 or (0.0, 0.0)
    undecided = f"{units.percent(low)} to {units.percent(high)}" if low < high else "–"
    ends = (found.certain_gain, found.certain_loss, found.retention)
    gain, loss, crossing = ("–" if end is None else units.percent(end) for end in ends)
    return [Entry(gain), Entry(undecided), Entry(loss), Entry(crossing)]


def _words(found: BreakEven, of_what: str = "") -> str:
    """Up to which retention pruning pays, beginning with a verb.

    of_what: stands after `pays`: ` in prefill`.
    """
    if found.status == "always":
        return f"pays{of_what} at every retention measured{_end('up to', found, 1)}"
    if found.status == "never":
        return f"pays{of_what} at no retention measured{_end('from', found, 0)}"
    if found.ci95 is None and found.retention is not None:
        return f"pays{of_what} up to {units.percent(found.retention)}"
    if found.ci95 is not None and found.ci95[0] == found.ci95[1] and found.retention is not None:
        return f"pays{of_what} up to {units.percent(found.retention)}"
    if found.status == "inconclusive":
        return f"may pay{of_what} or not: nothing is certain"
    near = "" if found.retention is None else f"; the curve crosses 1 at {units.percent(found.retention)}"
    return f"{'pays' if found.certain_gain is not None else 'is dearer'}{of_what}: {_certainties(found)}{near}"


def _certainties(found: BreakEven) -> str:
    """What is certain and what is undecided: `certainly up to 77.0 %, certainly not from 94.0 %`."""
    parts = []
    if found.certain_gain is not None:
        parts.append(f"certainly up to {units.percent(found.certain_gain)}")
    if found.certain_loss is not None:
        parts.append(f"certainly not from {units.percent(found.certain_loss)}")
    if len(parts) == 1:
        parts.append("undecided above" if found.certain_gain is not None else "undecided below")
    return ", ".join(parts) or "undecided"


def _end(preposition: str, found: BreakEven, end: int) -> str:
    """The lowest (end 0) or the highest (end 1) retention that was measured, if it is known: `, up to 77.0 %`."""
    return f", {preposition} {units.percent(found.measured[end])}" if found.measured else ""
