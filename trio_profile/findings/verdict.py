"""What a study found, in plain sentences: for the terminal and for the top of the report.

A measured number never stands without its 95 % interval; an exact one is said to be exact; what is not known is said.
"""

from collections import Counter
from collections.abc import Iterator

from trio_profile import units
from trio_profile.analysis.accuracy import Kept
from trio_profile.analysis.sweep import CellSummary, Document
from trio_profile.records.estimate import Difference, Measured
from trio_profile.stats.crossing import BreakEven

_OPEN = BreakEven(status="inconclusive")


def sentences(document: Document) -> list[str]:
    """The findings of each method, then the doubts."""
    found = [sentence for method in document.study.methods for sentence in findings(document, method)]
    return [*(found or ["No cell of this study finished: there is nothing to conclude yet."]), *doubts(document)]


def findings(document: Document, method: str) -> list[str]:
    """One method: its speed at the least retention, where it stops paying, its work and its cache."""
    cells = finished(document, method)
    if not cells:
        return []
    found = [_speed(document, cells[0]), *_retentions(cells[0])]
    found += [_pays(document, method, "prefill_ms", "prefill"), _pays(document, method, "total_ms", "total time")]
    if document.dense is not None:
        found += [*_work(document, cells[0]), _work_break_even(document, method), *_cache(document, cells[0])]
        found += [*_answers(document, cells[0]), *_kept(document, method)]
    return found


def doubts(document: Document) -> list[str]:
    """What holds the findings back: no dense model, sampling that stopped early, cells that failed or never ran."""
    asked = len(document.study.cells())
    found = [*_without_dense(document), *_uncounted(document), *_stopped_early(document), *_failures(document)]
    missing = asked - len(document.cells)
    if missing > 0:
        found.append(f"Not measured yet: {_some(missing, asked)}; the sweep has not come to its end.")
    return found


def finished(document: Document, method: str) -> list[CellSummary]:
    """A method's finished cells, least retention first."""
    done = [cell for cell in document.cells if cell.method == method and cell.status == "done" and cell.retention]
    return sorted(done, key=realised)


def realised(cell: CellSummary) -> float:
    """The retention that a cell really ran at; the one asked for where it never ran."""
    return cell.retention.realised if cell.retention else cell.nominal_retention


def break_even(document: Document, method: str, quantity: str) -> BreakEven:
    """A method's break-even in one quantity; inconclusive where nothing is known."""
    return document.break_even_by_method.get(method, {}).get(quantity, _OPEN)


def break_even_text(document: Document, method: str, quantity: str) -> str:
    """The same in a few words: `up to 61 % [55, 66]`, `at every retention measured`, `at none measured`, `open`."""
    found = break_even(document, method, quantity)
    if found.status == "crossing" and found.retention is not None and found.ci95 is not None:
        return f"up to {units.percent_within(found.retention, found.ci95)}"
    return {"always": "at every retention measured", "never": "at no retention measured"}.get(found.status, "open")


def _speed(document: Document, cell: CellSummary) -> str:
    tokens = document.study.new_tokens
    total = f"prefill and {tokens} new token{'s' if tokens != 1 else ''} together"
    parts = [_ratio("prefill", cell.prefill_speedup), _ratio(total, cell.total_speedup)]
    return f"{cell.method} at {units.percent(realised(cell))} retention: {', '.join(part for part in parts if part)}."


def _retentions(cell: CellSummary) -> Iterator[str]:
    """The four numbers of that name, where the schedule is known."""
    if (kept := cell.retention) is not None:
        average, final, realised = (
            units.percent(part, 2) for part in (kept.layer_average, kept.final_layer, kept.realised)
        )
        yield (
            f"Retention of {units.percent(kept.nominal)} asked is {average} averaged over the layers, {final} in the "
            f"last one, {realised} realised."
        )


def _ratio(what: str, speedup: Measured | None) -> str:
    if speedup is None:
        return ""
    ratio, bounds = units.times(speedup.value, speedup.ci95), units.interval(speedup.ci95)
    if speedup.ci95[0] > 1:
        return f"{what} {ratio} faster {bounds}"
    if speedup.ci95[1] < 1:
        return f"{what} slower than dense, at {ratio} its speed {bounds}"
    return f"{what} not told apart from dense, {ratio} {bounds}"


def _pays(document: Document, method: str, quantity: str, name: str) -> str:
    found, cells = break_even(document, method, quantity), finished(document, method)
    if found.status == "crossing" and found.retention is not None and found.ci95 is not None:
        where = units.percent_within(found.retention, found.ci95)
        return f"Pruning with {method} pays in {name} up to a retention of {where}{_beyond(cells, found.ci95)}."
    if found.status == "always":
        return f"Pruning with {method} pays in {name} at {_all(cells, 'every')}: the sweep met no break-even."
    if found.status == "never":
        return f"Pruning with {method} does not pay in {name} at {_all(cells, 'any')}."
    return f"Whether pruning with {method} pays in {name} is open: the noise allows both at {_all(cells, 'every')}."


def _beyond(cells: list[CellSummary], bounds: tuple[float, float]) -> str:
    """A crossing is only looked for inside the sweep; say so where its interval was cut off there."""
    if bounds[1] >= realised(cells[-1]):
        return "; the interval ends with the sweep, so break-even may lie above it"
    if bounds[0] <= realised(cells[0]):
        return "; the interval begins with the sweep, so break-even may lie below it"
    return ""


def _all(cells: list[CellSummary], every: str) -> str:
    low, high = units.percent(realised(cells[0])), units.percent(realised(cells[-1]))
    if len(cells) == 1:
        return f"the only retention measured, {low}"
    return f"{every} retention measured, {low} to {high}"


