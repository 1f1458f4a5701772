"""Clips with known content: things that stay, things that pass, and one that moves, on a background that does not move.

A thing that passes is in sight for one to three frames. A thing that moves goes one cell further in each frame.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from PIL import Image

from trio_profile.inputs import questions
from trio_profile.inputs.pocket.grammar import ask
from trio_profile.inputs.pocket.scenes import GRID, Scene, Thing, empty, scene, with_things

Track = tuple[tuple[int, int] | None, ...]
"""The cell of a thing in each frame; None where it is out of sight."""
FRAMES = 8
LONGEST_PASSING = 3
"""The most frames in which a passing thing is in sight."""
KINDS = ("stays", "passes", "moves")
"""The behaviour of the thing that a question asks for. The questions of an exam take turns."""
FIRST_SEED = 500_000
"""Clips begin here, so that their scenes are neither those of the exam of pictures nor those of the training."""


@dataclass(frozen=True)
class Clip:
    """The content of a clip.

    scene: all things, each where it is first in sight.
    tracks: of each thing.
    """

    scene: Scene
    tracks: tuple[Track, ...]

    def things(self, kind: str) -> tuple[Thing, ...]:
        """The things that do this, one of KINDS."""
        return tuple(thing for thing, track in zip(self.scene.things, self.tracks, strict=True) if _kind(track) == kind)

    def frame(self, number: int) -> tuple[Thing, ...]:
        """The things that are in sight in a frame, each where it is there."""
        places = ((thing, track[number]) for thing, track in zip(self.scene.things, self.tracks, strict=True))
        return tuple(replace(thing, cell=cell) for thing, cell in places if cell is not None)


def _kind(track: Track) -> str:
    if None in track:
        return "passes"
    return "stays" if len(set(track)) == 1 else "moves"


def clip(seed: int) -> Clip:
    """A clip from its seed. The row of the moving thing is free of other things."""
    base, rng = scene(seed), np.random.default_rng((seed, FRAMES))
    mover, *others = base.things
    row, first = int(rng.integers(GRID)), int(rng.integers(GRID - FRAMES + 1))
    columns = range(first, first + FRAMES)
    others = [thing for thing in others if thing.cell[0] != row]
    things = [replace(mover, cell=(row, first)), *others]
    tracks: list[Track] = [tuple((row, column) for column in columns)]
    for number, thing in enumerate(others):
        length = FRAMES if number % 2 else int(rng.integers(1, LONGEST_PASSING + 1))
        begin = int(rng.integers(FRAMES - length + 1))
        tracks.append(tuple(thing.cell if begin <= frame < begin + length else None for frame in range(FRAMES)))
    return Clip(replace(base, things=tuple(things)), tuple(tracks))


def render(clip: Clip) -> list[Image.Image]:
    """The frames, 192 × 192 RGB. Each has noise of its own, as a camera's frames have."""
    rng = np.random.default_rng(clip.scene.ground)
    ever = {cell for track in clip.tracks for cell in track if cell is not None}
    ground = empty(rng, ever)
    return [with_things(ground.copy(), clip.frame(number), rng) for number in range(FRAMES)]


def exam(count: int) -> list[questions.Question]:
    """The first `count` questions about clips, each about another clip and one of its things."""
    return [_question(number) for number in range(count)]


def _question(number: int) -> questions.Question:
    seed, kind = FIRST_SEED + number, KINDS[number % len(KINDS)]
    content = clip(seed)
    question = ask(content.scene, 1, np.random.default_rng((seed, number)), content.things(kind))
    return questions.Question(partial(render, content), question.text, question.answer, kind=kind, is_of_video=True)
