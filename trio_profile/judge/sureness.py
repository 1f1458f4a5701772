"""How sure a conclusion is, and why: the lowest level that its weaknesses leave."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from trio_profile.records.conclusion import Level

ONE_PROCESS = "one process measured it, and another may differ by more than the interval"
_LEVELS: tuple[Level, ...] = ("low", "medium", "high")


class Weakness(NamedTuple):
    """A reason not to be sure.

    level: the sureness that it leaves.
    reason: in a sentence without its full stop.
    """

    level: Level
    reason: str


def sureness(weaknesses: Iterable[Weakness], sure: Iterable[str]) -> dict[str, Any]:
    """Return the fields `sureness` and `reasons`: the lowest level that is left, and the weightiest reasons first.

    sure: the reasons of a high sureness.
    """
    weak = sorted(weaknesses, key=lambda weakness: _LEVELS.index(weakness.level))
    reasons = [weakness.reason for weakness in weak] or sure
    return {"sureness": weak[0].level if weak else "high", "reasons": tuple(dict.fromkeys(reasons))}
