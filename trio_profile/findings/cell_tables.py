"""The tables of a sweep's cells: a short one for each method, and all numbers of every cell."""

from collections.abc import Mapping

from trio_profile import units
from trio_profile.analysis.recommendation import fastest
from trio_profile.analysis.sweep import CellSummary, DenseSummary, SweepDocument
from trio_profile.findings import break_even, doubts, entries
from trio_profile.findings.blocks import Entry, Page, Table
from trio_profile.findings.cells import finished, finished_cells, planned, realised, selection_share
from trio_profile.findings.charts import colour_of
from trio_profile.findings.entries import NATS_COLUMNS
from trio_profile.records.schema import Energy


def summary(document: SweepDocument, method: str) -> Table:
    """One method at every retention: answers, speed-ups, and cost relative to dense. 80 columns hold its first ones."""
    cells = [cell for cell in document.cells if cell.method == method]
    remark = next((f" ({cell.remark})" for cell in cells if cell.remark), "")
    marked = doubts.marks(document.doubts, finished_cells(document))
    first, more = _answer_columns(document.dense)
    columns = ["Retention", *first, "prefill", "total", "MACs", "KV", "f(n)", *more, "tokens kept"]
    width = len(columns) - 1
    rows = [[*_summary_row(cell, document.dense, marked, width), entries.budgets(cell)] for cell in cells]
    caption = f"{method}{remark}: speed-up, and cost relative to dense. MACs are counted; f(n) is the paper's formula"
    return Table(caption, columns, rows, first=5 + len(first))


def methods_table(document: SweepDocument) -> Table:
    """A row for each method: its fastest cell that keeps the answers, and where pruning stops paying."""
    marked = doubts.marks(document.doubts, finished_cells(document))
    first, more = _answer_columns(document.dense)
    columns = ["Method", "at", *first, "prefill", "total", "MACs", "KV", "pays up to", "f(n)", *more]
    rows: list[list[Entry]] = []
    for method in document.study.methods:
        cells = finished(document, method)
        name = Entry(method, colour=colour_of(document, method))
        if not cells:
            rows.append([name, Entry("no finished cell", tone="absent", span=len(columns) - 1)])
            continue
        row = _summary_row(fastest(cells) or cells[0], document.dense, marked, len(columns))
        place = 5 + len(first)
        rows.append([name, *row[:place], _pays(document, method), *row[place:]])
    known = document.dense is not None and document.dense.accuracy is not None
    return Table(at_its_best(known=known), columns, rows, keys=2, first=6 + len(first))


def at_its_best(*, known: bool) -> str:
    """The caption of a table with one row for each method. known: whether right answers are known."""
    right = " and keeps the right answers" if known else ""
    return f"Each method at its fastest retention that is measurably faster than dense{right}; otherwise at its lowest"


def cells_page(document: SweepDocument) -> Page:
    """Every cell that was asked for, with its numbers or the reason why there are none."""
    marked = doubts.marks(document.doubts, finished_cells(document))
    tables = [
        _retention_table(document, marked),
        _time_table(document, marked),
        *_cpu_table(document, marked),
        *_token_table(document, marked),
        _exact_table(document, marked),
    ]
    return Page(
        "cells",
        "All cells",
        "A row for each cell, failed and unmeasured ones included. Times are medians. A speed-up is a median of "
        "paired ratios, so its interval is narrower than the intervals of the two times suggest. Choose a count to see "
        "all its digits.",
        tables,
    )


def _answer_columns(dense: DenseSummary | None) -> tuple[list[str], list[str]]:
    """The columns of the answers: those in sight, and those behind a click."""
    known = dense is not None and dense.accuracy is not None
    return ["right", "points lost"] * known, ["changed answers" if known else "changed tokens", *NATS_COLUMNS]


def _pays(document: SweepDocument, method: str) -> Entry:
    """Up to which retention a method pays in prefill."""
    found = break_even.find(document, method, "prefill_ms")
    text = break_even.pays(document, method, "prefill_ms").removeprefix("pays ").removeprefix("up to ")
    return Entry(text, order=found.retention)


