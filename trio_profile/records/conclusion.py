"""The conclusion of a study: one word, one sentence, and how sure they are. Every kind has this one record.

It is made in `judge`. Page, terminal, `--json` and the documentation are made from it. Nothing else words a conclusion.
"""

from typing import Literal

from trio_profile import units
from trio_profile.records.record import Record

Level = Literal["high", "medium", "low"]


class Conclusion(Record):
    """The answer of a study to its question.

    word: one of the words of the kind: `do`, `try`, `not decided`, `pass`, `reconciled`.
    sentence: what the word is about, with its bounds. It stands behind the word, so it may begin with a small letter.
    gain: the speed-up is at least and at most so large; None if the word is not about one.
    loss: at most this share of the questions is lost, 0 to 1; None if nothing is said of answers.
    sureness: how sure the word is; None if there is nothing to be sure of.
    reasons: why it is not surer, or why it is sure; and what the study cannot say.
    next: the command that would decide, or make it surer; empty if there is none.
    next_seconds: how long it takes; None if that is not known.
    """

    word: str
    sentence: str
    gain: tuple[float, float] | None = None
    loss: float | None = None
    sureness: Level | None = None
    reasons: tuple[str, ...] = ()
    next: str = ""
    next_seconds: float | None = None

    @property
    def how_sure(self) -> str:
        """The sureness with its reasons. Empty if there is nothing to be sure of."""
        because = f", because {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.sureness}{because}." if self.sureness else ""

    @property
    def next_time(self) -> str:
        """How long the next command takes, in words. Empty if it is not known."""
        return "" if self.next_seconds is None else f"about {units.duration(self.next_seconds)}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The lines that a reader sees, each with its head and its text."""
        next_step = f"{self.next} ({self.next_time})" if self.next_time else self.next
        lines = [(self.word.capitalize(), self.sentence), ("How sure", self.how_sure), ("Next", next_step)]
        return [(head, text) for head, text in lines if text]
