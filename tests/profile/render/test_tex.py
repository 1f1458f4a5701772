import pytest

from trio_profile.render.tex import SYMBOLS, known


def test_every_greek_letter_has_its_own_name():
    assert (SYMBOLS["α"], SYMBOLS["γ"], SYMBOLS["τ"], SYMBOLS["ω"]) == (
        r"$\alpha$",
        r"$\gamma$",
        r"$\tau$",
        r"$\omega$",
    )
    assert "ο" not in SYMBOLS and "ς" not in SYMBOLS


@pytest.mark.parametrize(
    ("char", "text"),
    [("a", "a"), ("é", "é"), ("ł", "ł"), ("–", "–"), ("中", r"\texttt{U+4E2D}"), ("👩", r"\texttt{U+1F469}")],
)
def test_a_letter_stays_and_what_tex_cannot_print_becomes_its_number(char, text):
    assert known(char) == text
