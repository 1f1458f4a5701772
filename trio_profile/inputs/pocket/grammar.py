"""Questions about a scene, and their answers.

A question is a walk from thing to thing. It begins at one that two of its properties name, and looks for the third: "at
the red square, which digit ?". Each further hop goes by what was found to another thing that has it too, named by one
more property, and looks for what is then still unknown: "at the red square by digit to the circle, which colour ?".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trio_profile.inputs.pocket.scenes import COLOURS, DIGITS, PROPERTIES, SHAPES, Property, Scene, Thing

MOST_HOPS = 3
ENDING = "? answer in one word ."
"""What follows the question in every prompt: the words that matter stand well before the last four."""

WORDS = (
    *(*COLOURS, *SHAPES, *DIGITS),
    *("at", "the", "by", "to", "which", *PROPERTIES),
    *ENDING.split(),
    *("user", "assistant", ":"),
)
"""Every word that a prompt or an answer can hold."""


@dataclass(frozen=True)
class Question:
    """A question with its answer.

    hops: how many things must be found; route: those things, the first found first; found: what is looked for at each,
    the answer last.
    """

    text: str
    answer: str
    hops: int
    route: tuple[Thing, ...]
    found: tuple[str, ...]


def ask(scene: Scene, hops: int, rng: np.random.Generator, among: Sequence[Thing] | None = None) -> Question:
    """A question of so many hops about a scene. among: only about these of its things.

    Raises ValueError where no route of so many hops is found, as among things that share nothing.
    """
    things = scene.things if among is None else among
    for _ in range(100):
        thing = things[int(rng.integers(len(things)))]
        sought: Property = PROPERTIES[int(rng.integers(3))]
        text = " ".join(("at the", *(thing[of] for of in PROPERTIES if of != sought)))
        route, found = [thing], [thing[sought]]
        while len(route) < hops:
            alike = [t for t in things if t not in route and t[sought] == found[-1]]
            if not alike:
                break
            thing = alike[int(rng.integers(len(alike)))]
            others: list[Property] = [of for of in PROPERTIES if of != sought]
            given = others.pop(int(rng.integers(2)))
            text = f"{text} by {sought} to the {thing[given]}"
            sought = others[0]
            route.append(thing)
            found.append(thing[sought])
        if len(route) == hops:
            return Question(f"{text} which {sought} {ENDING}", found[-1], hops, tuple(route), tuple(found))
    raise ValueError(f"no question of {hops} hops among {len(things)} things")
