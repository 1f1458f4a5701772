"""Characters in LaTeX that pdflatex with the font encoding T1 does not know by itself."""

import re

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
    "Δ": r"$\Delta$",
    "Ω": r"$\Omega$",
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
"""What stands for a character."""
_PLAIN = "–—‘’“”"
_LAST_LETTER = 0x17F
"""The last letter of Latin Extended-A."""
_NOT_IN_T1 = "ĦħĸĿŀŉŦŧſ"
"""The letters up to there that T1 lacks."""
_LIGATURE = re.compile(r"([-,'`])(?=\1)|([?!])(?=`)")
"""The first of two characters that a font of T1 would print as one."""


def known(char: str) -> str:
    """A character as pdflatex knows it. One that it cannot print becomes its number: `U+4E2D`."""
    is_letter = char.isalpha() and ord(char) <= _LAST_LETTER and char not in _NOT_IN_T1
    if char.isascii() or char in _PLAIN or is_letter:
        return char
    return rf"\texttt{{U+{ord(char):04X}}}"


def separated(text: str) -> str:
    """Text in which no two characters become one: two hyphens stay two hyphens."""
    return _LIGATURE.sub(r"\g<0>{}", text)
