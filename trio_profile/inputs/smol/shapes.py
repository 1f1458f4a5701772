"""Pictures with known content: two or three coloured shapes on a photograph. And questions about them.

No two shapes of a picture are alike, no two have one colour, and no two lie at nearly one height.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import cos, pi, sin

import numpy as np
from PIL import Image, ImageDraw

from trio_profile.inputs.questions import Question
from trio_profile.inputs.smol.parts import PHOTOGRAPHS, path_of

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 160, 50),
    "blue": (40, 70, 230),
    "yellow": (250, 225, 40),
    "purple": (130, 40, 170),
    "orange": (250, 140, 20),
    "pink": (250, 150, 200),
    "black": (10, 10, 10),
}
SHAPES = ("circle", "square", "triangle", "star", "cross")
KINDS = ("colour", "shape", "pair", "higher")
"""The kinds of question. Those of an exam take turns."""
SIDE = 336
"""Of a picture, in pixels."""
FIRST_TRAINING = 1_000_000
"""Seeds of training pictures begin here. The exam's are smaller."""
_SMALLEST, _LARGEST = 52, 104
_SPACE = 6
_HIGHER = 20
"""The middles of two things differ at least by so many pixels in height."""
_FINE = 4
"""A shape is drawn this many times as large, then made smaller, so that its edges are smooth."""


@dataclass(frozen=True)
class Thing:
    """A shape of a picture. left, top, size: in pixels; its box is a square."""

    colour: str
    shape: str
    left: int
    top: int
    size: int

    @property
    def middle(self) -> float:
        """The height of its middle, in pixels from the top."""
        return self.top + self.size / 2


@dataclass(frozen=True)
class Scene:
    """The content of a picture.

    photograph: its number, among those of the training or those of the exam.
    crop: left, top and side of the part that is shown, as shares of the photograph's free space and shorter side.
    """

    things: tuple[Thing, ...]
    is_exam: bool
    photograph: int
    crop: tuple[float, float, float]


def scene(seed: int, fewest: int = 2, most: int = 3) -> Scene:
    """Return the scene of a seed. Its photograph is one of the exam's if the seed is below FIRST_TRAINING.

    fewest, most: things in it.
    """
    rng = np.random.default_rng(seed)
    is_exam = seed < FIRST_TRAINING
    count = int(rng.integers(fewest, most + 1))
    colours, shapes = rng.permutation(list(COLOURS))[:count], rng.permutation(SHAPES)[:count]
    things: list[Thing] = []
    while len(things) < count:
        size = int(rng.integers(_SMALLEST, _LARGEST + 1))
        left, top = (int(rng.integers(_SPACE, SIDE - size - _SPACE + 1)) for _ in range(2))
        thing = Thing(str(colours[len(things)]), str(shapes[len(things)]), left, top, size)
        if not any(_overlap(thing, other) or abs(thing.middle - other.middle) < _HIGHER for other in things):
            things.append(thing)
        elif rng.random() < 0.02:  # the first things left no room
            things.clear()
    photograph = int(rng.integers(len(PHOTOGRAPHS["exam" if is_exam else "training"])))
    return Scene(tuple(things), is_exam, photograph, (rng.random(), rng.random(), float(rng.uniform(0.4, 1))))


def _overlap(a: Thing, b: Thing) -> bool:
    return all(
        low < other_high + _SPACE and other < high + _SPACE
        for low, high, other, other_high in (
            (a.left, a.left + a.size, b.left, b.left + b.size),
            (a.top, a.top + a.size, b.top, b.top + b.size),
        )
    )


@cache
def _photographs(name: str) -> list[Image.Image]:
    return [Image.open(path_of(part)).convert("RGB") for part in PHOTOGRAPHS[name]]


def render(scene: Scene) -> Image.Image:
    """Return the picture, SIDE × SIDE RGB. Raises StudyError if the photographs are not installed."""
    photograph = _photographs("exam" if scene.is_exam else "training")[scene.photograph]
    right, down, share = scene.crop
    side = round(share * min(photograph.size))
    left, top = round(right * (photograph.width - side)), round(down * (photograph.height - side))
    picture = photograph.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    for thing in scene.things:
        picture.paste(COLOURS[thing.colour], (thing.left, thing.top), cover(thing))
    return picture


def cover(thing: Thing) -> Image.Image:
    """Return how much of each pixel of its box a thing covers, `size` × `size`, from 0 to 255."""
    side = thing.size * _FINE
    mask = Image.new("L", (side, side))
    draw = ImageDraw.Draw(mask)
    if thing.shape == "circle":
        draw.ellipse((0, 0, side - 1, side - 1), fill=255)
    else:
        draw.polygon([(x * (side - 1), y * (side - 1)) for x, y in _POLYGONS[thing.shape]], fill=255)
    return mask.resize((thing.size, thing.size), Image.Resampling.BOX)


def _star() -> list[tuple[float, float]]:
    radii = (0.5, 0.21) * 5
    return [(0.5 + r * sin(pi * i / 5), 0.5 - r * cos(pi * i / 5)) for i, r in enumerate(radii)]


_POLYGONS: dict[str, Sequence[tuple[float, float]]] = {
    "square": [(0.05, 0.05), (0.95, 0.05), (0.95, 0.95), (0.05, 0.95)],
    "triangle": [(0.5, 0.02), (1, 0.95), (0, 0.95)],
    "star": _star(),
    "cross": [
        *((0.35, 0), (0.65, 0), (0.65, 0.35), (1, 0.35), (1, 0.65), (0.65, 0.65)),
        *((0.65, 1), (0.35, 1), (0.35, 0.65), (0, 0.65), (0, 0.35), (0.35, 0.35)),
    ],
}


def ask(scene: Scene, kind: str, rng: np.random.Generator) -> Question:
    """Return a random question of a kind, one of KINDS. The answers of its wording are equally frequent.

    A scene of one thing is asked for its colour in the place of `higher`.
    """
    question, order = partial(Question, partial(render, scene)), rng.permutation(len(scene.things))
    thing = scene.things[order[0]]
    if kind == "colour" or (kind == "higher" and len(order) == 1):
        return question(f"What color is the {thing.shape}?", thing.colour, "colour")
    if kind == "shape":
        return question(f"What shape is {thing.colour}?", thing.shape, kind)
    if kind == "pair":
        if rng.random() < 0.5:
            return question(f"Is there a {thing.colour} {thing.shape}?", "yes", kind)
        others = [other.shape for other in scene.things if other != thing] or [s for s in SHAPES if s != thing.shape]
        return question(f"Is there a {thing.colour} {others[int(rng.integers(len(others)))]}?", "no", kind)
    other = scene.things[order[1]]
    higher = thing if thing.middle < other.middle else other
    return question(f"Which is higher, the {thing.shape} or the {other.shape}?", higher.shape, kind)


def exam(count: int) -> list[Question]:
    """Return the first `count` questions of the exam, each about another picture that `smol` was never trained on."""
    seeds = range(count)
    return [ask(scene(seed), KINDS[seed % len(KINDS)], np.random.default_rng((seed, 1))) for seed in seeds]
