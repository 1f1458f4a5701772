"""Printed figures as exact intervals: what a number may have been before it was rounded, or cut off, to be printed.

A print keeps its text, because trailing zeros count: `2.0` was between 1.95 and 2.1, `2` between 1.5 and 3.
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


@dataclass(frozen=True)
class Interval:
    """All numbers from `low` to `high`, both included, exactly."""

    low: Fraction
    high: Fraction

    @classmethod
    def at(cls, value: Fraction | int) -> "Interval":
        """One number alone."""
        return cls(Fraction(value), Fraction(value))

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(self.low - other.high, self.high - other.low)

    def __truediv__(self, other: "Interval") -> "Interval":
        """Over an interval above zero."""
        ends = [end / by for end in (self.low, self.high) for by in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def times(self, factor: Fraction | int) -> "Interval":
        """All of it times one number, which is not negative."""
        return Interval(self.low * factor, self.high * factor)

    def meets(self, other: "Interval") -> bool:
        """Whether some number lies in both."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Printed:
    """A figure as printed. value: of its digits. last: what one unit of its last digit is worth."""

    text: str
    value: Fraction
    last: Fraction

    @staticmethod
    @lru_cache(10_000)
    def of(text: str) -> "Printed":
        """From its text. Raises ValueError for what is no decimal number of at most 24 digits."""
        if not _NUMBER.fullmatch(text) or sum(map(str.isdigit, text)) > _MOST_DIGITS:
            raise ValueError(f"{text[:40]!r} is not a decimal number of at most {_MOST_DIGITS} digits")
        number = Decimal(text)
        return Printed(text, Fraction(number), Fraction(Decimal(1).scaleb(int(number.as_tuple().exponent))))

    @property
    def rounded(self) -> Interval:
        """What rounds to it."""
        return Interval(self.value - self.last / 2, self.value + self.last / 2)

    @property
    def allowed(self) -> Interval:
        """What rounds to it, or is cut off to it."""
        return Interval(self.value - self.last / 2, self.value + self.last)

    def how(self, value: Fraction) -> How:
        """How a value becomes this print."""
        if self.rounded.low <= value <= self.rounded.high:
            return "rounded"
        return "truncated" if self.value <= value < self.value + self.last else "no"

    def agrees(self, other: "Printed") -> bool:
        """Whether both may print one value. A print with fewer digits agrees with what rounds, or is cut off, to it."""
        return self.allowed.meets(other.allowed) if self.last == other.last else self.names(other)

    def names(self, other: "Printed") -> bool:
        """Whether both name one setting: with as many digits they are the same, with fewer as in `agrees`."""
        if self.last == other.last:
            return self.value == other.value
        coarse, fine = (self, other) if self.last > other.last else (other, self)
        return coarse.how(fine.value) != "no"
