"""Printed figures as exact intervals: the values that a number may have had before it was rounded or truncated.

A print keeps its text, because trailing zeros count: `2.0` is from 1.95 to 2.1, `2` is from 1.5 to 3.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal

How = Literal["rounded", "truncated", "no"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)
_MOST_DIGITS = 24


ABLATIONS: dict[str, dict[str, float]] = {
    "k_pos": {"1": 92.1, "2": 94.6, "3": 94.6, "4": 94.9, "5": 94.9, "6": 94.8, "7": 94.7, "8": 94.8},
    "threshold": {"0.70": 94.6, "0.75": 94.7, "0.80": 94.8, "0.85": 94.4, "0.90": 94.2, "0.95": 93.6, "none": 92.1},
    "layers": {"1, 10, 15": 84.3, "1, 9, 14": 83.9, "1, 11, 16": 84.2},
}
"""The paper's figures for LLaVA-1.5-7B at 64 tokens, by group and variant. For `k_pos` and `threshold` they are the
mean share of the dense scores that is kept, in percent. For `layers` they are the POPE score.
[arXiv 2602.04657, its three tables of ablations; data/claims/trio-2026.yaml]."""


@dataclass(frozen=True)
class Interval:
    """A value, and all numbers from `low` to `high` that it may be, both included."""

    low: Fraction
    high: Fraction
    value: Fraction

    @classmethod
    def at(cls, value: Fraction | int) -> "Interval":
        """The interval of one number."""
        return cls(Fraction(value), Fraction(value), Fraction(value))

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high, self.value + other.value)

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(self.low - other.high, self.high - other.low, self.value - other.value)

    def __truediv__(self, other: "Interval") -> "Interval":
        """The quotient by an interval above zero."""
        ends = [end / by for end in (self.low, self.high) for by in (other.low, other.high)]
        return Interval(min(ends), max(ends), self.value / other.value)

    def times(self, factor: Fraction | int) -> "Interval":
        """The interval times a number that is not negative."""
        return Interval(self.low * factor, self.high * factor, self.value * factor)

    def meets(self, other: "Interval") -> bool:
        """Whether the intervals overlap."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Printed:
    """A figure as printed.

    value: of its digits.
    last: the value of one unit of its last digit.
    """

    text: str
    value: Fraction
    last: Fraction

    @staticmethod
    @lru_cache(10_000)
    def of(text: str) -> "Printed":
        """A figure from its text. Raises ValueError if it is no decimal number of at most 24 digits."""
        if not _NUMBER.fullmatch(text) or sum(map(str.isdigit, text)) > _MOST_DIGITS:
            raise ValueError(f"{text[:40]!r} is not a decimal number of at most {_MOST_DIGITS} digits")
        number = Decimal(text)
        return Printed(text, Fraction(number), Fraction(Decimal(1).scaleb(int(number.as_tuple().exponent))))

    @property
    def allowed(self) -> Interval:
        """The values that are rounded or truncated to it."""
        return Interval(self.value - self.last / 2, self.value + self.last, self.value)

    def how(self, value: Fraction) -> How:
        """How a value becomes this print."""
        if abs(value - self.value) <= self.last / 2:
            return "rounded"
        return "truncated" if self.value <= value < self.value + self.last else "no"

    def names(self, other: "Printed") -> bool:
        """Whether both name the same setting. With equally many digits they must be equal.

        Otherwise the one with fewer digits may be rounded or truncated.
        """
        if self.last == other.last:
            return self.value == other.value
        coarse, fine = (self, other) if self.last > other.last else (other, self)
        return coarse.how(fine.value) != "no"
