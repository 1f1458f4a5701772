"""What an audit finds of one printed figure, and how a recomputation becomes a verdict."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from trio_profile import units
from trio_profile.audit.claims import Row, Table
from trio_profile.audit.printed import Interval, Printed
from trio_profile.records.schema import Record

Verdict = Literal["supported", "overstated", "understated", "not_comparable", "underdetermined"]
INCONSISTENT: tuple[Verdict, ...] = ("overstated", "understated", "not_comparable")
"""Verdicts that say that figures contradict each other, or one word two things: `--strict` exits with 1 on them."""


class Measured(Record):
    """What our own study saw of the same setting: a paired ratio with its interval, an exact one, or a break-even."""

    value: float
    ci95: tuple[float, float]
    method: str
    retention: float
    samples: int | None = None


class Finding(Record):
    """One printed figure, recomputed.

    where: table and row of the claims file. printed: the text. recomputed: in `unit`, with the interval that rounding
    allows; None where nothing can be recomputed. convention: that which reproduces the print, as a code of
    `trio-profile flops` or in words. why: the arithmetic, to be redone by hand.
    overstated: the print makes the method look better than its own figures do; understated: worse.
    """

    check: str
    where: str
    quantity: str
    printed: str
    recomputed: float | None = None
    interval: tuple[float, float] | None = None
    unit: str = ""
    verdict: Verdict
    convention: str | None = None
    why: str
    measured: Measured | None = None

    @property
    def inconsistent(self) -> bool:
        """Whether figures contradict each other here."""
        return self.verdict in INCONSISTENT


@dataclass(frozen=True)
class Subject:
    """What a finding is about, before anything is found."""

    check: str
    where: str
    quantity: str
    printed: str
    unit: str = ""
    convention: str | None = None

    def finding(
        self,
        verdict: Verdict,
        why: str,
        recomputed: Fraction | float | None = None,
        interval: Interval | None = None,
    ) -> Finding:
        """What was found of it."""
        return Finding(
            check=self.check,
            where=self.where,
            quantity=self.quantity,
            printed=self.printed,
            recomputed=None if recomputed is None else float(recomputed),
            interval=None if interval is None else (float(interval.low), float(interval.high)),
            unit=self.unit,
            verdict=verdict,
            convention=self.convention,
            why=why,
        )


def place(table: Table, row: Row) -> str:
    """How a row is called in findings."""
    return f"{table.name}, {row.label}"


def judge(printed: Printed, found: Interval, *, larger_is_better: bool) -> Verdict:
    """A print held against what its own figures allow: supported if any rounding makes them meet."""
    if printed.allowed.meets(found):
        return "supported"
    above = printed.allowed.low > found.high
    return "overstated" if above == larger_is_better else "understated"


def as_printed(printed: Printed, value: Fraction) -> str:
    """How a recomputed value becomes the print, in words; empty if only the rounding of its figures explains it."""
    return {"rounded": "rounded", "truncated": "cut off, not rounded", "no": ""}[printed.how(value)]


def number(value: Fraction | float) -> str:
    """A value in a sentence: every digit of a whole number, else as `units.plain`."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value.numerator)
    return units.plain(float(value))


def share(value: Fraction | float) -> str:
    """A share in a sentence."""
    return units.percent(float(value))


def listed(items: Iterable[str]) -> str:
    """`a, b and c`."""
    items = list(items)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that differ in nothing but their place become one, in the order of the first."""
    places: dict[Finding, list[str]] = {}
    for finding in findings:
        places.setdefault(finding.model_copy(update={"where": ""}), []).append(finding.where)
    return [finding.model_copy(update={"where": "; ".join(at)}) for finding, at in places.items()]
