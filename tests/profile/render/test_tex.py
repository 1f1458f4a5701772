"""Characters in LaTeX."""

import subprocess
from pathlib import Path

import pytest

from tests.profile.render.test_latex import DOCUMENT, TEX
from trio_profile.render.tex import known, separated


@pytest.mark.parametrize(
    ("char", "text"),
    [
        ("a", "a"),
        ("é", "é"),
        ("ł", "ł"),
        ("đ", "đ"),
        ("ħ", r"\texttt{U+0127}"),
        ("–", "–"),
        ("中", r"\texttt{U+4E2D}"),
        ("👩", r"\texttt{U+1F469}"),
    ],
)
def test_a_letter_stays_and_what_tex_cannot_print_becomes_its_number(char, text):
    assert known(char) == text


def test_characters_that_a_font_would_join_are_separated():
    assert separated("---,,''``?`") == "-{}-{}-,{},'{}'`{}`?{}`"
    assert separated("a-b, c") == "a-b, c"


@pytest.mark.skipif(TEX is None, reason="no pdflatex: apt-get install texlive-latex-extra")
def test_tex_prints_every_letter_that_stays(tmp_path: Path):
    letters = "\n".join(known(chr(number)) for number in range(0xA0, 0x200))
    (tmp_path / "letters.tex").write_text(DOCUMENT % letters)
    assert TEX is not None
    command = [TEX, "-interaction=nonstopmode", "-halt-on-error", "letters.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
