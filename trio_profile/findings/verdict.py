"""What a sweep found, in plain sentences.

A measured number stands with its 95 % interval. Exact counts are said to be exact. What is not known is said.
"""

from collections.abc import Iterator

from trio_profile import units
from trio_profile.analysis.recommendation import fastest
from trio_profile.analysis.sweep import CellSummary, SweepDocument
from trio_profile.findings import answers, break_even, budget_notes
from trio_profile.findings.cells import any_finished, finished, finished_cells, notes
from trio_profile.findings.doubts import summary
from trio_profile.findings.flops import named_factor
from trio_profile.records.estimate import Measured, Ratio
from trio_profile.text import listed


def findings(document: SweepDocument, method: str) -> list[str]:
    """One method: its speed and its answers, where it stops paying, its work and its cache.

    They are about its fastest cell that keeps the answers. If none does, they are about the lowest retention.
    """
    cells = finished(document, method)
    if not cells:
        return []
    cell = fastest(cells) or cells[0]
    found = [_speed(document, cell), *answers.sentences(document, cell), *answers.kept_sentences(document, method)]
    for quantity, name in (("prefill_ms", "prefill"), ("total_ms", "total time")):
        found.append(break_even.sentence(document, method, quantity, name))
    if document.dense is not None:
        found += [*_work(document, cell), _work_break_even(document, method), *_overhead(document, cell)]
        found += _cache(document, cell)
    return [*found, *_retentions(cell)]


def doubts(document: SweepDocument) -> list[str]:
    """What weakens the findings: no dense model, sampling that stopped early, and cells that failed or are doubted."""
    planned = len(document.study.cells())
    found = [*_without_dense(document), *_uncounted(document), *_stopped_early(document), *_failures(document)]
    found += _decided_by_cpu_time(document)
    found += notes((cell.method, cell.notes) for cell in document.cells)
    found += budget_notes.sentences(document.clamped_above, document.idle_stages)
    if left_out := document.uncounted_selections:
        where = listed([f"{cell.method} at {units.percent(cell.nominal_retention)}" for cell in left_out])
        found.append(
            f"The break-even of the formula with the overhead factor as counted leaves out {where}: the work of the "
            "selection was not counted there."
        )
    missing = planned - len(document.cells)
    if missing > 0:
        found.append(f"Not measured yet: {_some(missing, planned)}; the sweep is not finished.")
    if document.doubts:
        found.append(summary(document.doubts, finished_cells(document.cells)))
    return found


def _speed(document: SweepDocument, cell: CellSummary) -> str:
    tokens = document.study.new_tokens
    total = f"prefill and {tokens} new token{'s' if tokens != 1 else ''} together"
    parts = [_ratio("prefill", cell.prefill_speedup), _ratio(total, cell.total_speedup)]
    return f"{cell.method} at {units.percent(cell.realised)} retention: {', '.join(part for part in parts if part)}."


def _ratio(what: str, speedup: Measured | None) -> str:
    if speedup is None:
        return ""
    ratio, bounds = units.times(speedup.value, speedup.ci95), units.interval(speedup.ci95)
    if speedup.ci95[0] > 1:
        return f"{what} {ratio} faster {bounds}"
    if speedup.ci95[1] < 1:
        return f"{what} slower than dense, at {ratio} its speed {bounds}"
    return f"no measurable speed-up of {what}, {ratio} {bounds}"


def _retentions(cell: CellSummary) -> Iterator[str]:
    """The four numbers that are called retention, where the schedule is known."""
    if (kept := cell.retention) is not None:
        average, last, reached = (
            units.percent(part, 2) for part in (kept.layer_average, kept.final_layer, kept.realised)
        )
        yield (
            f"A retention of {units.percent(kept.nominal)} was asked for. The average over the layers is {average}, "
            f"the last layer keeps {last}, and {reached} was realised on this input."
        )


def _work(document: SweepDocument, cell: CellSummary) -> Iterator[str]:
    dense = document.dense
    if dense is None or not cell.fastv_macs or not cell.counted_macs:
        return
    formula, counted = _fewer(dense.fastv_macs, cell.fastv_macs), _fewer(dense.counted_macs, cell.counted_macs)
    share = units.percent((cell.selection_macs or 0) / cell.counted_macs)
    yield (
        f"Work of {cell.method} at {units.percent(cell.realised)}, exact counts: the formula says {formula} MACs, "
        f"the counter says {counted}; selection is {share} of what was counted."
    )


