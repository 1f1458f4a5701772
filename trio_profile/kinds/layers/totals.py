"""The paper's efficiency table: the times of the parts of a prefill, added up, and what the formula saves."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from trio_profile import units
from trio_profile.cost.factors import OF_GAMMA, FormulaTotal
from trio_profile.kinds.layers.document import LayersDocument, PrefillTimes
from trio_profile.quantities import entries
from trio_profile.records.estimate import Milliseconds
from trio_profile.report.blocks import Block, Entry, Page, Sentences, Table, tabulate
from trio_profile.report.page import notes

_TOTALS = {"Forward": "forward", "Proxy loss": "proxy_loss", "Backward": "backward", "Selection": "selection"}
"""The columns of times, by their heading in the paper. The paper has no column of the selection."""


def paper_tables(document: LayersDocument) -> list[Page]:
    """The pages with tables for a paper."""
    return [totals_page(document)]


def totals_page(document: LayersDocument) -> Page:
    """The efficiency table of all retentions, and what the formula saves with γ and with the counted factor."""
    cells = document.cells
    blocks: list[Block] = [
        _paper_table(document),
        _saved_table(cells),
    ]
    if any(cell.efficiency.with_factor("counted") for cell in cells):
        blocks.append(Sentences("", [OF_GAMMA]))
    reminders = notes((cell.method, cell.notes) for cell in cells)
    if reminders:
        blocks.append(Sentences("Keep in mind", reminders, tone="doubt"))
    return Page(
        "efficiency",
        "The paper's efficiency table",
        "One prefill. Each column adds up a part of it over all layers or all stages, with its 95 % interval. Forward "
        "is the decoder layers. Selection is the whole selection: it contains Proxy loss, Backward and the extra "
        "forward of the probed layer, which the paper's columns do not name. A dash stands where a method does not "
        "have the part, or where compiled code runs it as one with others. The paper's totals of time and of prefill "
        "are those of a whole benchmark, so they are not comparable with these.",
        blocks,
    )


def _paper_table(document: LayersDocument) -> Table:
    """The paper's columns, and the selection. The dense model is the first row."""
    columns: dict[str, Callable[[PrefillTimes], Entry]] = {
        "": _head,
        "MACs, f(n)": lambda cell: entries.macs(cell.efficiency.fastv_macs),
        "Total": lambda cell: entries.milliseconds(cell.efficiency.total_ms),
        "Prefill": lambda cell: entries.milliseconds(cell.totals.prefill_ms),
        "KV": lambda cell: entries.num_bytes(cell.efficiency.kv_bytes),
    }
    for head, name in _TOTALS.items():
        columns[head] = lambda cell, name=name: _interval(getattr(cell.efficiency, f"{name}_ms"))
    tokens = units.number_of(document.study.new_tokens, "new token")
    caption = f"{document.method}: the paper's columns, and Selection. Total is a prefill with {tokens}"
    table = tabulate(caption, columns, document.cells)
    # Cells share the samples of the dense model while both are measured. This one has the most.
    longest = max(document.cells, key=lambda cell: cell.totals.dense_prefill_ms.samples)
    dense = longest.efficiency
    first = [
        Entry("dense"),
        entries.macs(dense.dense_fastv_macs),
        entries.milliseconds(dense.dense_total_ms),
        entries.milliseconds(longest.totals.dense_prefill_ms),
        entries.num_bytes(dense.dense_kv_bytes),
        _interval(dense.dense_forward_ms),
        *[entries.NOTHING] * (len(_TOTALS) - 1),
    ]
    return replace(table, rows=[first, *table.rows])


def _saved_table(cells: Sequence[PrefillTimes]) -> Table:
    """Saved of the paper with γ, and with the counted overhead factor, beside the speed-ups and the counted work."""
    with_gamma = (row.gammas for row in (cell.efficiency for cell in cells) if row.gammas and row.formula_totals)
    assumed = next((f", γ = {units.plain(gammas.assumed)}" for gammas in with_gamma), "")

    def factor(cell: PrefillTimes, entry: Callable[[FormulaTotal], Entry]) -> Entry:
        return entries.NOTHING if (total := cell.efficiency.with_factor("counted")) is None else entry(total)

    columns: dict[str, Callable[[PrefillTimes], Entry]] = {
        "": _head,
        "tokens kept": lambda cell: Entry(_listed(cell.budgets) or "–", title=f"after {_listed(cell.stage_layers)}"),
        f"Saved{assumed}": lambda cell: Entry(units.percent(cell.efficiency.fastv_saved)),
        "overhead factor": lambda cell: factor(cell, lambda total: Entry(units.factor(total.value))),
        "Saved, with it": lambda cell: factor(cell, lambda total: Entry(units.percent(total.fastv_saved))),
        "Saved, counted": lambda cell: Entry(
            units.percent(1 - cell.efficiency.counted_macs / cell.efficiency.dense_counted_macs)
        ),
        "prefill speed-up": lambda cell: entries.speedup(cell.totals.prefill_speedup),
        "total speed-up": lambda cell: entries.speedup(cell.efficiency.total_speedup),
    }
    first = cells[0]
    dense = f"{len(first.layers)} · f({first.stages[0].tokens_before if first.stages else 'V0'})"
    caption = f"Saved = 1 − F_total / ({dense}), by the paper's formula and by count; and speed-ups"
    return tabulate(caption, columns, cells)


def _head(cell: PrefillTimes) -> Entry:
    reached = cell.retention.realised
    budgets = f"keeps {_listed(cell.budgets)} tokens after layers {_listed(cell.stage_layers)}" if cell.budgets else ""
    return Entry(units.percent(reached), title=budgets, order=reached)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _interval(time: Milliseconds | None) -> Entry:
    """A time with its interval."""
    if time is None:
        return entries.NOTHING
    low, high = (units.milliseconds(end).removesuffix(" ms") for end in time.ci95)
    return Entry(units.milliseconds(time.value), note=f"[{low}, {high}]", order=time.value)
