"""The report of a sweep: what to do, the speed-up over retention, and a table; everything else is folded."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trio_profile import units
from trio_profile.analysis.accuracy import AccuracyKept
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import break_even, charts, doubts, pareto, recommendation
from trio_profile.findings.blocks import Block, Chart, Entry, Page, Report, Sentences, Table
from trio_profile.findings.charts import colour_of
from trio_profile.findings.study_page import finished_cells, notes, report_of
from trio_profile.findings.table import FURTHER_COLUMNS, IN_SIGHT, Grid, grid, grid_of, table
from trio_profile.quantities.right_answers import of_kind
from trio_profile.text import listed

MOST_SHOWN = 16
"""The table of a sweep of several methods with more cells has a switch for the method."""
_PREFILL = ("prefill of dense", "prefill pruned", "prefill speed-up")
_TOTAL = ("total of dense", "total pruned", "total speed-up")
_TOKENS = ("first token of dense", "first token pruned", "later token of dense", "later token pruned")
_REST = ("host of dense", "host pruned", "energy of dense", "energy pruned")


def report(document: SweepDocument) -> Report:
    """All pages of a sweep's report."""
    pages = [verdict_page(document), charts_page(document), answers_page(document), cells_page(document)]
    return report_of(document, ", ".join(document.study.methods), pages)


def verdict_page(document: SweepDocument) -> Page:
    """What to do, the speed-up over retention, each method in a table, and the break-even of every quantity."""
    blocks: list[Block] = [Sentences("", [recommendation.sentence(document.recommendation), *_range(document)])]
    if any(cell.status == "done" for cell in document.cells):
        blocks.append(speedup(document))
    if document.cells:
        blocks.append(_summary(document))
    if document.dense is not None and any(cell.status == "done" for cell in document.cells):
        blocks.append(break_even.table(document, _picked(document)))
    if lines := [*recommendation.further(document.recommendation), *_reminders(document)]:
        blocks.append(Sentences("Keep in mind", lines, tone="doubt"))
    return Page("verdict", "Verdict", "", blocks)


def speedup(document: SweepDocument) -> Chart:
    """The speed-up of the prefill, with the certain gain of the recommended method, or of the first one."""
    return charts.speedups(document, "prefill", "Speed-up of the prefill", "prefill_ms", _picked(document))


def _range(document: SweepDocument) -> list[str]:
    """The range of retentions at which the recommended method, or the first one, pays."""
    method = _picked(document)
    pays = break_even.pays(document, method, "prefill_ms", with_loss=False)
    return [f"By prefill time, {method} {pays}."] if document.cells else []


def _picked(document: SweepDocument) -> str:
    """The recommended method, or the first one."""
    pick = document.recommendation.pick
    return document.study.methods[0] if pick is None else pick.method


def charts_page(document: SweepDocument) -> Page:
    """The speed-up with decoding; of several methods also speed against answers."""
    tokens = units.number_of(document.study.new_tokens, "new token")
    methods = document.study.methods
    blocks: list[Block] = []
    if any(cell.total_speedup for cell in document.cells) and document.study.new_tokens > 1:
        blocks.append(charts.speedups(document, "total", f"Prefill and {tokens}", "total_ms", methods[0]))
    reference = "trio" if "trio" in methods else methods[0]
    chart = pareto.chart(document.cells, methods, reference, document.dense) if len(methods) > 1 else None
    blocks += [chart] if chart is not None else []
    how = "Each point is the median of paired ratios, dense time over pruned time, with its 95 % interval."
    return Page("charts", "Further charts", f"{how} {pareto.NOTE}" if chart else how, blocks, folded="Show the charts")


def answers_page(document: SweepDocument) -> Page:
    """Right answers by retention, and the cheapest retention that keeps them; else how far the output moved."""
    cells = grid_of(document, _planned(document))
    blocks: list[Block] = []
    if cells.answered and any(cell.status == "done" for cell in document.cells):
        kinds = [of_kind(kind) for kind in cells.dense.accuracy_by_kind]
        columns = ["right", "points lost", "changed answers", "changed tokens", "mean KL, nats", *kinds]
        by_retention = table(
            cells, "Answers by retention", columns, in_sight="mean KL, nats", with_dense=True, detail=True
        )
        blocks = [charts.accuracy(document), _kept_table(document), by_retention]
    elif any(cell.kl_nats_mean is not None for cell in document.cells):
        blocks = [table(cells, "Closeness to dense", ["changed tokens", "mean KL, nats"], detail=True)]
    return Page(
        "answers",
        "Answers",
        "The same questions are asked at every retention, and answered by generation. Points lost are paired, question "
        "by question. KL says how far the next token's distribution lies from dense; without known answers it is the "
        "only sign, and it does not say whether answers stay right. A method that draws at random has several seeds.",
        blocks,
        empty="No question with a known answer was asked. `--questions FILE` asks them.",
        folded="Show the answers",
    )


