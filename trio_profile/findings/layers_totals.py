"""The paper's efficiency table: the times of the parts of a prefill, added up, and what the formula saves."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.analysis.layers import Efficiency, LayersDocument, PrefillTimes
from trio_profile.findings import budget_notes
from trio_profile.findings.blocks import Block, Entry, Page, Sentences, Table
from trio_profile.findings.cells import notes
from trio_profile.findings.overhead_factor import OF_GAMMA
from trio_profile.quantities import entries
from trio_profile.records.estimate import Milliseconds
from trio_profile.text import listed

_TOTALS = {"Forward": "forward", "Proxy loss": "proxy_loss", "Backward": "backward", "Selection": "selection"}
"""The columns of times, by their heading in the paper. The paper has no column of the selection."""
_WITHIN = {"probed layer's forward": "proxy_forward", "NMS": "nms", "compaction": "compaction"}
"""What the paper's columns leave out."""


def totals_page(document: LayersDocument) -> Page:
    """The efficiency table of all retentions, and what the formula saves with γ and with the counted factor."""
    rows = [(cell, cell.efficiency) for cell in document.cells if cell.efficiency is not None]
    blocks: list[Block] = []
    if rows:
        blocks = [
            _paper_table(document, rows),
            _intervals_table(rows),
            _speedup_table(rows),
            _saved_table(rows),
            Sentences("", _factors(rows)),
            _within_table(rows),
        ]
    reminders = notes((cell.method, cell.notes) for cell in document.cells)
    reminders += budget_notes.sentences(document.clamped_above, document.idle_stages)
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
        empty="This document is of an earlier version, which did not add up the parts.",
    )


Rows = Sequence[tuple[PrefillTimes, Efficiency]]


def _paper_table(document: LayersDocument, rows: Rows) -> Table:
    """The paper's columns, and the selection. The dense model is the first row."""
    dense_cell, dense = _longest(rows)
    first = [
        Entry("dense"),
        entries.macs(dense.dense_fastv_macs),
        entries.milliseconds(dense.dense_total_ms),
        entries.milliseconds(dense_cell.totals.dense_prefill_ms),
        entries.num_bytes(dense.dense_kv_bytes),
        entries.milliseconds(dense.dense_forward_ms),
        *[entries.NOTHING] * (len(_TOTALS) - 1),
    ]
    table = [
        [
            _head(cell),
            entries.macs(row.fastv_macs),
            entries.milliseconds(row.total_ms),
            entries.milliseconds(cell.totals.prefill_ms),
            entries.num_bytes(row.kv_bytes),
            *(entries.milliseconds(_time(row, name)) for name in _TOTALS.values()),
        ]
        for cell, row in rows
    ]
    tokens = units.number_of(document.study.new_tokens, "new token")
    caption = f"{document.method}: the paper's columns, and Selection. Total is a prefill with {tokens}"
    return Table(caption, ("", "MACs, f(n)", "Total", "Prefill", "KV", *_TOTALS), [first, *table])


def _intervals_table(rows: Rows) -> Table:
    """The totals of the parts with their 95 % intervals, in milliseconds."""
    dense = [Entry("dense"), _within(_longest(rows)[1].dense_forward_ms), *[entries.NOTHING] * (len(_TOTALS) - 1)]
    table = [[_head(cell), *(_within(_time(row, name)) for name in _TOTALS.values())] for cell, row in rows]
    return Table("The same totals with their 95 % intervals, in milliseconds", ("", *_TOTALS), [dense, *table])


def _speedup_table(rows: Rows) -> Table:
    """The speed-up of the prefill and of the whole generation, and the share of the selection."""
    table = [
        [
            _head(cell),
            entries.speedup(cell.totals.prefill_speedup),
            entries.speedup(row.total_speedup),
            entries.NOTHING
            if row.selection_ms is None
            else Entry(units.percent(row.selection_ms.value / cell.totals.prefill_ms.value, 0)),
        ]
        for cell, row in rows
    ]
    columns = ("", "prefill speed-up", "total speed-up", "selection, of the prefill")
    return Table("Speed-up: the median of paired ratios, dense over pruned", columns, table)


