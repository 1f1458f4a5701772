"""Orders: of two sides that are measured in turn, and of the questions that several batches answer.

A run may change the next one: it leaves its data in the caches, and a hot processor. So each side comes first equally
often, and the order within two rounds is random.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def balanced_orders(seed: int | str) -> Iterator[tuple[int, int]]:
    """Yield the order of the sides 0 and 1 in each round, without end. Each two rounds have both orders.

    seed: the same seed gives the same orders.
    """
    draw = random.Random(seed)
    while True:
        yield from draw.sample(((0, 1), (1, 0)), 2)


def in_order(parts: Iterable[tuple[Sequence[int], Sequence[Any]]]) -> tuple[Any, ...]:
    """Return the values of all batches in the order of their questions; empty if there are none.

    parts: (numbers of the questions, values) of each batch.
    """
    paired = [pair for numbers, values in parts if values for pair in zip(numbers, values, strict=True)]
    return tuple(value for _, value in sorted(paired, key=lambda pair: pair[0]))
