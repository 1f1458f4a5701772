"""Pictures with known content: things with a colour, a shape and a digit, on a patterned ground.

A thing covers 2 × 2 patches, and its digit lies across all of them, so that no single patch shows it. No two things of
a picture agree in two of their three properties, but several share each single property. So two properties name a
thing, and one does not.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Property = Literal["colour", "shape", "digit"]
PROPERTIES: tuple[Property, ...] = ("colour", "shape", "digit")
COLOURS = {
    "red": (225, 40, 40),
    "green": (50, 190, 60),
    "blue": (75, 110, 255),
    "yellow": (245, 225, 50),
    "pink": (250, 110, 200),
    "cyan": (70, 225, 230),
    "orange": (250, 140, 30),
    "white": (250, 250, 250),
}
SHAPES = ("square", "circle", "triangle", "diamond", "cross", "star", "house", "hexagon")
DIGITS = tuple("0123456789")
VALUES: dict[Property, tuple[str, ...]] = {"colour": tuple(COLOURS), "shape": SHAPES, "digit": DIGITS}

SIDE = 192
PATCH = 8
CELL = 2 * PATCH
GRID = SIDE // CELL
FEWEST, MOST = 20, 30
"""Things in a picture."""

_POLYGONS = {
    "square": [(1, 1), (14, 1), (14, 14), (1, 14)],
    "triangle": [(7.5, 0), (15, 15), (0, 15)],
    "diamond": [(7.5, 0), (15, 7.5), (7.5, 15), (0, 7.5)],
    "cross": (4, 0, 11, 0, 11, 4, 15, 4, 15, 11, 11, 11, 11, 15, 4, 15, 4, 11, 0, 11, 0, 4, 4, 4),  # x, y, x, y, …
    "star": [(7.5, 0), (10, 5), (15, 5), (12, 9), (14, 15), (7.5, 11.5), (1, 15), (3, 9), (0, 5), (5, 5)],
    "house": [(7.5, 0), (15, 6), (12, 6), (12, 15), (3, 15), (3, 6), (0, 6)],
    "hexagon": [(4, 1), (11, 1), (15, 7.5), (11, 14), (4, 14), (0, 7.5)],
}
_SEGMENTS = {  # of a seven-segment display five pixels wide and nine high
    "a": [(5, 3), (10, 3)],
    "b": [(10, 3), (10, 7)],
    "c": [(10, 7), (10, 12)],
    "d": [(5, 12), (10, 12)],
    "e": [(5, 7), (5, 12)],
    "f": [(5, 3), (5, 7)],
    "g": [(5, 7), (10, 7)],
}
_LIT = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
_INK = (15, 15, 15)


@dataclass(frozen=True)
class Thing:
    """One thing of a picture.

    cell: (row, column) of its 2 × 2 patches, counted in cells.
    """

    colour: str
    shape: str
    digit: str
    cell: tuple[int, int]

    def __getitem__(self, of: Property) -> str:
        return getattr(self, of)

    def patches(self) -> tuple[int, int, int, int]:
        """The visual tokens that it covers, counted row by row."""
        wide = SIDE // PATCH
        first = 2 * self.cell[0] * wide + 2 * self.cell[1]
        return first, first + 1, first + wide, first + wide + 1


@dataclass(frozen=True)
class Scene:
    """The content of a picture.

    ground: the seed of its ground.
    """

    things: tuple[Thing, ...]
    ground: int


def scene(seed: int) -> Scene:
    """A scene from its seed: 20 to 30 things, no two alike in two properties."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(FEWEST, MOST + 1))
    cells = rng.permutation(GRID * GRID)[:count]
    taken: set[tuple[str, ...]] = set()
    things: list[Thing] = []
    while len(things) < count:
        colour, shape, digit = (VALUES[of][rng.integers(len(VALUES[of]))] for of in PROPERTIES)
        pairs = {(colour, shape), (colour, digit), (shape, digit)}
        if not pairs & taken:
            taken |= pairs
            row, column = divmod(int(cells[len(things)]), GRID)
            things.append(Thing(colour, shape, digit, (row, column)))
    return Scene(tuple(things), int(rng.integers(2**31)))


def render(scene: Scene) -> Image.Image:
    """The picture, 192 × 192 RGB."""
    rng = np.random.default_rng(scene.ground)
    return with_things(empty(rng, {thing.cell for thing in scene.things}), scene.things, rng)


def empty(rng: np.random.Generator, taken: Set[tuple[int, int]]) -> NDArray[np.float64]:
    """The ground with its splashes, [SIDE, SIDE, 3] from 0 to 255. taken: the cells that no splash may touch."""
    pixels = _ground(rng)
    free = sorted({divmod(i, GRID) for i in range(GRID * GRID)} - taken)
    for place in rng.permutation(len(free))[: rng.integers(12, 25)]:
        _splash(pixels, free[place], rng)
    return pixels


def with_things(pixels: NDArray[np.float64], things: Iterable[Thing], rng: np.random.Generator) -> Image.Image:
    """The picture of these things on a ground, which is changed, and the noise of a camera over all."""
    for thing in things:
        row, column = (CELL * c for c in thing.cell)
        colours, covers = _sprite(thing.colour, thing.shape, thing.digit)
        window = pixels[row : row + CELL, column : column + CELL]
        window[covers] = colours[covers]
    pixels += rng.normal(0, 8, pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _ground(rng: np.random.Generator) -> NDArray[np.float64]:
    """A ground of waves in two muted colours, with rectangles of other waves. No two regions are alike."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE].astype(np.float64)
    pixels = np.empty((SIDE, SIDE, 3))
    for region in range(int(rng.integers(4, 9))):
        top, left = rng.integers(0, SIDE - 32, 2) if region else (0, 0)
        height, width = rng.integers(32, SIDE, 2) if region else (SIDE, SIDE)
        where = np.s_[top : top + height, left : left + width]
        across, down = rng.normal(0, 0.35, 2)
        wave = np.sin(across * columns[where] + down * rows[where] + rng.uniform(0, 6))
        if rng.random() < 0.5:  # stripes in place of waves
            wave = np.sign(wave)
        first, other = rng.uniform(30, 150, (2, 3))
        pixels[where] = (first + other) / 2 + wave[..., None] * (first - other) / 2
    return pixels


def _splash(pixels: NDArray[np.float64], cell: tuple[int, int], rng: np.random.Generator) -> None:
    """Draw a disc in one of the things' colours. Because of these discs colour alone does not find the things."""
    colour = list(COLOURS.values())[rng.integers(len(COLOURS))]
    row, column = (CELL * c + rng.integers(4, 12) for c in cell)
    rows, columns = np.ogrid[0:SIDE, 0:SIDE]
    pixels[(rows - row) ** 2 + (columns - column) ** 2 <= rng.integers(4, 17)] = colour


@cache
def _sprite(colour: str, shape: str, digit: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A thing's pixels, and a mask of the pixels that it covers."""
    image = Image.new("RGB", (CELL, CELL))
    mask = Image.new("1", (CELL, CELL))
    for canvas, fill in ((image, COLOURS[colour]), (mask, 1)):
        draw = ImageDraw.Draw(canvas)
        if shape == "circle":
            draw.ellipse((0, 0, CELL - 1, CELL - 1), fill=fill)
        else:
            draw.polygon(_POLYGONS[shape], fill=fill)
        for segment in _LIT[int(digit)]:
            draw.line(_SEGMENTS[segment], fill=_INK if canvas is image else 1, width=2)
    return np.asarray(image, dtype=np.float64), np.asarray(mask)