def _summary_row(cell: CellSummary, dense: DenseSummary | None, marked: Mapping[str, str], columns: int) -> list[Entry]:
    doubt = entries.doubt(cell.method, cell.nominal_retention, marked)
    title = entries.budgets_title(cell)
    head = Entry(units.percent(realised(cell)), doubt=doubt, title=title, order=realised(cell))
    if cell.status != "done" or cell.retention is None:
        return [head, entries.unmeasured(cell, columns - 1)]
    known = dense is not None and dense.accuracy is not None
    return [
        head,
        *([entries.short_share(cell.accuracy), entries.points_lost(cell.accuracy_difference)] if known else []),
        entries.speedup(cell.prefill_speedup),
        entries.short_speedup(cell.total_speedup),
        entries.ratio(cell.counted_macs, dense.counted_macs if dense else None, 0),
        entries.ratio(cell.kv_bytes, dense.kv_bytes if dense else None, 0),
        entries.ratio(cell.fastv_macs, dense.fastv_macs if dense else None, 0),
        entries.changed(cell.answer_agreement if known else cell.top1_agreement),
        *entries.divergence(cell),
    ]


def head(
    document: SweepDocument, method: str, asked: float, cell: CellSummary | None, marked: Mapping[str, str]
) -> list[Entry]:
    """The entries that name a cell: its method, and the realised retention beside the one that was asked for.

    marked: why each doubted cell is doubted, by its id.
    """
    reached = realised(cell) if cell else asked
    note = "" if units.percent(reached) == units.percent(asked) else f"of {units.percent(asked)}"
    name = Entry(method, colour=colour_of(document, method))
    doubt = entries.doubt(method, asked, marked)
    title = entries.budgets_title(cell) if cell else ""
    return [name, Entry(units.percent(reached), note=note, doubt=doubt, title=title, order=reached)]


def _retention_table(document: SweepDocument, marked: Mapping[str, str]) -> Table:
    columns = ("Method", "asked", "of the layers", "in the last layer", "realised", "tokens kept", "after layers")
    rows: list[list[Entry]] = []
    for method, asked, cell in planned(document):
        kept = cell.retention if cell else None
        doubt = entries.doubt(method, asked, marked)
        first = [Entry(method, colour=colour_of(document, method)), Entry(units.percent(asked), doubt=doubt)]
        if cell is None or kept is None:
            rows.append([*first, entries.unmeasured(cell, 5)])
            continue
        shares = [Entry(units.percent(part, 2)) for part in (kept.layer_average, kept.final_layer, kept.realised)]
        places = [Entry(", ".join(map(str, numbers))) for numbers in (cell.budgets, cell.layers)]
        rows.append([*first, *shares, *places])
    return Table("Retention: four numbers have this name", columns, rows, keys=2, detail=True)


def _time_table(document: SweepDocument, marked: Mapping[str, str]) -> Table:
    groups = (("", 3), ("Prefill", 3), ("Total", 3), ("", 1))
    timed = ("dense", "pruned", "speed-up")
    columns = ("Method", "Retention", "Tokens kept", *timed, *timed, "Pairs")
    rows = [_time_row(document, method, asked, cell, marked) for method, asked, cell in planned(document)]
    caption = "Time: dense and pruned, and their paired ratio"
    return Table(caption, columns, rows, groups, keys=2, detail=True)


def _time_row(
    document: SweepDocument, method: str, asked: float, cell: CellSummary | None, marked: Mapping[str, str]
) -> list[Entry]:
    if cell is None or cell.status != "done":
        return [*head(document, method, asked, cell, marked), entries.unmeasured(cell, 8)]
    prefill, stopped = cell.prefill_speedup, cell.prefill_speedup.stopped if cell.prefill_speedup else ""
    return [
        *head(document, method, asked, cell, marked),
        entries.budgets(cell),
        entries.milliseconds(cell.dense_prefill_ms),
        entries.milliseconds(cell.prefill_ms),
        entries.speedup(prefill),
        entries.milliseconds(cell.dense_total_ms),
        entries.milliseconds(cell.total_ms),
        entries.speedup(cell.total_speedup),
        Entry(str(prefill.samples) if prefill else "–", note=stopped),
    ]


