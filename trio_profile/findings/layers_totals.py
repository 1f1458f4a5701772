"""The paper's efficiency table: the times of the parts of a prefill, added up, and what the formula saves."""

from collections.abc import Mapping, Sequence

from trio_profile import units
from trio_profile.analysis.layers import LayersDocument, PrefillTimes
from trio_profile.findings.blocks import Block, Entry, Page, Sentences, Table
from trio_profile.findings.flops import OF_GAMMA
from trio_profile.findings.study_page import budget_notes, notes
from trio_profile.quantities import entries
from trio_profile.records.estimate import Milliseconds
from trio_profile.text import listed

_TOTALS = {"Forward": "forward", "Proxy loss": "proxy_loss", "Backward": "backward", "Selection": "selection"}
"""The columns of times, by their heading in the paper. The paper has no column of the selection."""
_WITHIN = {"probed layer's forward": "proxy_forward", "NMS": "nms", "compaction": "compaction"}
"""What the paper's columns leave out."""
_NO_STAGES = [entries.NOTHING] * (len(_TOTALS) - 1)
"""The columns of the stages in the row of the dense model, which has none."""


def totals_page(document: LayersDocument) -> Page:
    """The efficiency table of all retentions, and what the formula saves with γ and with the counted factor."""
    cells = document.cells
    dense = [Entry("dense"), _interval(_longest(cells).efficiency.dense_forward_ms), *_NO_STAGES]
    blocks: list[Block] = [
        _paper_table(document),
        _interval_table("The same totals", _TOTALS, cells, dense),
        _speedup_table(cells),
        _saved_table(cells),
        Sentences("", _factors(cells)),
        _interval_table("Other parts of the stages", _WITHIN, cells),
    ]
    reminders = notes((cell.method, cell.notes) for cell in cells)
    reminders += budget_notes(document.clamped_above, document.idle_stages)
    if reminders:
        blocks.append(Sentences("Keep in mind", reminders, tone="doubt"))
    return Page(
        "efficiency",
        "The paper's efficiency table",
        "One prefill. Each column adds up a part of it over all layers or all stages. Forward is the decoder layers. "
        "Selection is the whole selection: it contains Proxy loss, Backward and the extra forward of the probed layer, "
        "which the paper's columns do not name. A dash stands where a method does not have the part, or where "
        "compiled code runs it as one with others. The paper's totals of time and of prefill are those of a whole "
        "benchmark, so they are not comparable with these.",
        blocks,
    )


def _paper_table(document: LayersDocument) -> Table:
    """The paper's columns, and the selection. The dense model is the first row."""
    longest = _longest(document.cells)
    dense = longest.efficiency
    rows = [
        [
            Entry("dense"),
            entries.macs(dense.dense_fastv_macs),
            entries.milliseconds(dense.dense_total_ms),
            entries.milliseconds(longest.totals.dense_prefill_ms),
            entries.num_bytes(dense.dense_kv_bytes),
            entries.milliseconds(dense.dense_forward_ms),
            *_NO_STAGES,
        ]
    ]
    for cell in document.cells:
        row = cell.efficiency
        rows.append(
            [
                _head(cell),
                entries.macs(row.fastv_macs),
                entries.milliseconds(row.total_ms),
                entries.milliseconds(cell.totals.prefill_ms),
                entries.num_bytes(row.kv_bytes),
                *(entries.milliseconds(getattr(row, f"{name}_ms")) for name in _TOTALS.values()),
            ]
        )
    tokens = units.number_of(document.study.new_tokens, "new token")
    caption = f"{document.method}: the paper's columns, and Selection. Total is a prefill with {tokens}"
    return Table(caption, ("", "MACs, f(n)", "Total", "Prefill", "KV", *_TOTALS), rows)


def _interval_table(
    caption: str, columns: Mapping[str, str], cells: Sequence[PrefillTimes], dense: Sequence[Entry] = ()
) -> Table:
    """Times of parts with their 95 % intervals, in milliseconds.

    columns: names of the parts, by their headings.
    dense: the first row, which stays in sight with its table; empty for a table of details without this row.
    """
    rows = [
        [_head(cell), *(_interval(getattr(cell.efficiency, f"{name}_ms")) for name in columns.values())]
        for cell in cells
    ]
    caption = f"{caption} with their 95 % intervals, in milliseconds"
    return Table(caption, ("", *columns), [dense, *rows] if dense else rows, detail=not dense)


