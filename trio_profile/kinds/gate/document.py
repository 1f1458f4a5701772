"""The document of `trio-profile gate`: one verdict for each quantity that both sides have."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from trio_profile.judge.claims import of_gate
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.documents import Document
from trio_profile.records.schema import Record, Stopped, Study

Outcome = Literal["pass", "improved", "inconclusive", "regression", "no base"]
OfInconclusive = Literal["pass", "fail"]
"""What an inconclusive verdict does to the exit code or to the test."""


class Verdict(Record):
    """The verdict on one quantity of one cell, benchmark or test.

    quantity: its name.
    where: the cell, benchmark or test.
    base, new: the two values. base is None if there is no base.
    ratio: new / base; above 1 is worse.
    ci95: the ratio's interval, from which the verdict follows; None for an exact quantity.
    max_ratio: the largest allowed ratio; None for an exact quantity, which must not grow.
    samples: of the side with fewer samples; 1 for an exact quantity.
    sessions: of the side with fewer sessions; None if the samples do not come from studies.
    stopped: why sampling ended.
    note: what the reader must know to trust the verdict, and how an inconclusive one can be decided.
    """

    quantity: str
    where: str
    base: int | float | None = None
    new: int | float
    ratio: float | None = None
    ci95: tuple[float, float] | None = None
    max_ratio: float | None = None
    verdict: Outcome
    samples: int = 1
    sessions: int | None = None
    stopped: Stopped | None = None
    note: str | None = None


def effect(verdict: Verdict, inconclusive: OfInconclusive, option: str) -> str:
    """The effect of an inconclusive verdict, for its line: `passes by default (--inconclusive)`. Empty for another one.

    option: says what it does.
    """
    if verdict.verdict != "inconclusive":
        return ""
    return f"{'passes by default' if inconclusive == 'pass' else 'fails'} ({option})"


class GateDocument(Document):
    """The output of `trio-profile gate --json`.

    sessions: those of the new side; empty for a pytest-benchmark file.
    environment: machine and software of the new side, as its file describes them.
    study: the new side's study; None for a pytest-benchmark file.
    inconclusive: what an inconclusive verdict does to the exit code.
    verdicts: one for each quantity.
    """

    environment: dict[str, Any]
    study: Study | None
    inconclusive: OfInconclusive = "pass"
    verdicts: tuple[Verdict, ...]


def conclude(verdicts: Sequence[Verdict]) -> Conclusion:
    """Return what all verdicts together say."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    worst = [outcome for outcome in ("regression", "inconclusive", "improved") if counts[outcome]][:1]
    return of_gate(counts, [f"{v.quantity} of {v.where}" for v in verdicts if v.verdict in worst])
