"""The document of an audit: its findings, each about one printed figure, and how a recomputed value becomes a verdict.

Nothing is measured here, and nothing imports torch.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from trio_profile import units
from trio_profile.cost.printed import How, Interval, Printed
from trio_profile.inputs.claims.facts import Figure, Line
from trio_profile.judge.claims import of_audit
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.documents import Document
from trio_profile.records.schema import Environment, Record, Study

Verdict = Literal[
    "supported", "overstated", "understated", "not_comparable", "underdetermined", "not_checked_at_the_source"
]
INCONSISTENT: tuple[Verdict, ...] = ("overstated", "understated", "not_comparable")
"""Verdicts that say that figures contradict each other, or are not comparable. `--strict` then exits with 1."""
VERDICTS: tuple[Verdict, ...] = (*INCONSISTENT, "underdetermined", "not_checked_at_the_source", "supported")
"""The verdicts in the order in which they are shown: contradictions first."""
NEAR = 0.006
"""Retentions that differ by less count as equal. A percentage without decimals may be off by half a percent."""


class Measured(Record):
    """Our own measurement of the same setting: a paired ratio, an exact ratio, or a break-even."""

    value: float
    ci95: tuple[float, float]
    method: str
    retention: float
    samples: int | None = None


class Finding(Record):
    """One printed figure, recomputed.

    check: the kind of check.
    where: table and row of the claims file.
    quantity: the name of the figure.
    printed: its text.
    recomputed: the recomputed value in `unit`; None if nothing can be recomputed.
    interval: the values that rounding allows.
    verdict: `overstated` if the print makes the method look better than its own figures do, `understated` if worse.
    arithmetic: the verdict that the figures would have, if none of them was read at its source; else None.
    convention: the convention that gives the print, as a code of `trio-profile flops` or in words.
    why: the arithmetic, so that a reader can repeat it by hand.
    measured: our own measurement of the same setting.
    """

    check: str
    where: str
    quantity: str
    printed: str
    recomputed: float | None = None
    interval: tuple[float, float] | None = None
    unit: str = ""
    verdict: Verdict
    arithmetic: Verdict | None = None
    convention: str | None = None
    why: str
    measured: Measured | None = None

    @property
    def inconsistent(self) -> bool:
        """Whether figures contradict each other."""
        return self.verdict in INCONSISTENT

    def rests_on(self, place: str) -> bool:
        """Whether the finding is about the row of this place, or takes a figure from it."""
        return place in self.where.split("; ") or re.search(rf"(?<!\w){re.escape(place)}(?!\w)", self.why) is not None


class AuditDocument(Document):
    """The document of `trio-profile audit --json`.

    sessions: when and by what the audit was done; the sessions of our own measurements follow.
    environment, study: of our own measurements, if they are compared with the claims.
    name: of the claims file.
    paper, source: as in the file.
    sources: the place of each table in the paper.
    figures: the number of printed figures.
    recomputed: how many of them were recomputed from others.
    claims: the findings.
    alone: rows without a finding, because no other figure tests them.
    tally: the number of findings by verdict, in the order of VERDICTS, without zeros.
    """

    environment: Environment | None = None
    study: Study | None = None
    name: str
    paper: str
    source: str | None = None
    sources: dict[str, str]
    figures: int
    recomputed: int
    claims: tuple[Finding, ...]
    alone: tuple[str, ...]
    tally: dict[Verdict, int]
    report: str | None = None

    @property
    def inconsistent(self) -> bool:
        """Whether any figures contradict each other."""
        return any(finding.inconsistent for finding in self.claims)


def conclude(document: AuditDocument) -> Conclusion:
    """Return whether the paper's figures follow from each other."""
    contradict = sum(finding.inconsistent for finding in document.claims)
    follow = sum(finding.verdict == "supported" for finding in document.claims)
    unsettled = len(document.claims) - follow - contradict
    return of_audit(follow, contradict, unsettled, document.figures, document.recomputed)


@dataclass(frozen=True)
class Subject:
    """The subject of a finding: its fields without the result."""

    check: str
    where: str
    quantity: str
    printed: str
    unit: str = ""
    convention: str | None = None

    @classmethod
    def of(cls, line: Line, check: str, figure: Figure, **fields: str | None) -> "Subject":
        """The subject of a finding about a figure of a row. fields: replace the quantity, the print or the unit."""
        meant = figure.quantity
        about = {"quantity": meant.name, "printed": figure.printed.text, "unit": meant.unit} | fields
        return cls(check, line.place, **about)  # pyright: ignore[reportArgumentType]

    def finding(self, verdict: Verdict, why: str, recomputed: Interval | Fraction | float | None = None) -> Finding:
        """The finding with this result. Only an Interval has an interval of what rounding allows."""
        interval = None
        if isinstance(recomputed, Interval):
            interval, recomputed = (float(recomputed.low), float(recomputed.high)), recomputed.value
        value = None if recomputed is None else float(recomputed)
        return Finding(**vars(self), verdict=verdict, why=why, recomputed=value, interval=interval)


def judge(printed: Printed, recomputed: Interval, *, larger_is_better: bool) -> Verdict:
    """Compare a print with the recomputed interval. It is supported if any rounding makes them agree."""
    if printed.allowed.meets(recomputed):
        return "supported"
    above = printed.allowed.low > recomputed.high
    return "overstated" if above == larger_is_better else "understated"


HOW: dict[How, str] = {"rounded": "rounded", "truncated": "cut off, not rounded", "no": ""}
"""How a value becomes a print, in words; empty if only the rounding of its inputs explains the print."""


def number(value: Fraction | float) -> str:
    """A value for a sentence: all digits of a whole number, else as `units.plain`."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value.numerator)
    return units.plain(float(value))


def share(value: Fraction | float) -> str:
    """A share for a sentence."""
    return units.percent(float(value))


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings that differ only in their place, in the order of the first."""
    places: dict[Finding, list[str]] = {}
    for finding in findings:
        places.setdefault(finding.model_copy(update={"where": ""}), []).append(finding.where)
    return [finding.model_copy(update={"where": "; ".join(at)}) for finding, at in places.items()]
