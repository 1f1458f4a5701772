"""Questions for the pocket model about pictures that it was never trained on."""

from functools import partial

import numpy as np

from trio_profile.inputs.pocket.grammar import MOST_HOPS, ask
from trio_profile.inputs.pocket.scenes import render, scene
from trio_profile.inputs.questions import Question

TRAINED_FROM = 1_000_000
"""Scenes with this seed or a higher one are for training, lower seeds are for the exam."""


def exam(count: int) -> list[Question]:
    """The first `count` held-out questions, each about another picture. Their hops are 3, 1, 2, 3, 1, 2, …"""
    return [_question(number) for number in range(count)]


def _question(number: int) -> Question:
    hops = (number - 1) % MOST_HOPS + 1
    shown = scene(number)
    asked = ask(shown, hops, np.random.default_rng((number, hops)))
    return Question(partial(render, shown), asked.text, asked.answer, kind=f"{hops} hop{'s' if hops > 1 else ''}")
