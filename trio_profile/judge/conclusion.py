"""The conclusion of a study: one word, one sentence, and how sure they are. Every kind returns this one record.

Page, terminal, `--json` and the documentation are made from it. No kind words a conclusion anywhere else.
"""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from trio_profile.records.record import Record

Level = Literal["high", "medium", "low"]
_LEVELS: tuple[Level, ...] = ("low", "medium", "high")


class Conclusion(Record):
    """What follows from a study.

    word: one of the words of the kind: `do`, `try`, `not decided`, `pass`, `reconciled`.
    sentence: what the word is about, with its bounds. It stands behind the word, so it may begin with a small letter.
    gain: the speed-up is at least and at most so large; None if the word is not about one.
    loss: at most this share of the questions is lost, 0 to 1; None if nothing is said of answers.
    sureness: how sure the word is; None if there is nothing to be sure of.
    reasons: why it is not surer, or why it is sure; and what the study cannot say.
    next: the command that would decide, or make it surer, with its time; empty if there is none.
    """

    word: str
    sentence: str
    gain: tuple[float, float] | None = None
    loss: float | None = None
    sureness: Level | None = None
    reasons: tuple[str, ...] = ()
    next: str = ""


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
    found = sorted(weaknesses, key=lambda weakness: _LEVELS.index(weakness.level))
    reasons = [weakness.reason for weakness in found] or sure
    return {"sureness": found[0].level if found else "high", "reasons": tuple(dict.fromkeys(reasons))}
