"""The document of `trio-profile gate`: one verdict for each quantity that both sides have."""

from typing import Any, Literal

from trio_profile.records.schema import FORMAT, VERSION, Record, Stopped

Outcome = Literal["pass", "improved", "inconclusive", "regression", "no base"]


class Verdict(Record):
    """The verdict on one quantity of one cell, benchmark or test.

    quantity: its name.
    where: the cell, benchmark or test.
    base, new: the two values. base is None if there is no base.
    ratio: new / base; above 1 is worse.
    ci95: the ratio's interval; None for an exact quantity.
    samples: of the side with fewer samples; 1 for an exact quantity.
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
    stopped: Stopped | None = None
    note: str | None = None


class GateDocument(Record):
    """What `trio-profile gate --json` prints.

    environment: machine and software of the new side, as its file describes them.
    study: the new side's study; None for a pytest-benchmark file.
    verdicts: one for each quantity.
    """

    format: str = FORMAT
    version: int = VERSION
    environment: dict[str, Any]
    study: dict[str, Any] | None
    verdicts: tuple[Verdict, ...]
