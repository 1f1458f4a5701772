"""The settings of a training."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """A part of the training on questions.

    steps: of the optimiser.
    side: of the pictures, in pixels.
    pictures: in a step.
    questions: about each picture.
    things: the fewest and the most in a picture.
    tokens: visual tokens that the decoder sees: all that show a thing, and random others. 0 for all.
    """

    steps: int
    side: int
    pictures: int
    questions: int
    things: tuple[int, int]
    tokens: int = 0


@dataclass(frozen=True)
class Recipe:
    """The recipe of the shipped weights.

    named_pictures, named_steps, named_patches: the projector first learns to name the colour and the shape that a patch
        shows. It sees so many pictures, and so many patches in each step.
    phases: then projector and decoder learn to answer.
    rank: of the matrices A and B.
    rates: the highest learning rates: of the projector while it names, then of the projector, and of A and B.
    """

    seed: int = 0
    named_pictures: int = 240
    named_steps: int = 800
    named_patches: int = 2048
    phases: tuple[Phase, ...] = (
        Phase(120, 168, 2, 8, (1, 1), 48),
        Phase(560, 168, 2, 8, (2, 2), 48),
        Phase(160, 168, 2, 8, (2, 3)),
        Phase(100, 336, 1, 8, (2, 3)),
    )
    rank: int = 16
    rates: tuple[float, float, float] = (3e-3, 5e-4, 1e-3)
    warm_up: int = 20
    weight_decay: float = 0.01
    clip: float = 1.0

    @property
    def steps(self) -> int:
        """All steps on questions."""
        return sum(phase.steps for phase in self.phases)