def _saved_table(rows: Rows) -> Table:
    """Saved of the paper with γ, and with the counted overhead factor, beside the budgets and the counted work."""
    table: list[list[Entry]] = []
    for cell, row in rows:
        factor = row.with_factor("counted")
        table.append(
            [
                _head(cell),
                Entry(", ".join(map(str, cell.budgets)) or "–", title=f"after layers {_listed(cell.stage_layers)}"),
                Entry(units.percent(row.fastv_saved), order=row.fastv_saved),
                entries.NOTHING if factor is None else Entry(units.factor(factor.value), order=factor.value),
                entries.NOTHING if factor is None else Entry(units.percent(factor.fastv_saved)),
                Entry(units.percent(1 - row.counted_macs / row.dense_counted_macs)),
            ]
        )
    assumed = next(
        (f", γ = {units.plain(row.gammas.assumed)}" for _, row in rows if row.gammas and row.formula_totals), ""
    )
    columns = ("", "tokens kept", f"Saved{assumed}", "overhead factor", "Saved, with it", "Saved, counted")
    layers, tokens = len(rows[0][0].layers), _visual_tokens(rows[0][0])
    dense = f"{layers} · f({tokens})"
    return Table(f"Saved = 1 − F_total / ({dense}), by the paper's formula; and by count", columns, table)


def _within_table(rows: Rows) -> Table:
    """The parts of the stages that the paper's columns do not name, with intervals."""
    table = [[_head(cell), *(_within(_time(row, name)) for name in _WITHIN.values())] for cell, row in rows]
    caption = "Other parts of the stages, with their 95 % intervals, in milliseconds"
    return Table(caption, ("", *_WITHIN), table, detail=True)


def _factors(rows: Rows) -> list[str]:
    """The formula's γ with what it means, and the overhead factor of the method that ran at each retention."""
    counted = [(cell, total) for cell, row in rows if (total := row.with_factor("counted")) is not None]
    if not counted:
        return [f"{rows[0][0].method} has no proxy loss, so the paper's formula has no overhead for it."]
    assumed = units.plain(next(row.gammas.assumed for _, row in rows if row.gammas is not None))
    parts = listed(
        [f"{units.factor(total.value)} at {units.percent(cell.retention.realised)}" for cell, total in counted]
    )
    found = f"The formula takes γ = {assumed}. By count the overhead factor of {counted[0][0].method} is {parts}."
    return [found, OF_GAMMA]


def _longest(rows: Rows) -> tuple[PrefillTimes, Efficiency]:
    """The cell with the most samples of the dense prefill. Cells share these samples while both are measured."""
    return max(rows, key=lambda pair: pair[0].totals.dense_prefill_ms.samples)


def _head(cell: PrefillTimes) -> Entry:
    reached = cell.retention.realised
    budgets = f"keeps {_listed(cell.budgets)} tokens after layers {_listed(cell.stage_layers)}" if cell.budgets else ""
    return Entry(units.percent(reached), title=budgets, order=reached)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _visual_tokens(cell: PrefillTimes) -> int | str:
    """V0, the visual tokens that the first stage looks at."""
    return cell.stages[0].tokens_before if cell.stages else "V0"


def _time(row: Efficiency, name: str) -> Milliseconds | None:
    return getattr(row, f"{name}_ms")


def _within(found: Milliseconds | None) -> Entry:
    """A time with its interval, without the unit, which the caption has."""
    if found is None:
        return entries.NOTHING
    value, low, high = (units.milliseconds(one).removesuffix(" ms") for one in (found.value, *found.ci95))
    return Entry(value, note=f"[{low}, {high}]", order=found.value)