def cells_page(document: SweepDocument) -> Page:
    """Every cell that was asked for, with its numbers or the reason why there are none."""
    cells = grid_of(document, _planned(document))

    def where(field: str) -> Grid:
        return replace(cells, rows=[row for row in cells.rows if row[1] and getattr(row[1], field)])

    share = ("of the layers", "in the last layer", "realised", "tokens kept", "after layers")
    work = ("by formula", "counted", "fvcore", "selection of counted", "overhead factor", "held", "predicted", "peak")
    pair, time = (("Prefill", 3), ("Total", 3), ("", 1)), (("First token", 2), ("Each later token", 2))
    tables = [
        table(cells, "Retention: four numbers have this name", share, ["method", "asked"]),
        table(cells, "Time", ["tokens kept", *_PREFILL, *_TOTAL, "pairs"], groups=(("", 3), *pair)),
        table(where("cpu_ms"), "CPU time of a prefill", ("CPU time of dense", "CPU time pruned", "CPU time ratio")),
        table(
            where("ttft_ms"),
            "Tokens and energy",
            [*_TOKENS, *_REST],
            groups=(("", 2), *time, ("Host, a prefill", 2), ("Prefill energy", 2)),
        ),
        table(
            cells,
            "Work and memory: exact counts, and their ratio to dense",
            work,
            groups=(("", 2), ("MACs", 5), ("KV cache", 2), ("Memory", 1)),
            with_dense=True,
        ),
    ]
    return Page(
        "cells",
        "All cells",
        "Times are medians. A speed-up is a median of paired ratios, so its interval is narrower than those of the two "
        "times suggest. Choose a count to see all its digits.",
        [replace(one, detail=True) for one in tables if one.rows],
        folded="Show every number of every cell",
    )


def _planned(document: SweepDocument) -> list[tuple[Any, Any]]:
    """Every cell of the study in its order, and what was measured of it, if anything."""
    seen = {summary.cell.id: summary for summary in document.cells}
    return [(cell, seen.get(cell.id)) for cell in document.study.cells()]


def _summary(document: SweepDocument) -> Table:
    """Every method at every retention: answers, speed-ups, and cost relative to dense."""
    methods = document.study.methods
    shown = grid(document, sorted(document.cells, key=lambda cell: methods.index(cell.method)))
    in_sight = [name for name in IN_SIGHT if name != "total" or document.study.new_tokens > 1]
    columns = [*in_sight, "f(n)", shown.changed, "mean KL, nats", *FURTHER_COLUMNS, "tokens kept"]
    caption = "Speed-up [95 % interval], and cost relative to dense"
    keys = ["method", "reached"][len(methods) == 1 :]
    switch = 0 if len(methods) > 1 and len(document.cells) > MOST_SHOWN else None
    chosen = _picked(document) if switch == 0 else ""
    return table(shown, caption, columns, keys, in_sight="KV", switch=switch, chosen=chosen, most=MOST_SHOWN)


def _reminders(document: SweepDocument) -> Iterator[str]:
    """What weakens the findings."""
    cells, planned = document.cells, len(document.study.cells())
    if document.dense is None and any(cell.status == "done" for cell in cells):
        yield "The dense model was not counted, so work and cache cannot be compared with it."
    missed = {name for cell in [*cells, *([document.dense] if document.dense else [])] for name in cell.uncounted}
    if missed:
        yield f"Counted MACs are too low: no formula covers {', '.join(sorted(missed))}."
    if failures := [cell for cell in cells if cell.status == "failed"]:
        named = listed([f"{cell.method} at {units.percent(cell.nominal_retention)}" for cell in failures[:4]])
        yield f"Failed: {len(failures)} of {units.number_of(planned, 'cell')} ({named}{' …' if failures[4:] else ''})."
    yield from notes((cell.method, cell.notes) for cell in cells)
    if planned > len(cells):
        yield f"Not measured yet: {planned - len(cells)} of {units.number_of(planned, 'cell')}."
    if document.doubts:
        yield doubts.summary(document.doubts, finished_cells(cells))


def _kept_table(document: SweepDocument) -> Table:
    """The cheapest retention that keeps a share of the dense accuracy."""
    known = {method: kept for method, kept in document.accuracy_kept_by_method.items() if kept}
    rows = [
        [Entry(method, colour=colour_of(document, method)), *map(_kept, kept.values())]
        for method, kept in known.items()
    ]
    shares = next(iter(known.values()), {})
    columns = ("Method", *(f"{units.percent(float(share), 0)} kept" for share in shares))
    return Table("The cheapest retention that keeps a share of the dense accuracy", columns, rows, detail=True)


def _kept(found: AccuracyKept) -> Entry:
    if found.status == "inconclusive":
        return Entry("not enough questions to say", tone="absent")
    if found.retention is None or found.ci95 is None:
        return Entry("at every retention measured" if found.status == "always" else "at no retention measured")
    return Entry(units.percent_within(found.retention, found.ci95))
