"""The kept tokens as one picture file, for a paper: a row for each method, and a column for each stage."""

import io
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from math import isclose

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from trio_profile import units
from trio_profile.errors import StudyError
from trio_profile.report.blocks import DrawnStage, DrawnTokens, Grid, Tokens
from trio_profile.text import first_line, listed

WIDTH = 480
"""Pixels of one drawing; a grid with another number of columns is a little narrower."""
MARGIN, HEAD, LINE = 24, 36, 30
"""Pixels around the drawings, of a method's name, and of a line below a drawing."""
PAPER, CARD, INK = (255, 255, 255), (246, 247, 248), (28, 32, 38)
_LOST, _MERGED, _HEAT, _KEPT = 0.85, 0.62, 0.85, 0.45
"""How much of a token is covered: if it is lost, if it merged, by its score, and if it is kept and has no picture."""
_HIGHEST, _NO_SCORE = 254, 255
_TALLEST = 4
"""Height over width of a drawing, at most."""
_LEAST_FOR_OUTLINES = 6
"""Pixels of a token, at least, if lines are drawn between kept and other tokens."""
_VIRIDIS = (
    "440154 482475 414487 355f8d 2a788e 21918c 22a884 44bf70 7ad151 bddf26 fde725"  # matplotlib, CC0; as in tokens.js
)
_LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")
_SPELLED = {ord("×"): "x", ord("−"): "-", ord("\N{NARROW NO-BREAK SPACE}"): " ", ord("\N{NO-BREAK SPACE}"): " "}
"""What stands for a character that the font lacks."""

Pixels = NDArray[np.float64]


@dataclass(frozen=True)
class _Row:
    """Drawings side by side, each with a line below it; None leaves a place free. name: above them."""

    name: str
    drawings: Sequence[tuple[Image.Image, str] | None]

    @property
    def height(self) -> int:
        """In pixels, with its texts."""
        return (HEAD if self.name else 0) + max(one[0].height for one in self.drawings if one) + LINE


def token_sheet(block: Tokens, methods: Sequence[str] = (), retention: float | None = None) -> bytes:
    """The content of a PNG file. A method with scores has a second row, in which they are a heat map.

    methods: their names; empty for those that the page shows at first.
    retention: as the study asked for it; None for the lowest one.
    Raises StudyError for a method or a retention that was not measured, and for a picture that cannot be read.
    """
    picture = picture_of(block)
    rows: list[_Row] = []
    for one in _chosen(block, methods, retention):
        stages = one.stages or [DrawnStage(0, f"kept all {units.exact(block.count)}", b"\1" * block.count)]
        drawings = [(drawn_stage(block, stage, picture), stage.text) for stage in stages]
        rows.append(_Row(f"{one.method} at {one.where}", drawings))
        if any(stage.scores for stage in stages):
            heat = [
                (drawn_stage(block, one, picture, scores=True), _scale(one)) if one.scores else None for one in stages
            ]
            rows.append(_Row("", heat))
    file = io.BytesIO()
    _sheet(rows).save(file, format="PNG", optimize=True)
    return file.getvalue()


def drawn_stage(block: Tokens, stage: DrawnStage, picture: Image.Image | None, *, scores: bool = False) -> Image.Image:
    """One stage on the picture, one grid below the other. scores: their heat map, on the picture in grey."""
    parts = [_grid(grid, stage, picture, _shape(block, picture), scores=scores) for grid in block.grids]
    width = max(part.shape[1] for part in parts)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]), (0, 0)), constant_values=255) for part in parts]
    return Image.fromarray(np.rint(np.concatenate(padded)).astype(np.uint8))


# What is drawn


def _chosen(block: Tokens, methods: Sequence[str], retention: float | None) -> list[DrawnTokens]:
    """The maps of the methods at a retention, in the order of the methods. Of methods asked for, none is left out."""
    known = dict.fromkeys(one.method for one in block.maps)
    if unknown := [name for name in methods if name not in known]:
        raise StudyError(f"no tokens of {unknown[0]!r}: choose --method {', '.join(known)}")
    names = dict.fromkeys(methods or block.methods)
    measured: dict[float, dict[str, DrawnTokens]] = {}
    for one in block.maps:
        if one.method in names:
            measured.setdefault(one.retention, {})[one.method] = one
    usable = sorted(share for share, found in measured.items() if not methods or found.keys() == names.keys())
    asked = [share for share in usable if retention is None or isclose(share, retention, abs_tol=1e-9)]
    if not asked:
        at = "all at one retention" if retention is None else f"at {units.plain(retention)}"
        others = f"--retention {', '.join(map(units.plain, usable))}" if usable else "one --method"
        raise StudyError(f"no tokens of {listed(list(names))} {at}: choose {others}")
    return [measured[asked[0]][name] for name in names if name in measured[asked[0]]]


def _scale(stage: DrawnStage) -> str:
    return f"scores: {stage.low} (violet) to {stage.high} (yellow)"


def picture_of(block: Tokens) -> Image.Image | None:
    """The picture of the block, None if it has none. Raises StudyError if it cannot be read."""
    if not block.picture:
        return None
    try:
        return Image.open(io.BytesIO(b64decode(block.picture.partition(",")[2]))).convert("RGB")
    # A damaged file may fail anywhere in its format's reader, with any error.
    except Exception as error:
        raise StudyError(f"the study's picture cannot be read: {first_line(error)}") from error


