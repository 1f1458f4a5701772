"""The settings of a training run, and what a run reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["see", "answer"]
PHASES: tuple[Phase, ...] = ("see", "answer")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the trained weights, except the machine.

    seed: of the weights, the order of the pictures, and the questions.
    steps: number of steps of each phase.
    pictures: number of training pictures. They are rendered once and serve both phases.
    batch: pictures in one step of each phase.
    questions: questions about each picture.
    rate: the highest learning rate.
    deep: weight of the extra loss at every layer's readout. It falls to 0 within the first half of the second phase.
    patches: share of a thing's patches that the decoder sees in the second phase.
    blind: the largest number of layers in which a hop's words are kept from seeing the picture.
    """

    seed: int = 0
    steps: tuple[int, int] = (1200, 3200)
    pictures: int = 4000
    batch: tuple[int, int] = (8, 8)
    questions: int = 16
    rate: float = 2e-3
    deep: float = 0.3
    patches: float = 0.75
    blind: int = 3


@dataclass(frozen=True)
class Progress:
    """What is reported after each step.

    phase, step, steps: the current phase, the step within it, and the phase's number of steps.
    loss: of this step.
    right: accuracies by name. First phase: of the patches' properties. Second phase: by hops, averaged over steps.
    things: how many things the decoder looks through (second phase).
    """

    phase: Phase
    step: int
    steps: int
    loss: float
    right: dict[str, float]
    things: int = 0


Watcher = Callable[[Progress], None]
