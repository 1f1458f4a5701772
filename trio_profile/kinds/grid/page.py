"""The parts that the reports of all grids share: heading, reminders, the kept tokens, and the table of all cells."""

from collections.abc import Iterable, Sequence
from typing import Any

from trio_profile import units
from trio_profile.judge.controls import CONTROL
from trio_profile.judge.pairs import json_with_pairs
from trio_profile.kinds.grid.document import CellTokens, GridDocument, TokenMaps
from trio_profile.quantities.quantity import over_dense
from trio_profile.records.schema import Cell, StageTokens
from trio_profile.report import doubts
from trio_profile.report.blocks import Block, DrawnStage, DrawnTokens, Grid, Page, Report, Sentences, Tokens
from trio_profile.report.definitions import numbers_page
from trio_profile.report.page import measured_facts, notes, study_page, unfinished
from trio_profile.report.table import grid, table
from trio_profile.text import listed

MOST_PAIRS = 5000
"""The page of a study with more raw pairs leaves them to `export --pairs`."""
MOST_SHOWN = 4
"""Methods whose tokens are drawn side by side."""
_HOW = (
    "The picture of the study's input, or of its first question if the input is noise. Kept tokens are bright, and all "
    "others are dimmed. A stage works with the tokens that the stages before it kept. With scores, each stage has a "
    "scale of its own: its colours compare tokens of one method at one stage, not methods. One picture shows what a "
    "method does, and not how well it answers."
)


def report_of(document: Any, subject: str, pages: Sequence[Page]) -> Report:
    """The report of a grid: its pages under a heading that names the model, the device and the input.

    document: a SweepDocument, a Comparison or an Ablation. The pages of tokens, doubts and environment follow.
    """
    dense, facts = document.dense, measured_facts(document)
    if dense is not None:
        facts += [f"{dense.visual_tokens} visual + {dense.text_tokens} text tokens", f"{dense.num_layers} layers"]
    tokens = tokens_page(document)
    about = doubts.page(document.doubts, finished_cells(document.summaries))
    refused = {summary.cell.id for summary in document.summaries if summary.status == "refused"}
    planned = {cell.id for cell in document.study.cells()} - refused
    left = planned - {summary.cell.id for summary in document.summaries}
    has_pairs = sum(len(cell.session) for cell in document.pairs) <= MOST_PAIRS
    last = [*([tokens] if tokens else []), about, study_page(document)]
    return Report(
        subject=subject,
        model=document.study.model,
        facts=facts,
        pages=[*(page for page in pages if page.blocks), *last, numbers_page()],
        data=json_with_pairs(document) if has_pairs else document.model_dump_json(),
        banner=unfinished(len(left), len(planned), "cell"),
    )


def finished_cells(summaries: Iterable[Any]) -> list[Cell]:
    """The finished cells, as records name them."""
    return [summary.cell for summary in summaries if summary.status == "done"]


def without_numbers(summaries: Iterable[Any]) -> list[str]:
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
        Sentences("Cells without numbers", without_numbers(cells), detail=True),
    ]
    return [block for block in blocks if block.lines]


# --- the table of all cells for a paper -------------------------------------------------------------------------------


def all_cells(document: Any) -> Page | None:
    """The page with a table of all finished cells, whose caption says the conventions. None for another document."""
    if not isinstance(document, GridDocument):
        return None
    counts = [over_dense("MACs", "counted_macs", digits=1), over_dense("f(n)", "fastv_macs", digits=1)]
    counts.append(over_dense("KV", "kv_bytes", "bytes", digits=1))
    columns = ["prefill", "total", *counts, "right [95 %]", "points lost"]
    cells = table(grid(document, document.summaries), _caption(document), columns)
    return Page("all-cells", "Table of all cells", "", [cells])


