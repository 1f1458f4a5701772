"""How many questions decide a loss of right answers, and which loss a number of questions can exclude.

The answers are looked at several times, and asking ends when they decide. So the level of an interval of a loss holds
for all cells and for all looks that can decide together; otherwise one look of several would decide by chance. A look
at fewer questions than are needed cannot decide: even if none is lost, a loss is not excluded.
"""

from collections.abc import Sequence
from itertools import count

from trio_profile import units
from trio_profile.stats.intervals import joint, loss_interval

LOOKS = 2
"""How often answers are looked at that are enough to decide, at most."""
MOST = 768
"""More questions would exclude losses that are far below what is tolerated."""
_ANY = 0.5
"""Who cannot exclude that so many answers are lost excludes no loss worth the name."""


def level_of_loss(cells: int) -> float:
    """Return the level of the interval of each cell's loss. cells: that may be chosen."""
    return joint(cells * LOOKS)


def reach_of(questions: int, cells: int, *, is_first: bool = False) -> str:
    """Return which loss so many questions can exclude for all of these cells, if none is lost.

    is_first: whether more may be asked of the cells that may be chosen.
    """
    if not questions:
        return "without questions, nothing is said of answers"
    least, first = least_excluded(questions, cells), "the first " if is_first else ""
    questions_asked = f"{first}{units.number_of(questions, 'question')}"
    excluded = "cannot exclude any loss" if least > _ANY else f"exclude a loss of {units.at_most(100 * least)} points"
    more = "; more may be asked of the cells that may be chosen" if first else ""
    return f"{questions_asked} {excluded}{'' if least > _ANY else ' at best'}{more}"


def least_excluded(questions: int, cells: int) -> float:
    """Return the share of the questions whose loss is excluded for each of these cells, if none is lost."""
    return loss_interval([0.0] * questions, confidence=level_of_loss(cells))[1]


def needed(cells: int, tolerated: float) -> int:
    """Return how many questions exclude a loss that is not tolerated for each of these cells, if none is lost."""
    return next(number for number in count(1) if least_excluded(number, cells) <= tolerated)


def next_number(counts: Sequence[int], cells: int, tolerated: float) -> int | None:
    """Return up to how many questions are asked next; None after the last look.

    First four times as many show most losses, then as many as exclude a loss that is not tolerated, then twice as many.

    counts: the questions at each look so far.
    """
    known, least = counts[-1], needed(cells, tolerated)
    if sum(number >= least for number in counts) >= LOOKS or known >= MOST:
        return None
    return min(4 * known, least if least > known else 2 * known, MOST)
