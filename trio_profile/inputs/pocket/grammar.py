"""Questions about a scene, and their answers.

A question is a walk from thing to thing. The first thing is named by two of its properties, and the third is looked
for: "at the red square which digit ?". Each further hop leads to another thing that shares the property just found. One
more property names that thing, and its third property is looked for: "at the red square by digit to the circle which
colour ?".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from trio_profile.inputs import questions
from trio_profile.inputs.pocket.scenes import COLOURS, DIGITS, PROPERTIES, SHAPES, Property, Scene, Thing, render
from trio_profile.inputs.pocket.scenes import scene as scene_of

MOST_HOPS = 3
ENDING = "? answer in one word ."
"""The end of every prompt. It keeps the words of the question away from the last four positions."""

WORDS = (
    *(*COLOURS, *SHAPES, *DIGITS),
    *("at", "the", "by", "to", "which", *PROPERTIES),
    *ENDING.split(),
    *("user", "assistant", ":"),
)
"""All words of prompts and answers."""


@dataclass(frozen=True)
class Question:
    """A question with its answer.

    values: the property value that is looked for at each hop; the last one is the answer.
    """

    text: str
    answer: str
    values: tuple[str, ...]


def ask(scene: Scene, hops: int, rng: np.random.Generator, among: Sequence[Thing] | None = None) -> Question:
    """A random question about a scene.

    hops: how many things must be found.
    among: ask only about these things; all if None.
    Raises ValueError if no such route exists, because the things share too few properties.
    """
    things = scene.things if among is None else among
    for _ in range(100):
        thing = things[int(rng.integers(len(things)))]
        sought: Property = PROPERTIES[int(rng.integers(3))]
        text = " ".join(("at the", *(thing[of] for of in PROPERTIES if of != sought)))
        route, values = [thing], [thing[sought]]
        while len(route) < hops:
            alike = [t for t in things if t not in route and t[sought] == values[-1]]
            if not alike:
                break
            thing = alike[int(rng.integers(len(alike)))]
            others: list[Property] = [of for of in PROPERTIES if of != sought]
            property_given = others.pop(int(rng.integers(2)))
            text = f"{text} by {sought} to the {thing[property_given]}"
            sought = others[0]
            route.append(thing)
            values.append(thing[sought])
        if len(route) == hops:
            return Question(f"{text} which {sought} {ENDING}", values[-1], tuple(values))
    raise ValueError(f"no question of {hops} hops among {len(things)} things")


def exam(count: int) -> list[questions.Question]:
    """The first `count` questions of the exam, each about a picture that the pocket model was never trained on.

    Their hops are 3, 1, 2, 3, 1, 2, …
    """
    return [_held_out(number) for number in range(count)]


def _held_out(number: int) -> questions.Question:
    hops = (number - 1) % MOST_HOPS + 1
    held_out = scene_of(number)
    question = ask(held_out, hops, np.random.default_rng((number, hops)))
    return questions.Question(
        partial(render, held_out), question.text, question.answer, kind=f"{hops} hop{'s' if hops > 1 else ''}"
    )
