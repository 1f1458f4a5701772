"""The kept tokens of one method as lines of characters: two rows of tokens in one line."""

from collections.abc import Sequence
from itertools import zip_longest

from trio_profile.findings.blocks import DrawnStage, Grid, Tokens

_HALVES = {(False, False): "·", (True, False): "▀", (False, True): "▄", (True, True): "█"}
_GAP = "   "


def character_map(block: Tokens, width: int) -> list[str]:
    """The stages of the first shown method at its lowest retention, side by side as far as `width` holds them.

    It is empty if not even one stage fits. Of a picture in several grids, the last one is drawn.
    """
    maps = sorted((one for one in block.maps if one.method in block.shown[:1]), key=lambda one: one.retention)
    if not maps or not block.grids or not maps[0].stages:
        return []
    first, grid = maps[0], block.grids[-1]
    most = (width + len(_GAP)) // (grid.columns + len(_GAP))
    stages = first.stages[-most:] if most else []
    if not stages:
        return []
    parts = [_headed(stage, grid) for stage in stages]
    rows = zip_longest(*parts, fillvalue="")
    lines = [_GAP.join(part.ljust(grid.columns) for part in row).rstrip() for row in rows]
    return [f"{first.method} at {first.where}, a mark for each token that stays:", *lines]


def _headed(stage: DrawnStage, grid: Grid) -> list[str]:
    """A stage below its layer."""
    name = f"after layer {stage.layer}" if stage.layer else "at first"
    return [name[: grid.columns], *_lines(stage.kept, grid)]


def _lines(kept: Sequence[int], grid: Grid) -> list[str]:
    def is_kept(row: int, column: int) -> bool:
        number = grid.first + row * (grid.columns + grid.newline) + column
        return row < grid.rows and bool(kept[number])

    return [
        "".join(_HALVES[is_kept(row, column), is_kept(row + 1, column)] for column in range(grid.columns))
        for row in range(0, grid.rows, 2)
    ]
