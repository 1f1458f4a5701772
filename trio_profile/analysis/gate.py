"""The document of `trio-profile gate`: one verdict for each quantity that both sides have."""

from typing import Any, Literal

from trio_profile.records.documents import Document
from trio_profile.records.schema import Record, Stopped

Outcome = Literal["pass", "improved", "inconclusive", "regression", "no base"]


class Verdict(Record):
    """The verdict on one quantity of one cell, benchmark or test.

    quantity: its name.
    where: the cell, benchmark or test.
    base, new: the two values. base is None if there is no base.
    ratio: new / base; above 1 is worse.
    ci95: the ratio's interval; None for an exact quantity.
    samples: of the side with fewer samples; 1 for an exact quantity.
    sessions: of the side with fewer sessions; None if the samples do not come from studies.
    longer: if the verdict is inconclusive, how many times as long both studies must be measured, so that it is probably
        decided; None if no time would decide, or if a study has one process, which does not show it.
    stopped: why sampling ended.
    note: what the reader must know to trust the verdict.
    """

    quantity: str
    where: str
    base: int | float | None
    new: int | float
    ratio: float | None
    ci95: tuple[float, float] | None
    verdict: Outcome
    samples: int = 1
    sessions: int | None = None
    longer: float | None = None
    stopped: Stopped | None = None
    note: str | None = None


class Command(Record):
    """A command that measures one side again.

    side: the directory of its study.
    code: the commits, or the versions of trio-profile, that measured the side. It must be measured with the same code.
    command: the command line.
    """

    side: str
    code: tuple[str, ...]
    command: str


class GateDocument(Document):
    """The output of `trio-profile gate --json`.

    sessions: those of the new side; empty for a pytest-benchmark file.
    environment: machine and software of the new side, as its file describes them.
    study: the new side's study; None for a pytest-benchmark file.
    verdicts: one for each quantity.
    commands: how to decide the inconclusive verdicts: one command for the base, one for the new side.
    """

    environment: dict[str, Any]
    study: dict[str, Any] | None
    verdicts: tuple[Verdict, ...]
    commands: tuple[Command, ...] = ()
