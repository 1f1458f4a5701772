"""The order of two sides that are measured in turn.

A run may change the next one: it leaves its data in the caches, and a hot processor. So each side comes first equally
often, and the order within two rounds is random.
"""

import random
from collections.abc import Iterator


def balanced_orders(seed: int | str) -> Iterator[tuple[int, int]]:
    """Yield the order of the sides 0 and 1 in each round, without end. Each two rounds have both orders.

    seed: the same seed gives the same orders.
    """
    draw = random.Random(seed)
    while True:
        yield from draw.sample(((0, 1), (1, 0)), 2)
