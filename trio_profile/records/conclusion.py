"""The conclusion of a study: one word, one sentence, and how sure they are. Every kind has this one record.

It is made in `judge`. Page, terminal, `--json` and the documentation are made from it. Nothing else words a conclusion.
"""

from typing import Literal

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
    next: the command that would decide, or make it surer, with its time; empty if there is none.
    """

    word: str
    sentence: str
    gain: tuple[float, float] | None = None
    loss: float | None = None
    sureness: Level | None = None
    reasons: tuple[str, ...] = ()
    next: str = ""

    @property
    def line(self) -> str:
        """The word and the sentence: `Do: trio at 33.0 %. …`."""
        return f"{self.word.capitalize()}: {self.sentence}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The lines that a reader sees, each with its head and its text."""
        sure = f"{self.sureness}, because {'; '.join(self.reasons)}." if self.reasons else f"{self.sureness}."
        lines = [(self.word.capitalize(), self.sentence)]
        lines += [("How sure", sure)] if self.sureness else []
        return lines + ([("Next", self.next)] if self.next else [])
