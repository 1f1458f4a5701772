"""The tables of a sweep's cells: a short one for each method, and all numbers of every cell."""

from dataclasses import replace

from trio_profile.analysis.recommendation import fastest
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import break_even
from trio_profile.findings.blocks import Entry, Page, Table
from trio_profile.findings.cells import finished, planned
from trio_profile.findings.charts import colour_of
from trio_profile.findings.table import Grid, grid, grid_of, table
from trio_profile.quantities.closeness import DIVERGENCE
from trio_profile.quantities.quantity import Column
from trio_profile.quantities.registry import FURTHER

IN_SIGHT = ("right", "points lost", "prefill", "total", "MACs", "KV")
"""The columns that a summary of cells always shows."""
FURTHER_COLUMNS = tuple(column.name for quantity in FURTHER for column in quantity.columns)
"""The columns of quantities that only their file names."""


def summary(document: SweepDocument, method: str) -> Table:
    """One method at every retention: answers, speed-ups, and cost relative to dense. 80 columns hold its first ones."""
    cells = [cell for cell in document.cells if cell.method == method]
    remark = next((f" ({cell.remark})" for cell in cells if cell.remark), "")
    caption = f"{method}{remark}: speed-up, and cost relative to dense. MACs are counted; f(n) is the paper's formula"
    shown = grid(document, cells)
    columns = [*IN_SIGHT, "f(n)", shown.changed, *DIVERGENCE, *FURTHER_COLUMNS, "tokens kept"]
    return table(shown, caption, columns, ["reached"], in_sight="KV")


def methods_table(document: SweepDocument) -> Table:
    """A row for each method: its fastest cell that keeps the answers, and where pruning stops paying."""
    cells = {method: finished(document, method) for method in document.study.methods}
    shown = grid(document, [fastest(done) or done[0] for done in cells.values() if done])
    pays = Column("pays up to", lambda cell, _: _pays(document, cell.method))
    columns = [*IN_SIGHT, pays, "f(n)", shown.changed, *DIVERGENCE, *FURTHER_COLUMNS]
    found = table(shown, at_its_best(known=shown.answered), columns, ["method", "at"], in_sight="KV")
    absent = Entry("no finished cell", tone="absent", span=len(found.columns) - 1)
    measured = iter(found.rows)
    rows = [
        next(measured) if done else [Entry(method, colour=colour_of(document, method)), absent]
        for method, done in cells.items()
    ]
    return replace(found, rows=rows)


def at_its_best(*, known: bool) -> str:
    """The caption of a table with one row for each method. known: whether right answers are known."""
    right = " and keeps the right answers" if known else ""
    return f"Each method at its fastest retention that is measurably faster than dense{right}; otherwise at its lowest"


def cells_page(document: SweepDocument) -> Page:
    """Every cell that was asked for, with its numbers or the reason why there are none."""
    cells = grid_of(document, planned(document))
    tables = [
        _retention_table(cells),
        _time_table(cells),
        *_cpu_table(cells),
        *_token_table(cells),
        _exact_table(cells),
    ]
    return Page(
        "cells",
        "All cells",
        "A row for each cell, failed and unmeasured ones included. Times are medians. A speed-up is a median of "
        "paired ratios, so its interval is narrower than the intervals of the two times suggest. Choose a count to see "
        "all its digits.",
        tables,
    )


def _pays(document: SweepDocument, method: str) -> Entry:
    """Up to which retention a method pays in prefill."""
    found = break_even.find(document, method, "prefill_ms")
    text = break_even.pays(document, method, "prefill_ms").removeprefix("pays ").removeprefix("up to ")
    return Entry(text, order=found.retention)


def _retention_table(cells: Grid) -> Table:
    columns = ("of the layers", "in the last layer", "realised", "tokens kept", "after layers")
    caption = "Retention: four numbers have this name"
    return table(cells, caption, columns, ["method", "asked"], detail=True)


def _time_table(cells: Grid) -> Table:
    prefill = ("prefill of dense", "prefill pruned", "prefill speed-up")
    total = ("total of dense", "total pruned", "total speed-up")
    groups = (("", 3), ("Prefill", 3), ("Total", 3), ("", 1))
    caption = "Time: dense and pruned, and their paired ratio"
    return table(cells, caption, ["tokens kept", *prefill, *total, "pairs"], groups=groups, detail=True)


def _cpu_table(cells: Grid) -> list[Table]:
    """CPU time, where it was measured."""
    measured = [(cell, found) for cell, found in cells.rows if found and found.cpu_ms]
    caption = (
        "CPU time of a prefill, all threads together. Other work on the machine hardly changes it, but it is not the "
        "time that a user waits"
    )
    columns = ("CPU time of dense", "CPU time pruned", "CPU time ratio")
    return [table(replace(cells, rows=measured), caption, columns, detail=True)] if measured else []


def _token_table(cells: Grid) -> list[Table]:
    """First and later tokens, the host's part, and energy, where they were measured."""
    measured = [(cell, found) for cell, found in cells.rows if found and found.ttft_ms]
    groups = (("", 2), ("First token", 2), ("Each later token", 2), ("Host, a prefill", 2), ("Prefill energy", 2))
    times = [f"{time} {side}" for time in ("first token", "later token", "host") for side in ("of dense", "pruned")]
    columns = [*times, "energy of dense", "energy pruned"]
    shown = replace(cells, rows=measured)
    return [table(shown, "Tokens and energy", columns, groups=groups, detail=True)] if measured else []


def _exact_table(cells: Grid) -> Table:
    groups = [("", 2), ("MACs", 5), ("KV cache", 2), ("Memory", 1)]
    work = ("by formula", "counted", "fvcore", "selection of counted", "overhead factor")
    columns = [*work, "held", "predicted", "peak"]
    caption = "Work and memory: exact counts, and their ratio to dense"
    return table(cells, caption, columns, groups=groups, with_dense=True, detail=True)