def _cpu_table(document: SweepDocument, marked: Mapping[str, str]) -> list[Table]:
    """CPU time, where it was measured."""
    cells = [(method, asked, cell) for method, asked, cell in planned(document) if cell and cell.cpu_ms]
    if not cells:
        return []
    rows = [
        [
            *head(document, method, asked, cell, marked),
            entries.milliseconds(cell.dense_cpu_ms),
            entries.milliseconds(cell.cpu_ms),
            entries.speedup(cell.cpu_speedup),
        ]
        for method, asked, cell in cells
    ]
    caption = (
        "CPU time of a prefill, all threads together. Other work on the machine hardly changes it, but it is not the "
        "time that a user waits"
    )
    return [Table(caption, ("Method", "Retention", "dense", "pruned", "ratio"), rows, keys=2, detail=True)]


def _token_table(document: SweepDocument, marked: Mapping[str, str]) -> list[Table]:
    """First and later tokens, the host's part, and energy, where they were measured."""
    cells = [(method, asked, cell) for method, asked, cell in planned(document) if cell and cell.ttft_ms]
    if not cells:
        return []
    groups = (("", 2), ("First token", 2), ("Each later token", 2), ("Host, a prefill", 2), ("Prefill energy", 2))
    columns = ("Method", "Retention", *("dense", "pruned") * 4)
    dense_energy = document.dense.energy if document.dense else None
    rows = [
        [
            *head(document, method, asked, cell, marked),
            entries.milliseconds(cell.dense_ttft_ms),
            entries.milliseconds(cell.ttft_ms),
            entries.milliseconds(cell.dense_tpot_ms),
            entries.milliseconds(cell.tpot_ms),
            entries.milliseconds(cell.dense_host_ms),
            entries.milliseconds(cell.host_ms),
            _joules(dense_energy),
            _joules(cell.energy),
        ]
        for method, asked, cell in cells
    ]
    return [Table("Tokens and energy", columns, rows, groups, keys=2, detail=True)]


def _joules(energy: Energy | None) -> Entry:
    if energy is None or energy.prefill_j is None:
        return Entry("–", title=(energy.reason or "") if energy else "")
    return Entry(units.joules(energy.prefill_j))


def _exact_table(document: SweepDocument, marked: Mapping[str, str]) -> Table:
    groups = (("", 2), ("MACs", 5), ("KV cache", 2), ("Memory", 1))
    columns = (
        "Method",
        "Retention",
        "by formula",
        "counted",
        "fvcore",
        "selection",
        "overhead factor",
        "held",
        "predicted",
        "peak",
    )
    rows = [_exact_row(document, method, asked, cell, marked) for method, asked, cell in planned(document)]
    dense = [_dense_row(document.dense)] if document.dense else []
    caption = "Work and memory: exact counts, and their ratio to dense"
    return Table(caption, columns, [*dense, *rows], groups, keys=2, detail=True)


def _dense_row(dense: DenseSummary) -> list[Entry]:
    return [
        Entry("dense"),
        Entry(units.percent(1.0)),
        entries.macs(dense.fastv_macs),
        entries.macs(dense.counted_macs),
        entries.macs(dense.fvcore_macs),
        entries.NOTHING,
        entries.NOTHING,
        entries.num_bytes(dense.kv_bytes),
        entries.num_bytes(dense.kv_bytes_predicted),
        entries.num_bytes(dense.peak_memory_bytes),
    ]


def _exact_row(
    document: SweepDocument, method: str, asked: float, cell: CellSummary | None, marked: Mapping[str, str]
) -> list[Entry]:
    if cell is None or cell.status != "done":
        return [*head(document, method, asked, cell, marked), entries.unmeasured(cell, 8)]
    dense = document.dense
    return [
        *head(document, method, asked, cell, marked),
        entries.macs(cell.fastv_macs, dense.fastv_macs if dense else None),
        entries.macs(cell.counted_macs, dense.counted_macs if dense else None),
        entries.macs(cell.fvcore_macs, dense.fvcore_macs if dense else None),
        _selection(cell),
        entries.overhead_factor(cell),
        entries.num_bytes(cell.kv_bytes, dense.kv_bytes if dense else None),
        entries.num_bytes(cell.kv_bytes_predicted),
        entries.num_bytes(cell.peak_memory_bytes),
    ]


def _selection(cell: CellSummary) -> Entry:
    share = selection_share(cell)
    if share is None:
        return entries.NOTHING
    return Entry(units.percent(share), title=f"{units.exact(cell.selection_macs or 0)} MACs")
