"""Questions about a scene, and their answers.

One hop names a thing by two of its properties and asks for the third: "which digit has the red square". Each further
hop replaces one of the two by another thing that has it: "which digit has the square coloured like circle 7", where the
colour must be found first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trio_profile.pocket.scenes import COLOURS, DIGITS, PROPERTIES, SHAPES, Property, Scene, Thing

MOST_HOPS = 3
_LIKE: dict[Property, str] = {"colour": "coloured", "shape": "shaped", "digit": "numbered"}
ENDING = "? answer in one word ."
"""What follows the question in every prompt: the words that matter stand well before the last four."""

WORDS = (
    *(*COLOURS, *SHAPES, *DIGITS),
    *("which", "has", "the", "like", *PROPERTIES, *_LIKE.values()),
    *ENDING.split(),
    *("user", "assistant", ":"),
)
"""Every word that a prompt or an answer can hold."""


@dataclass(frozen=True)
class Question:
    """A question with its answer. hops: how many things must be found; route: those things, the first found first."""

    text: str
    answer: str
    hops: int
    route: tuple[Thing, ...]


def ask(scene: Scene, hops: int, rng: np.random.Generator, among: Sequence[Thing] | None = None) -> Question:
    """A question of so many hops about a scene. among: only about these of its things.

    Raises ValueError where no route of so many hops is found, as among things that share nothing.
    """
    things = scene.things if among is None else among
    for _ in range(100):
        thing = things[int(rng.integers(len(things)))]
        sought: Property = PROPERTIES[int(rng.integers(3))]
        phrase, route = " ".join(thing[of] for of in PROPERTIES if of != sought), [thing]
        while len(route) < hops:
            alike = [t for t in things if t not in route and t[sought] == route[-1][sought]]
            if not alike:
                break
            thing = alike[int(rng.integers(len(alike)))]
            others: list[Property] = [of for of in PROPERTIES if of != sought]
            given = others.pop(int(rng.integers(2)))
            phrase = f"{thing[given]} {_LIKE[sought]} like {phrase}"
            route.append(thing)
            sought = others[0]
        if len(route) == hops:
            return Question(f"which {sought} has the {phrase} {ENDING}", thing[sought], hops, tuple(route))
    raise ValueError(f"no question of {hops} hops among {len(things)} things")
