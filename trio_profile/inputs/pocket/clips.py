"""Clips with known content: things that stay, things that pass, and one that moves, before a ground that stands still.

A thing that passes is in sight for one to three frames. A thing that moves goes one cell further in each frame.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from PIL import Image

from trio_profile.inputs import questions
from trio_profile.inputs.pocket.grammar import ask
from trio_profile.inputs.pocket.scenes import GRID, Scene, Thing, empty, scene, with_things

Path = tuple[tuple[int, int] | None, ...]
"""The cell of a thing in each frame; None where it is out of sight."""
FRAMES = 8
LONGEST_PASSING = 3
"""The most frames in which a passing thing is in sight."""
KINDS = ("stays", "passes", "moves")
"""What the thing does that a question asks for. The questions of an exam take turns."""
FIRST_SEED = 500_000
"""Clips begin here, so that their scenes are neither those of the exam of pictures nor those of the training."""


@dataclass(frozen=True)
class Clip:
    """The content of a clip.

    scene: all things, each where it is first in sight.
    paths: of each thing.
    """

    scene: Scene
    paths: tuple[Path, ...]

    def things(self, kind: str) -> tuple[Thing, ...]:
        """The things that do this, one of KINDS."""
        return tuple(thing for thing, path in zip(self.scene.things, self.paths, strict=True) if _kind(path) == kind)

    def frame(self, number: int) -> tuple[Thing, ...]:
        """The things that are in sight in a frame, each where it is there."""
        places = ((thing, path[number]) for thing, path in zip(self.scene.things, self.paths, strict=True))
        return tuple(replace(thing, cell=cell) for thing, cell in places if cell is not None)


def _kind(path: Path) -> str:
    if None in path:
        return "passes"
    return "stays" if len(set(path)) == 1 else "moves"


def clip(seed: int) -> Clip:
    """A clip from its seed. The row of the moving thing is free of other things."""
    drawn, rng = scene(seed), np.random.default_rng((seed, FRAMES))
    mover, *others = drawn.things
    row, first = int(rng.integers(GRID)), int(rng.integers(GRID - FRAMES + 1))
    columns = range(first, first + FRAMES)
    others = [thing for thing in others if thing.cell[0] != row]
    things = [replace(mover, cell=(row, first)), *others]
    paths: list[Path] = [tuple((row, column) for column in columns)]
    for number, thing in enumerate(others):
        length = FRAMES if number % 2 else int(rng.integers(1, LONGEST_PASSING + 1))
        begin = int(rng.integers(FRAMES - length + 1))
        paths.append(tuple(thing.cell if begin <= frame < begin + length else None for frame in range(FRAMES)))
    return Clip(replace(drawn, things=tuple(things)), tuple(paths))


def render(clip: Clip) -> list[Image.Image]:
    """The frames, 192 × 192 RGB. Each has noise of its own, as a camera's frames have."""
    rng = np.random.default_rng(clip.scene.ground)
    ever = {cell for path in clip.paths for cell in path if cell is not None}
    ground = empty(rng, ever)
    return [with_things(ground.copy(), clip.frame(number), rng) for number in range(FRAMES)]


def exam(count: int) -> list[questions.Question]:
    """The first `count` questions about clips, each about another clip and one of its things."""
    return [_question(number) for number in range(count)]


def _question(number: int) -> questions.Question:
    seed, kind = FIRST_SEED + number, KINDS[number % len(KINDS)]
    shown = clip(seed)
    asked = ask(shown.scene, 1, np.random.default_rng((seed, number)), shown.things(kind))
    return questions.Question(partial(render, shown), asked.text, asked.answer, kind=kind)
