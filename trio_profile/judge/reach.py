"""Which loss of right answers a number of questions can exclude: said before they are asked."""

from itertools import count

from trio_profile import units
from trio_profile.stats.intervals import difference_interval, joint

_ANY = 0.5
"""Who cannot exclude that so many answers are lost excludes no loss worth the name."""


def reach_of(questions: int, cells: int) -> str:
    """Return which loss so many questions can exclude, if none is lost. All cells hold together."""
    if not questions:
        return "without questions, nothing is said of answers"
    least = least_excluded(questions, cells)
    if least > _ANY:
        return f"{units.number_of(questions, 'question')} cannot exclude any loss"
    return f"{units.number_of(questions, 'question')} exclude a loss of {units.at_most(100 * least)} points at best"


def least_excluded(questions: int, cells: int) -> float:
    """Return the share of the questions whose loss is excluded for each of these cells, if none is lost."""
    return difference_interval([0.0] * questions, confidence=joint(cells))[1]


def enough(cells: int, tolerated: float) -> int:
    """Return how many questions exclude a loss that is not tolerated for each of these cells, if none is lost."""
    return next(number for number in count(1) if least_excluded(number, cells) <= tolerated)
