"""The page of the kept tokens: the picture, which of its tokens each method keeps, and with which scores."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.analysis.ablate import Ablation
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.grid import CellTokens, TokenMaps
from trio_profile.analysis.recommendation import CONTROL
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings.blocks import Block, DrawnStage, DrawnTokens, Grid, Page, Tokens
from trio_profile.records.schema import Cell, StageTokens

MOST_SHOWN = 4
"""Methods that are drawn side by side."""
_HOW = (
    "The picture of the study's input, or of its first question if the input is noise. Kept tokens are bright, and all "
    "others are dimmed. A stage works with the tokens that the stages before it kept. With scores, each stage has a "
    "scale of its own: its colours compare tokens of one method at one stage, not methods. One picture shows what a "
    "method does, and not how well it answers."
)


def tokens_page(document: SweepDocument | Comparison | Ablation) -> Page | None:
    """The kept tokens of each method on the study's picture. None for a study that keeps no picture, as old ones."""
    found = document.tokens
    if found is None:
        return None
    blocks: list[Block] = []
    if found.cells:
        shown = _shown(document, found)
        maps = [_token_map(one) for one in found.cells]
        pick = getattr(getattr(document, "recommendation", None), "pick", None)
        blocks = [_block(found, maps, shown, None if pick is None else pick.retention)]
    empty = found.picture.reason or "no finished cell has kept tokens"
    folded = "Show which tokens stay on the picture"
    return Page("tokens", "Tokens", _HOW, blocks, empty=f"No tokens can be drawn: {empty}.", folded=folded)


def _block(found: TokenMaps, maps: Sequence[DrawnTokens], shown: Sequence[str], at: float | None) -> Tokens:
    picture = found.picture
    methods = len(dict.fromkeys(one.method for one in maps))
    retentions = len({one.retention for one in maps})
    parts = [f"There is no picture: {picture.reason}."] if not picture.image else []
    parts += [f"The question, as the model reads it: {picture.prompt}"] if picture.prompt else []
    return Tokens(
        id="tokens",
        caption="Tokens that stay",
        label=f"A picture of {units.number_of(picture.visual_tokens, 'token')}, with those that stay: "
        f"{units.number_of(methods, 'method')} at {units.number_of(retentions, 'retention')}. The numbers follow as "
        "text.",
        count=picture.visual_tokens,
        grids=[Grid(grid.name, grid.rows, grid.columns, grid.first, grid.newline) for grid in picture.grids],
        maps=maps,
        shown=shown,
        at=at,
        note=" ".join(parts),
        picture=picture.image,
        frames=picture.frames,
        detail=True,
    )


def _token_map(found: CellTokens) -> DrawnTokens:
    """The tokens that one cell keeps, as plain data."""
    count, asked = found.kept.visual_tokens, found.cell.retention
    stages = [_stage(stage, count) for stage in found.kept.stages]
    counts = [f"{units.exact(sum(stage.kept))} {_after(stage.layer)}" for stage in stages]
    kept = f"kept {', '.join(counts)}, of {units.number_of(count, 'token')}" if counts else "kept all tokens"
    return DrawnTokens(
        method=found.cell.variant,
        retention=asked,
        where=units.percent(asked),
        text=f"{found.cell.variant} at {units.percent(found.realised or asked)}: {kept}{_merging(stages)}.",
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
    """What became of the tokens that merged, as the end of a sentence. Empty if none did."""
    merging = [stage for stage in stages if stage.merges]
    if not merging:
        return ""
    if not all(stage.merged_into for stage in merging):
        return "; others merged into them, and into which ones is not recorded"
    numbers = (sum(1 for number, into in enumerate(stage.merged_into) if into not in (-1, number)) for stage in merging)
    return f"; {' and '.join(map(units.exact, numbers))} merged into them"


def _shown(document: SweepDocument | Comparison | Ablation, found: TokenMaps) -> list[str]:
    """The methods that are drawn at first: the probes of an ablation; otherwise the reference and those that follow."""
    # A method that cannot reach the lowest retention, which is drawn first, comes later.
    by_retention = sorted(found.cells, key=lambda one: one.cell.retention)
    names = list(dict.fromkeys(one.cell.variant for one in by_retention))
    first: list[str] = []
    if isinstance(document, Ablation):
        method = document.study.methods[0]
        probes = document.study.ablations.get("probe", {}).values()
        first = [Cell(method=method, retention=0, options=options).variant for options in probes]
    elif isinstance(document, Comparison):
        controls = {row.method for row in document.rows if row.remark == CONTROL}
        first = [document.reference, *(name for name in names if name not in controls)]
    return [name for name in dict.fromkeys((*first, *names)) if name in names][:MOST_SHOWN]
