"""Orders of runs in which every member follows every other member equally often.

A run may change the next one: it leaves its data in the caches, and a hot processor. In a balanced order each member
gets each other one as its predecessor equally often within the rounds, so this carry-over is the same for all members.
Between two rounds a member may follow itself.
"""

import random
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

Member = TypeVar("Member", bound=Hashable)


def balanced_orders(members: Sequence[Member], seed: int | str) -> Iterator[list[Member]]:
    """Yield the order of each round, without end.

    A block of rounds is a Williams design: n rounds if the number of members n is even, 2n rounds if it is odd. Within
    the rounds of a block each member follows each other one equally often (once, or twice if n is odd), and is equally
    often at each position. Each second round is the reverse of the round before it, so any two members have run in both
    orders equally often after any even number of rounds. At the seam of these two rounds a member follows itself: which
    one is random. In each block the members have other roles, and the rounds are shuffled.

    members: all different.
    seed: the same seed gives the same orders.
    """
    draw = random.Random(seed)
    design = williams_design(len(members))
    while True:
        roles = draw.sample(members, len(members))
        for both in draw.sample(design, len(design)):
            for row in draw.sample(both, len(both)):
                yield [roles[number] for number in row]


def williams_design(n: int) -> list[tuple[list[int], ...]]:
    """Return rounds of the numbers 0 … n − 1, each with its reverse. Each number follows each other one equally often.

    The first round is 0, 1, n − 1, 2, n − 2, … Each further round adds 1 to every number, modulo n. If n is even, half
    of these rounds are the reverses of the other half. If n is odd, the reverses are further rounds.
    [E. J. Williams 1949, Australian Journal of Scientific Research A 2, 149-168]
    """
    if n == 1:
        return [([0],)]
    first = [(place + 1) // 2 if place % 2 else (n - place // 2) % n for place in range(n)]
    rounds = [[(number + shift) % n for number in first] for shift in range(n if n % 2 else n // 2)]
    return [(row, row[::-1]) for row in rounds]
