"""Words that the report of `endpoints` uses in its sentences, tables and charts."""

from trio_profile import units
from trio_profile.analysis.endpoints import EndpointsDocument, LoadBreakEven, Quantity
from trio_profile.findings.break_even import possible
from trio_profile.records.endpoint_study import Loop

NAMES: dict[Quantity, str] = {
    "throughput": "throughput",
    "goodput": "goodput",
    "ttft_p50_ms": "median TTFT",
    "ttft_p95_ms": "95th percentile of TTFT",
    "ttft_p99_ms": "99th percentile of TTFT",
    "tpot_ms": "TPOT",
    "total_ms": "total time",
}
"""The quantities in a sentence."""
HEADS: dict[Quantity, str] = {
    **NAMES,
    "ttft_p50_ms": "TTFT p50",
    "ttft_p95_ms": "TTFT p95",
    "ttft_p99_ms": "TTFT p99",
    "total_ms": "total",
}
"""The quantities at the head of a column."""


def in_words(quantity: Quantity) -> str:
    """A quantity in a sentence, with its article: `throughput`, `the median TTFT`."""
    return f"the {NAMES[quantity]}" if "TTFT" in NAMES[quantity] else NAMES[quantity]


def load_words(loop: Loop) -> str:
    """What a load of a loop is called."""
    return "concurrency" if loop == "closed" else "rate"


def loops_of(document: EndpointsDocument) -> list[Loop]:
    """The loops that were measured."""
    return list(dict.fromkeys(one.loop for one in document.loads))


def sentence(found: LoadBreakEven) -> str:
    """Up to which load pruning pays, as a whole sentence."""
    if found.status == "inconclusive":
        return f"It is inconclusive whether pruning pays in {in_words(found.quantity)}{_possible(found)}."
    return f"Pruning {pays(found, f' in {in_words(found.quantity)}')}."


def pays(found: LoadBreakEven, of_what: str = "") -> str:
    """Up to which load pruning pays, beginning with a verb: `pays up to a concurrency of 6.7 [5.9, 7.4]`.

    of_what: stands after `pays`: ` in throughput`.
    """
    word = load_words(found.loop)
    measured = f", {units.load(found.measured[0])} to {units.load(found.measured[1])}" if found.measured else ""
    if found.status == "crossing" and found.load is not None and found.ci95 is not None:
        side = "up to" if found.pays == "below" else "from"
        return f"pays{of_what} {side} a {word} of {units.load_within(found.load, found.ci95)}{_cut_off(found)}"
    if found.status == "always":
        return f"pays{of_what} at every {word} measured{measured}"
    if found.status == "never":
        return f"pays{of_what} at no {word} measured{measured}"
    return f"is inconclusive{of_what}{_possible(found)}"


def _possible(found: LoadBreakEven) -> str:
    where = possible(found.ci95, found.measured, units.load)
    return f"; {where}" if where else ""


def _cut_off(found: LoadBreakEven) -> str:
    """Where the interval was cut off. A crossing is looked for only between the loads that were measured."""
    if found.ci95 is None or found.measured is None:
        return ""
    if found.ci95[1] >= found.measured[1]:
        return "; the interval ends with the highest load measured"
    if found.ci95[0] <= found.measured[0]:
        return "; the interval begins with the lowest load measured"
    return ""