def _work(document: Document, cell: CellSummary) -> Iterator[str]:
    dense = document.dense
    if dense is None or not cell.fastv_macs or not cell.counted_macs:
        return
    formula, counted = _fewer(dense.fastv_macs, cell.fastv_macs), _fewer(dense.counted_macs, cell.counted_macs)
    share = units.percent((cell.selection_macs or 0) / cell.counted_macs)
    yield (
        f"Work of {cell.method} at {units.percent(realised(cell))}, exact counts: the formula says {formula} MACs, "
        f"the counter says {counted}; selection is {share} of what was counted."
    )


def _fewer(dense: int, pruned: int) -> str:
    if pruned <= dense:
        return f"{units.times(dense / pruned)} fewer"
    return f"{units.times(pruned / dense)} as many"


def _work_break_even(document: Document, method: str) -> str:
    formula, counted = (break_even_text(document, method, quantity) for quantity in ("fastv_macs", "counted_macs"))
    if formula == counted:
        return f"In work, {method} pays {formula}, by formula and by count."
    return f"In work, {method} pays {formula} by formula, and {counted} by count."


def _cache(document: Document, cell: CellSummary) -> Iterator[str]:
    dense = document.dense
    if dense is None or not cell.kv_bytes:
        return
    change = f"{units.times(dense.kv_bytes / cell.kv_bytes)} smaller" if cell.kv_bytes <= dense.kv_bytes else "larger"
    told = "as predicted" if cell.kv_bytes == cell.kv_bytes_predicted else "not as predicted"
    if cell.kv_bytes_predicted and cell.kv_bytes != cell.kv_bytes_predicted:
        told += f" ({units.size(cell.kv_bytes_predicted)})"
    yield (
        f"The KV cache of {cell.method} at {units.percent(realised(cell))} holds {units.size(cell.kv_bytes)} "
        f"against {units.size(dense.kv_bytes)} dense, {change}, {told}."
    )


def _answers(document: Document, cell: CellSummary) -> Iterator[str]:
    dense = document.dense
    if dense is None or dense.accuracy is None or cell.accuracy is None or cell.accuracy_difference is None:
        return
    yield (
        f"{cell.method} at {units.percent(realised(cell))} answers "
        f"{units.percent_within(cell.accuracy.value, cell.accuracy.ci95)} of {cell.accuracy.samples} questions, dense "
        f"{units.percent_within(dense.accuracy.value, dense.accuracy.ci95)}: {points(cell.accuracy_difference)}."
    )


def points(found: Difference) -> str:
    """A difference of accuracies: `58.0 points less [−64.1, −51.2]`."""
    bounds = f"[{100 * found.ci95[0]:+.1f}, {100 * found.ci95[1]:+.1f}]".replace("-", "−")
    if round(100 * found.value, 1) == 0:
        return f"no difference {bounds}"
    return f"{abs(100 * found.value):.1f} points {'more' if found.value > 0 else 'less'} {bounds}"


def _kept(document: Document, method: str) -> Iterator[str]:
    """The cheapest retention for each share of the dense accuracy, with what it saves there."""
    by_share = document.accuracy_kept_by_method.get(method, {})
    if not by_share:
        return
    parts = [f"{units.percent(float(share), 0)} of it {kept_text(found)}" for share, found in by_share.items()]
    yield f"Of dense accuracy, {method} keeps {'; '.join(parts)}."


def kept_text(found: Kept) -> str:
    """`from a retention of 44 % [33, 55] on (prefill 1.62×)`, `at every retention measured`, `at none`, `open`."""
    if found.status == "crossing" and found.retention is not None and found.ci95 is not None:
        faster = "" if found.prefill_speedup is None else f" (prefill {units.times(found.prefill_speedup)})"
        return f"from a retention of {units.percent_within(found.retention, found.ci95)} on{faster}"
    return {"always": "at every retention measured", "never": "at none measured"}.get(found.status, "is open")


def _without_dense(document: Document) -> Iterator[str]:
    if document.dense is None and any(cell.status == "done" for cell in document.cells):
        yield "The dense model was not counted: work and cache have nothing to be held against."


def _uncounted(document: Document) -> Iterator[str]:
    missed = {name for cell in document.cells for name in cell.uncounted}
    if document.dense is not None:
        missed |= set(document.dense.uncounted)
    if missed:
        yield f"Counted MACs are too low: no formula covers {', '.join(sorted(missed))}."


def _stopped_early(document: Document) -> Iterator[str]:
    done = [cell.prefill_speedup for cell in document.cells if cell.prefill_speedup is not None]
    reasons = Counter(speedup.stopped for speedup in done)
    asked = units.percent(document.study.precision)
    if reasons["budget"]:
        where = _some(reasons["budget"], len(done))
        yield f"Sampling stopped at its time budget in {where}: intervals there are wider than the ±{asked} asked for."
    if reasons["plateau"]:
        where = _some(reasons["plateau"], len(done))
        yield f"Sampling stopped at a plateau in {where}: more pairs no longer narrowed the interval to ±{asked}."


def _failures(document: Document) -> Iterator[str]:
    failures = [cell for cell in document.cells if cell.status == "failed"]
    if not failures:
        return
    named = [f"{cell.method} at {units.percent(cell.nominal_retention)}" for cell in failures]
    where = ", ".join(named[:4]) + (f" and {len(named) - 4} more" if len(named) > 4 else "")
    yield f"Failed: {_some(len(failures), len(document.study.cells()))} ({where})."


def _some(count: int, of: int) -> str:
    if count == of:
        return {1: "the only cell", 2: "both cells"}.get(of, f"all {of} cells")
    return f"{count} of {of} cells"
