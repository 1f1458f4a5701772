"""The parts that the reports of all grids share: heading, reminders, pages, and the table of all cells."""

from collections.abc import Iterable, Sequence
from typing import Any

from trio_profile import units
from trio_profile.judge.pairs import json_with_pairs
from trio_profile.kinds.grid.document import GridDocument
from trio_profile.kinds.grid.tokens import tokens_page
from trio_profile.quantities.quantity import over_dense
from trio_profile.records.schema import Cell
from trio_profile.report import doubts
from trio_profile.report.blocks import Block, Page, Report, Sentences
from trio_profile.report.definitions import numbers_page
from trio_profile.report.page import notes, pixel_facts, study_page
from trio_profile.report.table import grid, table
from trio_profile.text import listed


def report_of(document: Any, subject: str, pages: Sequence[Page]) -> Report:
    """The report of a grid: its pages under a heading that names the model, the device and the input.

    document: a SweepDocument, a Comparison or an Ablation. The pages of tokens, doubts and environment follow.
    """
    study, dense = document.study, document.dense
    facts = [document.environment.device_name, study.dtype, f"{study.attention} attention", f"batch {study.batch}"]
    facts += pixel_facts(study)
    if dense is not None:
        facts += [f"{dense.visual_tokens} visual + {dense.text_tokens} text tokens", f"{dense.num_layers} layers"]
    tokens = tokens_page(document)
    about = doubts.page(document.doubts, finished_cells(document.summaries), document.pairs)
    last = [*([tokens] if tokens else []), about, study_page(document)]
    return Report(
        subject=subject,
        model=study.model,
        facts=facts,
        pages=[*(page for page in pages if page.blocks or page.id == "answers"), *last, numbers_page()],
        data=json_with_pairs(document),
    )


def finished_cells(summaries: Iterable[Any]) -> list[Cell]:
    """The finished cells, as records name them."""
    return [summary.cell for summary in summaries if summary.status == "done"]


def unfinished(summaries: Iterable[Any]) -> list[str]:
    """The cells that failed or were refused, each reason once."""
    names: dict[str, list[str]] = {}
    for summary in summaries:
        if summary.status != "done":
            reason = f"{summary.status}: {summary.reason or 'no reason was recorded'}"
            names.setdefault(reason, []).append(f"{summary.cell.variant} at {units.percent(summary.nominal_retention)}")
    return [f"{listed(cells)} {reason}." for reason, cells in names.items()]


def reminders(document: Any, *lines: str) -> list[Block]:
    """The last blocks of a verdict: what weakens the findings, and missing cells. Empty without any.

    document: as in `report_of`. lines: the first ones.
    """
    cells = document.summaries
    if missing := dict.fromkeys(cell.cell.variant for cell in cells if cell.status != "done"):
        lines += (f"Some cells failed or were refused, and have no numbers: {listed([*missing])}.",)
    lines += tuple(notes((cell.cell.variant, cell.notes) for cell in cells))
    if document.doubts:
        lines += (doubts.summary(document.doubts, finished_cells(cells)),)
    blocks = [
        Sentences("Keep in mind", lines, tone="doubt"),
        Sentences("Cells without numbers", unfinished(cells), detail=True),
    ]
    return [block for block in blocks if block.lines]


# The table of all cells for a paper


def all_cells(document: Any) -> list[Page]:
    """The page with a table of all finished cells, whose caption says the conventions. Empty for another document."""
    if not isinstance(document, GridDocument):
        return []
    counts = [over_dense("MACs", "counted_macs", digits=1), over_dense("f(n)", "fastv_macs", digits=1)]
    counts.append(over_dense("KV", "kv_bytes", "bytes", digits=1))
    columns = ["prefill", "total", *counts, "right [95 %]", "points lost"]
    cells = table(grid(document, document.summaries), _caption(document), columns)
    return [Page("all-cells", "Table of all cells", "", [cells])]


def _caption(document: GridDocument) -> str:
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
        questions = units.number_of(dense.accuracy.samples, "question")
        parts.append(
            f"Right: share of {questions} answered right by the rule {study.match}, dense {right}; points lost are "
            "paired by question."
        )
    return " ".join([*parts, "Brackets: 95 % intervals.", *unfinished(document.summaries)])
