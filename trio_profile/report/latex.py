"""A report as LaTeX, for a paper. It needs the font encoding T1, and the packages booktabs and longtable."""

import re

from trio_profile.report.blocks import Report
from trio_profile.report.columns import MARK
from trio_profile.report.preparing import text_of

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi . pi rho . sigma tau upsilon phi chi psi "
    "omega"
)
"""From U+03B1 on. A full stop stands for a letter that LaTeX has no name for."""
_SUPERSCRIPTS = {**dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)), "⁻": "$-$", "⁺": "+"}
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
SYMBOLS = {
    **{chr(ord("α") + place): rf"$\{name}$" for place, name in enumerate(_GREEK.split()) if name != "."},
    **{char: rf"\textsuperscript{{{text}}}" for char, text in _SUPERSCRIPTS.items()},
    **{char: f"$_{text}$" for char, text in _SUBSCRIPTS.items()},
    "√": r"$\sqrt{\ }$",
    "∂": r"$\partial$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "∈": r"$\in$",
    "½": r"$\frac{1}{2}$",
    "⌊": r"$\lfloor$",
    "⌋": r"$\rfloor$",
    "µ": r"$\mu$",
    "*": "{*}",  # after a row's end it would be an argument
}
"""LaTeX for a character that pdflatex does not know by itself with the font encoding T1."""
_PLAIN = "–—‘’“”"
_LAST_LETTER = 0x17F
"""The last letter of Latin Extended-A."""
_NOT_IN_T1 = "ĦħĸĿŀŉŦŧſ"
"""The letters up to there that T1 lacks."""
_LIGATURE = re.compile(r"([-,'`])(?=\1)|([?!])(?=`)")
"""The first of two characters that a font of T1 would print as one."""
_TEX = {
    **SYMBOLS,
    **{char: rf"\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after a row's end, or after an item, a bracket would begin an argument
    "]": "{]}",
    "Σ": r"$\Sigma$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "−": "$-$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\to$",
    "‖": r"$\|$",
    "…": r"\ldots{}",
    MARK: r"\textdagger{}",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
    "\N{NO-BREAK SPACE}": "~",
    "\n": " ",
}


def latex(report: Report, *, only_tables: bool = False) -> str:
    """The whole report as LaTeX, or its tables alone, without headings: what a paper inputs."""
    return text_of(report, "latex", _tex, only_tables=only_tables)


def _tex(text: str) -> str:
    """Text that stays text."""
    return separated("".join(_TEX.get(char) or known(char) for char in text))


def known(char: str) -> str:
    """A character as pdflatex knows it. One that it cannot print becomes its number: `U+4E2D`."""
    is_letter = char.isalpha() and ord(char) <= _LAST_LETTER and char not in _NOT_IN_T1
    if char.isascii() or char in _PLAIN or is_letter:
        return char
    return rf"\texttt{{U+{ord(char):04X}}}"


def separated(text: str) -> str:
    """Text in which no two characters become one: two hyphens stay two hyphens."""
    return _LIGATURE.sub(r"\g<0>{}", text)
