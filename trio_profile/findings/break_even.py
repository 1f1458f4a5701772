"""Break-even in words: the retention above which pruning costs more than it saves."""

from collections.abc import Callable

from trio_profile import units
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings.blocks import Entry, Table
from trio_profile.records.estimate import Interval
from trio_profile.stats.crossing import BreakEven

NAMES = {
    "prefill_ms": "Prefill time",
    "total_ms": "Total time",
    "fastv_macs": "MACs by formula",
    "counted_macs": "MACs counted",
    "kv_bytes": "KV cache bytes",
    "energy_j": "Energy of a prefill",
}
"""The quantities with a break-even, as a reader calls them."""
_UNKNOWN = BreakEven(status="inconclusive")


def find(document: SweepDocument, method: str, quantity: str) -> BreakEven:
    """The break-even of a method in one quantity; inconclusive where nothing is known."""
    return document.break_even_by_method.get(method, {}).get(quantity, _UNKNOWN)


def pays(document: SweepDocument, method: str, quantity: str) -> str:
    """Up to which retention a method pays: `pays up to 61 % [55, 66]`, `pays at no retention measured, from 11.0 %`."""
    return _words(find(document, method, quantity))


def pays_with_counted_gamma(document: SweepDocument, method: str) -> str:
    """Up to which retention a method pays by the formula with its counted γ, as `pays` says it."""
    return _words(document.break_even_counted_gamma.get(method, _UNKNOWN))


def sentence(document: SweepDocument, method: str, quantity: str, name: str) -> str:
    """Up to which retention a method pays, as a whole sentence.

    name: the quantity in a sentence, such as `prefill`.
    """
    found = find(document, method, quantity)
    if found.status == "inconclusive":
        where = _possible(found)
        return (
            f"Inconclusive: the noise is too large to say up to which retention pruning with {method} pays in {name}"
            f"{f'; {where}' if where else ''}."
        )
    return f"Pruning with {method} {_words(found, f' in {name}')}{_cut_off(found)}."


def table(document: SweepDocument) -> Table:
    """The break-even of each quantity, a column for each method."""
    methods = document.study.methods
    rows: list[list[Entry]] = []
    for quantity in document.break_even:
        rows.append([Entry(NAMES[quantity]), *(_entry(find(document, method, quantity)) for method in methods)])
        if quantity == "fastv_macs" and (counted := document.break_even_counted_gamma):
            rows[-1][0] = Entry(NAMES[quantity], note=f"γ = {units.plain(document.study.gamma)}")
            entries = (_entry(counted[method]) if method in counted else Entry("–") for method in methods)
            rows.append([Entry(NAMES[quantity], note="overhead factor as counted"), *entries])
    return Table("Break-even: pruning pays below this retention", ["", *methods], rows, compact=len(methods) < 4)


def _entry(found: BreakEven) -> Entry:
    if found.retention is not None and found.ci95 is not None:
        text, _, note = units.percent_within(found.retention, found.ci95).partition(" [")
        return Entry(text, note=f"[{note}" if note else "exact")
    if found.retention is not None:
        return Entry(units.percent(found.retention), note="measured once")
    if found.status == "inconclusive":
        return Entry("inconclusive", note=_possible(found))
    return Entry(_words(found))


def _words(found: BreakEven, of_what: str = "") -> str:
    """Up to which retention pruning pays, beginning with a verb.

    of_what: stands after `pays`: ` in prefill`.
    """
    if found.status == "crossing" and found.retention is not None and found.ci95 is not None:
        return f"pays{of_what} up to {units.percent_within(found.retention, found.ci95)}"
    if found.status == "always":
        return f"pays{of_what} at every retention measured{_end('up to', found, 1)}"
    if found.status == "never":
        return f"pays{of_what} at no retention measured{_end('from', found, 0)}"
    where = _possible(found)
    return f"is inconclusive ({where})" if where else "is inconclusive"


def _end(preposition: str, found: BreakEven, end: int) -> str:
    """The lowest (end 0) or the highest (end 1) retention that was measured, if it is known: `, up to 77.0 %`."""
    return f", {preposition} {units.percent(found.measured[end])}" if found.measured else ""


def _possible(found: BreakEven) -> str:
    if found.status != "inconclusive":
        return ""
    return possible(found.ci95, found.measured, units.percent)


def possible(ci95: Interval | None, measured: Interval | None, text: Callable[[float], str]) -> str:
    """Where an inconclusive break-even may lie. Empty if it may lie anywhere, and if nothing is known.

    ci95: where it may lie.
    measured: the ends of what was measured.
    text: one of these numbers in words.
    """
    if ci95 is None or measured is None:
        return ""
    if ci95[0] > measured[0]:
        return f"break-even may lie above {text(ci95[0])}"
    if ci95[1] < measured[1]:
        return f"break-even may lie below {text(ci95[1])}"
    return ""


def _cut_off(found: BreakEven) -> str:
    """Where the interval was cut off. A crossing is looked for only between the retentions that were measured."""
    if found.status == "always":
        return ": the sweep met no break-even"
    if found.ci95 is None or found.measured is None:
        return ""
    if found.ci95[1] >= found.measured[1]:
        return "; the interval ends with the sweep, so break-even may lie above it"
    if found.ci95[0] <= found.measured[0]:
        return "; the interval begins with the sweep, so break-even may lie below it"
    return ""