def _caption(document: GridDocument) -> str:
    study, dense = document.study, document.dense
    device, *form = measured_facts(document)
    form += [f"{units.exact(dense.visual_tokens)} visual tokens"] if dense is not None else []
    parts = [
        f"{study.model} on {device} ({', '.join(form)}).",
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
    return " ".join([*parts, "Brackets: 95 % intervals.", *without_numbers(document.summaries)])


# --- the kept tokens: the picture, and which of its tokens each method keeps ------------------------------------------


def tokens_page(document: GridDocument) -> Page | None:
    """The kept tokens of each method on the study's picture. None for a study that keeps no picture, as old ones."""
    maps = document.tokens
    if maps is None:
        return None
    empty = maps.picture.reason or "no finished cell has kept tokens"
    return Page(
        "tokens",
        "Tokens",
        _HOW,
        [_block(document, maps)] if maps.cells else [],
        empty=f"No tokens can be drawn: {empty}.",
        folded="Show which tokens stay on the picture",
    )


def _block(document: GridDocument, maps: TokenMaps) -> Tokens:
    picture, cells = maps.picture, [tokens.cell for tokens in maps.cells]
    methods = units.number_of(len({cell.variant for cell in cells}), "method")
    retentions = units.number_of(len({cell.retention for cell in cells}), "retention")
    notes = [] if picture.image else [f"There is no picture: {picture.reason}."]
    notes += [f"The question, as the model reads it: {picture.prompt}"] if picture.prompt else []
    pick = getattr(document, "pick", None)
    return Tokens(
        id="tokens",
        caption="Tokens that stay",
        label=f"A picture of {units.number_of(picture.visual_tokens, 'token')}, with those that stay: {methods} at "
        f"{retentions}. The numbers follow as text.",
        count=picture.visual_tokens,
        grids=[Grid(grid.name, grid.rows, grid.columns, grid.first, grid.newline) for grid in picture.grids],
        maps=[_token_map(tokens) for tokens in maps.cells],
        methods=_first_methods(document, maps),
        at=None if pick is None else pick.retention,
        note=" ".join(notes),
        picture=picture.image,
        frames=picture.frames,
        detail=True,
    )


def _token_map(tokens: CellTokens) -> DrawnTokens:
    """The tokens that one cell keeps, as plain data."""
    cell, count = tokens.cell, tokens.kept.visual_tokens
    stages = [_stage(stage, count) for stage in tokens.kept.stages]
    counts = [f"{units.exact(sum(stage.kept))} {_after(stage.layer)}" for stage in stages]
    kept = f"kept {', '.join(counts)}, of {units.number_of(count, 'token')}" if counts else "kept all tokens"
    return DrawnTokens(
        method=cell.variant,
        retention=cell.retention,
        where=units.percent(cell.retention),
        text=f"{cell.variant} at {units.percent(tokens.realised or cell.retention)}: {kept}{_merging(stages)}.",
        stages=stages,
    )


def _stage(stage: StageTokens, count: int) -> DrawnStage:
    kept = stage.mask(count)
    destinations = stage.destinations()
    return DrawnStage(
        layer=stage.layer,
        text=f"kept {units.exact(int(kept.sum()))} of {units.exact(count)} {_after(stage.layer)}",
        kept=kept.tobytes(),
        scores=stage.scores,
        low=units.short(stage.low) if stage.low is not None else "",
        high=units.short(stage.high) if stage.high is not None else "",
        merges=stage.merges,
        merged_into=() if destinations is None else tuple(destinations.tolist()),
    )


def _after(layer: int) -> str:
    return f"after layer {layer}" if layer else "before the first layer"


def _merging(stages: Sequence[DrawnStage]) -> str:
    """The end of a sentence on the tokens that merged. Empty if none did."""
    merging = [stage for stage in stages if stage.merges]
    if not merging:
        return ""
    if not all(stage.merged_into for stage in merging):
        return "; others merged into them, and into which ones is not recorded"
    numbers = (sum(1 for number, into in enumerate(stage.merged_into) if into not in (-1, number)) for stage in merging)
    return f"; {' and '.join(map(units.exact, numbers))} merged into them"


def _first_methods(document: GridDocument, maps: TokenMaps) -> list[str]:
    """The methods that are drawn at first: those of the lowest retention. A comparison begins with its reference."""
    # A method that cannot reach the lowest retention, which is drawn first, comes later.
    by_retention = sorted(maps.cells, key=lambda tokens: tokens.cell.retention)
    names = list(dict.fromkeys(tokens.cell.variant for tokens in by_retention))
    if (reference := getattr(document, "reference", None)) is None:
        return names[:MOST_SHOWN]
    controls = {cell.method for cell in document.summaries if cell.remark == CONTROL}
    return sorted(names, key=lambda name: (name != reference, name in controls))[:MOST_SHOWN]
