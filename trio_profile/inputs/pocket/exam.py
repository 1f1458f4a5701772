"""Questions that the pocket model was never trained on: other pictures, by their seeds."""

from functools import partial

import numpy as np

from trio_profile.inputs.pocket.grammar import MOST_HOPS, ask
from trio_profile.inputs.pocket.scenes import render, scene
from trio_profile.inputs.questions import Question

RECIPE = "recipe.json"
"""What training leaves in a checkpoint's directory; it tells that a model can be asked these questions."""
TRAINED_FROM = 1_000_000
"""Scenes of this seed and above are for training, those below for examination."""


def exam(count: int) -> list[Question]:
    """The first `count` held-out questions: each of another picture, with three hops, one, two, three, … in turn."""
    return [_question(number) for number in range(count)]


def _question(number: int) -> Question:
    hops = (number - 1) % MOST_HOPS + 1
    shown = scene(number)
    asked = ask(shown, hops, np.random.default_rng((number, hops)))
    return Question(partial(render, shown), asked.text, asked.answer, kind=f"{hops} hop{'s' if hops > 1 else ''}")