def _shape(block: Tokens, picture: Image.Image | None) -> float:
    """Height over width of the picture."""
    last = block.grids[-1]
    found = last.rows / last.columns if picture is None else picture.height / picture.width
    return min(found, _TALLEST)


# Pixels


def _grid(grid: Grid, stage: DrawnStage, picture: Image.Image | None, shape: float, *, scores: bool) -> Pixels:
    """[height, width, 3], the tokens of one grid. A newline token stands at the right of its row, off the picture."""
    across = grid.columns + grid.newline
    wide = max(1, WIDTH // grid.columns)
    high = max(1, round(wide * grid.columns * shape / grid.rows))
    numbers = grid.first + np.arange(grid.rows * across).reshape(grid.rows, across)
    on_picture = np.broadcast_to((np.arange(across) < grid.columns) & (picture is not None), numbers.shape)
    colour, cover = _covers(stage, numbers, on_picture, scores=scores)
    base = np.full((grid.rows * high, across * wide, 3), CARD, dtype=float)
    if picture is not None:
        fitted = picture.resize((grid.columns * wide, grid.rows * high), Image.Resampling.BICUBIC)
        base[:, : grid.columns * wide] = np.asarray(fitted.convert("L").convert("RGB") if scores else fitted)
    cover, colour = _enlarged(cover, high, wide)[..., None], _enlarged(colour, high, wide)
    found = (1 - cover) * base + cover * colour
    if min(wide, high) >= _LEAST_FOR_OUTLINES:
        found[_outline(_enlarged(_kept(stage, numbers), high, wide))] = INK
    return found


def _covers(stage: DrawnStage, numbers: NDArray, on_picture: NDArray, *, scores: bool) -> tuple[Pixels, Pixels]:
    """For each token of a grid the colour that covers it, and how much of it is covered."""
    kept = _kept(stage, numbers)
    into = np.asarray(stage.merged_into)[numbers] if stage.merged_into else np.full(numbers.shape, -1)
    cover = np.where(kept, np.where(on_picture, 0, _KEPT), np.where(into >= 0, _MERGED, _LOST))
    colour = np.where(kept[..., None], INK, PAPER).astype(float)
    if scores and stage.scores:
        steps = np.frombuffer(stage.scores, dtype=np.uint8)[numbers]
        known = steps != _NO_SCORE
        cover[known], colour[known] = _HEAT, _heat(steps[known])
    return colour, cover


def _kept(stage: DrawnStage, numbers: NDArray) -> NDArray[np.bool_]:
    return np.frombuffer(stage.kept, dtype=np.uint8)[numbers] == 1


def _heat(steps: NDArray) -> Pixels:
    """The colours of scores from 0 to 254."""
    table = np.array([list(bytes.fromhex(colour)) for colour in _VIRIDIS.split()], dtype=float)
    places = steps / _HIGHEST * (len(table) - 1)
    return np.stack([np.interp(places, np.arange(len(table)), part) for part in table.T], axis=-1)


def _enlarged(values: NDArray, high: int, wide: int) -> NDArray:
    """Each value of a grid as a rectangle of pixels."""
    return values.repeat(high, axis=0).repeat(wide, axis=1)


def _outline(kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pixels of kept tokens at whose side another one begins, or the drawing ends."""
    around = np.pad(kept, 1)
    inner = around[:-2, 1:-1] & around[2:, 1:-1] & around[1:-1, :-2] & around[1:-1, 2:]
    return kept & ~inner


# The sheet


def _sheet(rows: Sequence[_Row]) -> Image.Image:
    """The rows below each other, with their texts. All columns are equally wide."""
    cells = [one for row in rows for one in row.drawings if one]
    step = MARGIN + max(max(drawn.width, _length(text, 16)) for drawn, text in cells)
    width = max(step * max(len(row.drawings) for row in rows), *(MARGIN + _length(row.name, 22) for row in rows))
    sheet = Image.new("RGB", (MARGIN + width, 2 * MARGIN + sum(row.height for row in rows)), PAPER)
    pen, top = ImageDraw.Draw(sheet), MARGIN
    for row in rows:
        pen.text((MARGIN, top), _printable(row.name, 22), fill=INK, font=_font(22))
        upper = top + (HEAD if row.name else 0)
        for left, one in zip(count(MARGIN, step), row.drawings, strict=False):
            if one is not None:
                drawn, text = one
                sheet.paste(drawn, (left, upper))
                pen.text((left, upper + drawn.height + 4), _printable(text, 16), fill=INK, font=_font(16))
        top += row.height
    return sheet


def _length(text: str, size: int) -> int:
    return round(_font(size).getlength(_printable(text, size)))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font that pillow brings."""
    return ImageFont.load_default(size)


def _printable(text: str, size: int) -> str:
    """Text in characters that the font has: `10^-6` for `10⁻⁶`. Any other one becomes its number: `U+4E2D`."""
    plain = _RAISED.sub(lambda found: "^" + found[0].translate(_LOWERED), text).translate(_SPELLED)
    return "".join(char if _is_known(char, size) else f"U+{ord(char):04X}" for char in plain)


@cache
def _is_known(char: str, size: int) -> bool:
    """Whether the font has a character, and does not draw the box of an unknown one."""
    return char.isascii() or _drawn(char, size) != _drawn("\uffff", size)


def _drawn(char: str, size: int) -> bytes:
    place = Image.new("L", (2 * size, 2 * size))
    ImageDraw.Draw(place).text((0, 0), char, fill=255, font=_font(size))
    return place.tobytes()
