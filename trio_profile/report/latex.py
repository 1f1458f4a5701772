"""A report as LaTeX, for a paper. It needs the font encoding T1, and the packages booktabs and longtable."""

import re
from functools import cache

from trio_profile.report.blocks import Report
from trio_profile.report.definitions import read_yaml
from trio_profile.report.preparing import text_of

_PLAIN = "–—‘’“”"
_LAST_LETTER = 0x17F
"""The last letter of Latin Extended-A."""
_NOT_IN_T1 = "ĦħĸĿŀŉŦŧſ"
"""The letters up to there that T1 lacks."""
_LIGATURE = re.compile(r"([-,'`])(?=\1)|([?!])(?=`)")
"""The first of two characters that a font of T1 would print as one."""


def latex(report: Report, *, only_tables: bool = False) -> str:
    """The whole report as LaTeX, or its tables alone, without headings: what a paper inputs."""
    return text_of(report, "latex", _tex, only_tables=only_tables)


def _tex(text: str) -> str:
    """Text that stays text."""
    return separated("".join(symbols().get(char) or known(char) for char in text))


@cache
def symbols() -> dict[str, str]:
    """LaTeX for a character that pdflatex would read as a command, or does not know by itself."""
    return read_yaml("latex.yaml")


def known(char: str) -> str:
    """A character as pdflatex knows it. One that it cannot print becomes its number: `U+4E2D`."""
    is_letter = char.isalpha() and ord(char) <= _LAST_LETTER and char not in _NOT_IN_T1
    if char.isascii() or char in _PLAIN or is_letter:
        return char
    return rf"\texttt{{U+{ord(char):04X}}}"


def separated(text: str) -> str:
    """Text in which no two characters become one: two hyphens stay two hyphens."""
    return _LIGATURE.sub(r"\g<0>{}", text)
