"""The table of all cells for a paper: values with their intervals, and a caption that says the conventions."""

from collections.abc import Sequence
from typing import Any

from trio_profile import units
from trio_profile.analysis.ablate import Ablation, Row
from trio_profile.analysis.cells import CellSummary, DenseSummary
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.layers import LayersDocument
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import doubts
from trio_profile.findings.blocks import Entry, Page, Table
from trio_profile.findings.layers_totals import totals_page
from trio_profile.findings.study_page import pixel_facts
from trio_profile.findings.table import unmeasured
from trio_profile.quantities import entries
from trio_profile.records.estimate import Measured
from trio_profile.records.schema import Cell

_COLUMNS = ("Method", "Retention", "Prefill", "Total", "MACs", "f(n)", "KV")
_ANSWERS = ("Right", "Points to dense")


def page(document: Any, *, alone: bool = False) -> Page | None:
    """The page with this table; None for a document without cells.

    alone: whether it stands without the report. Then `layers` has its efficiency table, with which its report begins.
    """
    if alone and isinstance(document, LayersDocument):
        return totals_page(document)
    if not isinstance(document, SweepDocument | Comparison | Ablation):
        return None
    return Page("all-cells", "Table of all cells", "", [table(document)])


def table(document: SweepDocument | Comparison | Ablation) -> Table:
    """All cells of a study, measured or not."""
    answers = document.dense is not None and document.dense.accuracy is not None
    found = [(name, cell, _record(cell)) for name, cell in _cells(document)]
    marked = doubts.marks(document.doubts, [record for _, cell, record in found if cell.status == "done"])
    rows = [
        _row(name, cell, document.dense, marked.get(record.id, ""), answers=answers) for name, cell, record in found
    ]
    columns = (*_COLUMNS, *(_ANSWERS if answers else ()))
    return Table(_caption(document, answers=answers), columns, rows, keys=2)


def _cells(document: SweepDocument | Comparison | Ablation) -> Sequence[tuple[str, CellSummary]]:
    if isinstance(document, Ablation):
        return [(f"{row.method}, {group.name} {row.variant}", row) for group in document.groups for row in group.rows]
    return [(cell.method, cell) for cell in (document.rows if isinstance(document, Comparison) else document.cells)]


def _record(cell: CellSummary) -> Cell:
    """A cell as records name it."""
    options = cell.options if isinstance(cell, Row) else {}
    return Cell(method=cell.method, retention=cell.nominal_retention, options=options)


def _caption(document: SweepDocument | Comparison | Ablation, *, answers: bool) -> str:
    study, where, dense = document.study, document.environment, document.dense
    form = [study.dtype, f"{study.attention} attention", f"batch {study.batch}"]
    form += pixel_facts(study)
    form += [f"{units.exact(dense.visual_tokens)} visual tokens"] if dense is not None else []
    parts = [
        f"{study.model} on {where.device_name} ({', '.join(form)}).",
        "Retention: the share of visual tokens kept, averaged over all decoder layers.",
        "Prefill and Total: speed-up over the dense model, the median of paired ratios dense / pruned; Total includes "
        f"{units.number_of(study.new_tokens, 'new token')}.",
        "MACs, f(n) and KV: over dense. MACs are counted multiply-adds (1 MAC = 2 FLOPs) of the whole prefill, the "
        "selection included; f(n) is the formula 4nd² + 2n²d + 2ndm on visual tokens with γ = "
        f"{units.plain(study.gamma)}; KV is the bytes of the cache after prefill.",
    ]
    if answers and dense is not None and dense.accuracy is not None:
        right = units.percent_within(dense.accuracy.value, dense.accuracy.ci95)
        asked = units.number_of(dense.accuracy.samples, "question")
        parts.append(f"Right: share of {asked} answered right, dense {right}; the difference is paired by question.")
    return " ".join([*parts, "Brackets: 95 % intervals."])


def _row(name: str, cell: CellSummary, dense: DenseSummary | None, doubt: str, *, answers: bool) -> list[Entry]:
    """One cell. doubt: why it is doubted; empty if it is not."""
    head = [Entry(name), Entry(units.percent(cell.realised), doubt=doubt, order=cell.realised)]
    if cell.status != "done":
        return [*head, unmeasured(cell, 5 + 2 * answers)]
    found = [
        *head,
        _speedup(cell.prefill_speedup),
        _speedup(cell.total_speedup),
        entries.ratio(cell.counted_macs, dense.counted_macs if dense else None),
        entries.ratio(cell.fastv_macs, dense.fastv_macs if dense else None),
        entries.ratio(cell.kv_bytes, dense.kv_bytes if dense else None),
    ]
    return [*found, entries.share(cell.accuracy), entries.points(cell.accuracy_difference)] if answers else found


def _speedup(found: Measured | None) -> Entry:
    return entries.NOTHING if found is None else Entry(units.times_within(found.value, found.ci95))
