"""The page of the kept tokens: the picture, which of its tokens each method keeps, and with which scores."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.judge.front import CONTROL
from trio_profile.kinds.grid.document import CellTokens, GridDocument, TokenMaps
from trio_profile.records.schema import StageTokens
from trio_profile.report.blocks import DrawnStage, DrawnTokens, Grid, Page, Tokens

MOST_SHOWN = 4
"""Methods that are drawn side by side."""
_HOW = (
    "The picture of the study's input, or of its first question if the input is noise. Kept tokens are bright, and all "
    "others are dimmed. A stage works with the tokens that the stages before it kept. With scores, each stage has a "
    "scale of its own: its colours compare tokens of one method at one stage, not methods. One picture shows what a "
    "method does, and not how well it answers."
)


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
    has_scores = stage.low is not None and stage.high is not None
    return DrawnStage(
        layer=stage.layer,
        text=f"kept {units.exact(int(kept.sum()))} of {units.exact(count)} {_after(stage.layer)}",
        kept=kept.tobytes(),
        scores=stage.scores if has_scores else b"",
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