def _fewer(dense: int, pruned: int) -> str:
    if pruned <= dense:
        return f"{units.times(dense / pruned)} fewer"
    return f"{units.times(pruned / dense)} as many"


def _work_break_even(document: SweepDocument, method: str) -> str:
    formula, counted = (break_even.pays(document, method, quantity) for quantity in ("fastv_macs", "counted_macs"))
    if formula == counted:
        return f"In MACs, {method} {formula}, by formula and by count."
    return f"In MACs, {method} {formula} by formula; by count it {counted}."


def _overhead(document: SweepDocument, cell: CellSummary) -> Iterator[str]:
    """The formula with the overhead factor that was counted, beside its γ."""
    dense, gamma, macs = document.dense, cell.gamma, cell.fastv_macs_counted_gamma
    if dense is None or gamma is None or gamma.counted is None or not macs:
        return
    pays = break_even.pays_with_counted_gamma(document, cell.method)
    yield (
        f"The formula takes γ = {units.plain(gamma.assumed)}. The selection of {cell.method} at "
        f"{units.percent(cell.realised)} has {named_factor(gamma.counted)} by count. With it the formula says "
        f"{_fewer(dense.fastv_macs, macs)} MACs; with what was counted in each cell, {cell.method} {pays}."
    )


def _cache(document: SweepDocument, cell: CellSummary) -> Iterator[str]:
    dense = document.dense
    if dense is None or not cell.kv_bytes:
        return
    change = f"{units.times(dense.kv_bytes / cell.kv_bytes)} smaller" if cell.kv_bytes <= dense.kv_bytes else "larger"
    told = "as predicted" if cell.kv_bytes == cell.kv_bytes_predicted else "not as predicted"
    if cell.kv_bytes_predicted and cell.kv_bytes != cell.kv_bytes_predicted:
        told += f" ({units.size(cell.kv_bytes_predicted)})"
    yield (
        f"The KV cache of {cell.method} at {units.percent(cell.realised)} holds {units.size(cell.kv_bytes)}, "
        f"and dense holds {units.size(dense.kv_bytes)}: {change}, {told}."
    )


def _without_dense(document: SweepDocument) -> Iterator[str]:
    if document.dense is None and any_finished(document):
        yield "The dense model was not counted, so work and cache cannot be compared with it."


def _uncounted(document: SweepDocument) -> Iterator[str]:
    missed = {name for cell in document.cells for name in cell.uncounted}
    if document.dense is not None:
        missed |= set(document.dense.uncounted)
    if missed:
        yield f"Counted MACs are too low: no formula covers {', '.join(sorted(missed))}."


def _stopped_early(document: SweepDocument) -> Iterator[str]:
    done = [cell.prefill_speedup for cell in document.cells if cell.prefill_speedup is not None]
    if not any(speedup.stopped == "budget" for speedup in done):
        return
    precision = document.study.precision
    wide = [width for speedup in done if (width := _half_width(speedup)) > precision]
    if wide:
        yield (
            f"The time was spent before {_some(len(wide), len(done))} reached ±{units.percent(precision)}: the widest "
            f"interval is ±{units.percent_beside(max(wide), precision)}. `--until {units.plain(precision)}` goes on "
            "until all are as narrow."
        )


def _decided_by_cpu_time(document: SweepDocument) -> Iterator[str]:
    """Where the interval of the wall time holds 1 and that of the CPU time does not."""
    sides: dict[str, list[str]] = {"less": [], "more": []}
    for cell in document.cells:
        wall, cpu = cell.prefill_speedup, cell.cpu_speedup
        if wall is None or cpu is None or not wall.ci95[0] <= 1 <= wall.ci95[1]:
            continue
        if cpu.ci95[0] > 1 or cpu.ci95[1] < 1:
            name = f"{cell.method} at {units.percent(cell.nominal_retention)}"
            sides["less" if cpu.ci95[0] > 1 else "more"].append(f"{name} ({units.times(cpu.value, cpu.ci95)})")
    for side, names in sides.items():
        if names:
            yield (
                f"The wall time does not decide, and the CPU time does: a prefill takes {side} CPU time than dense "
                f"with {listed(names)}."
            )


def _half_width(speedup: Ratio) -> float:
    """Half the width of the interval / the value."""
    return (speedup.ci95[1] - speedup.ci95[0]) / 2 / speedup.value


def _failures(document: SweepDocument) -> Iterator[str]:
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
