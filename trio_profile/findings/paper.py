"""The table of all cells for a paper: values with their intervals, and a caption that says the conventions."""

from typing import Any

from trio_profile import units
from trio_profile.analysis.ablate import Ablation
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.layers import LayersDocument
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings.blocks import Page, Table
from trio_profile.findings.layers_totals import totals_page
from trio_profile.findings.study_page import pixel_facts
from trio_profile.findings.table import grid
from trio_profile.findings.table import table as table_of
from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column

_COLUMNS = (
    "prefill",
    "total",
    "counted within",
    Column("f(n)", lambda cell, dense: entries.ratio(cell.fastv_macs, dense and dense.fastv_macs)),
    Column("KV", lambda cell, dense: entries.ratio(cell.kv_bytes, dense and dense.kv_bytes, unit="bytes")),
    "right within",
    "to dense",
)


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
    return table_of(grid(document, document.summaries), _caption(document), _COLUMNS, ["method", "reached"])


def _caption(document: SweepDocument | Comparison | Ablation) -> str:
    study, where, dense = document.study, document.environment, document.dense
    form = [study.dtype, f"{study.attention} attention", f"batch {study.batch}", *pixel_facts(study)]
    form += [f"{units.exact(dense.visual_tokens)} visual tokens"] if dense is not None else []
    parts = [
        f"{study.model} on {where.device_name} ({', '.join(form)}).",
        "Retention: the share of visual tokens kept, averaged over all decoder layers.",
        "Prefill and total: speed-up over the dense model, the median of paired ratios dense / pruned; total includes "
        f"{units.number_of(study.new_tokens, 'new token')}.",
        "MACs, f(n) and KV: over dense. MACs are counted multiply-adds (1 MAC = 2 FLOPs) of the whole prefill, the "
        "selection included; f(n) is the formula 4nd² + 2n²d + 2ndm on visual tokens with γ = "
        f"{units.plain(study.gamma)}; KV is the bytes of the cache after prefill.",
    ]
    if dense is not None and dense.accuracy is not None:
        right = units.percent_within(dense.accuracy.value, dense.accuracy.ci95)
        asked = units.number_of(dense.accuracy.samples, "question")
        parts.append(f"Right: share of {asked} answered right, dense {right}; to dense is paired by question.")
    return " ".join([*parts, "Brackets: 95 % intervals."])
