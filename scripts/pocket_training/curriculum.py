"""How the second phase becomes harder: few things at first, then more things and more hops."""

from dataclasses import dataclass

from trio_profile.inputs.pocket.grammar import MOST_HOPS
from trio_profile.inputs.pocket.scenes import MOST

FOUND = 0.85
"""Share of right answers above which more is asked. Guessing among the few things that share a word gives less."""


@dataclass
class Curriculum:
    """How much the decoder has to look through. It gets more as soon as it finds what it is asked for.

    things: number of things that it sees.
    right: share of right answers by hops, averaged over recent batches.
    """

    things: int = 3
    right: tuple[float, ...] = (0.0,) * MOST_HOPS

    @property
    def ground(self) -> int:
        """Number of empty patches that it sees too."""
        return 3 * (self.things - 3) + 2

    @property
    def hops(self) -> int:
        """The most hops of a question. It grows by one when the questions before are answered often enough."""
        asked = 1
        while asked < MOST_HOPS and (self.right[asked - 1] > FOUND or self.right[asked]):
            asked += 1
        return asked

    def heard(self, hops: int, right: float) -> None:
        """Record the share of right answers in a batch of questions with `hops` hops."""
        before = self.right[hops - 1]
        self.right = (*self.right[: hops - 1], before + 0.05 * (right - before), *self.right[hops:])

    def grow(self, done: float) -> None:
        """Add one thing if all hops are answered often enough, or if the phase is too far advanced to wait.

        There are always at least four things for each hop, so that a route exists.

        done: the share of the phase that is over.
        """
        found = min(self.right[: self.hops]) > FOUND
        wanted = max(4 * self.hops, MOST * (done - 0.3) / 0.4)
        if (found or self.things < wanted) and self.things < MOST:
            self.things += 1
