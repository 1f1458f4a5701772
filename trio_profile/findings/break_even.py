"""Break-even in words: the retention above which pruning costs more than it saves."""

from trio_profile import units
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings.blocks import Entry, Table
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
    """Up to which retention a method pays: `pays up to 61 % [55, 66]`, `pays at every retention measured` …"""
    found = find(document, method, quantity)
    if found.status == "crossing" and found.retention is not None and found.ci95 is not None:
        return f"pays up to {units.percent_within(found.retention, found.ci95)}"
    return {
        "always": "pays at every retention measured",
        "never": "pays at no retention measured",
    }.get(found.status, "is inconclusive")


def table(document: SweepDocument) -> Table:
    """The break-even of each quantity, a column for each method."""
    methods = document.study.methods
    rows = [
        [Entry(NAMES[quantity]), *(_entry(find(document, method, quantity)) for method in methods)]
        for quantity in document.break_even
    ]
    return Table("Break-even: pruning pays below this retention", ["", *methods], rows, compact=len(methods) < 4)


def _entry(found: BreakEven) -> Entry:
    if found.retention is not None and found.ci95 is not None:
        text, _, note = units.percent_within(found.retention, found.ci95).partition(" [")
        return Entry(text, note=f"[{note}" if note else "exact")
    if found.retention is not None:
        return Entry(units.percent(found.retention), note="measured once")
    text = {"always": "always pays", "never": "never pays"}.get(found.status, "inconclusive")
    return Entry(text, title="in this sweep")