def _speedup_table(cells: Sequence[PrefillTimes]) -> Table:
    """The speed-up of the prefill and of the whole generation, and the share of the selection."""
    rows = [
        [
            _head(cell),
            entries.speedup(cell.totals.prefill_speedup),
            entries.speedup(cell.efficiency.total_speedup),
            entries.NOTHING
            if (selection := cell.efficiency.selection_ms) is None
            else Entry(units.percent(selection.value / cell.totals.prefill_ms.value, 0)),
        ]
        for cell in cells
    ]
    columns = ("", "prefill speed-up", "total speed-up", "selection, of the prefill")
    return Table("Speed-up: the median of paired ratios, dense over pruned", columns, rows)


def _saved_table(cells: Sequence[PrefillTimes]) -> Table:
    """Saved of the paper with γ, and with the counted overhead factor, beside the budgets and the counted work."""
    rows: list[list[Entry]] = []
    for cell in cells:
        row = cell.efficiency
        factor = row.with_factor("counted")
        rows.append(
            [
                _head(cell),
                Entry(_listed(cell.budgets) or "–", title=f"after layers {_listed(cell.stage_layers)}"),
                Entry(units.percent(row.fastv_saved), order=row.fastv_saved),
                entries.NOTHING if factor is None else Entry(units.factor(factor.value), order=factor.value),
                entries.NOTHING if factor is None else Entry(units.percent(factor.fastv_saved)),
                Entry(units.percent(1 - row.counted_macs / row.dense_counted_macs)),
            ]
        )
    with_gamma = (row.gammas for row in (cell.efficiency for cell in cells) if row.gammas and row.formula_totals)
    assumed = next((f", γ = {units.plain(gammas.assumed)}" for gammas in with_gamma), "")
    columns = ("", "tokens kept", f"Saved{assumed}", "overhead factor", "Saved, with it", "Saved, counted")
    first = cells[0]
    dense = f"{len(first.layers)} · f({first.stages[0].tokens_before if first.stages else 'V0'})"
    return Table(f"Saved = 1 − F_total / ({dense}), by the paper's formula; and by count", columns, rows)


def _factors(cells: Sequence[PrefillTimes]) -> list[str]:
    """The formula's γ with what it means, and the overhead factor of the method that ran at each retention."""
    counted = [(cell, total) for cell in cells if (total := cell.efficiency.with_factor("counted")) is not None]
    if not counted:
        return [f"{cells[0].method} has no proxy loss, so the paper's formula has no overhead for it."]
    assumed = units.plain(next(cell.efficiency.gammas.assumed for cell in cells if cell.efficiency.gammas is not None))
    parts = listed(
        [f"{units.factor(total.value)} at {units.percent(cell.retention.realised)}" for cell, total in counted]
    )
    by_count = f"The formula takes γ = {assumed}. By count the overhead factor of {counted[0][0].method} is {parts}."
    return [by_count, OF_GAMMA]


def _longest(cells: Sequence[PrefillTimes]) -> PrefillTimes:
    """The cell with the most samples of the dense prefill. Cells share these samples while both are measured."""
    return max(cells, key=lambda cell: cell.totals.dense_prefill_ms.samples)


def _head(cell: PrefillTimes) -> Entry:
    reached = cell.retention.realised
    budgets = f"keeps {_listed(cell.budgets)} tokens after layers {_listed(cell.stage_layers)}" if cell.budgets else ""
    return Entry(units.percent(reached), title=budgets, order=reached)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _interval(time: Milliseconds | None) -> Entry:
    """A time with its interval, without the unit, which the caption has."""
    if time is None:
        return entries.NOTHING
    value, low, high = (units.milliseconds(one).removesuffix(" ms") for one in (time.value, *time.ci95))
    return Entry(value, note=f"[{low}, {high}]", order=time.value)
