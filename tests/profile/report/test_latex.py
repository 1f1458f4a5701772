"""LaTeX compiles: by TeX where it is installed, and by its structure everywhere."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.profile.examples import answered, document, failed, measurement, study
from trio_profile.kinds.grid import sweep
from trio_profile.report.blocks import Entry, Page, Report, Sentences, Table, Terms
from trio_profile.report.columns import MARK
from trio_profile.report.latex import known, latex, separated, symbols

TEX = shutil.which("pdflatex")
HOSTILE = "\\end{document} 100% & #1 $x$ a_b^c ~ {} [opt] <tag> -- 中文 👩 ÿ ąđðŋþ Ħſ * --- ,, `` '' ?`"
DOCUMENT = (
    "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{booktabs, longtable}\n"
    "\\begin{document}\n%s\n\\end{document}\n"
)


def report() -> Report:
    """A sweep with a hostile name, known answers, and a cell that failed."""
    asked = study(methods=(HOSTILE,), model=HOSTILE, retentions=(0.11, 0.55))
    unpruned, cells = answered([measurement(HOSTILE, 0.11)])
    return sweep.report(document(asked, [*cells, failed(HOSTILE, 0.55, HOSTILE)], unpruned=unpruned))


def every_block() -> Report:
    blocks = [
        Sentences(HOSTILE, [HOSTILE, "[first]"]),
        Terms(HOSTILE, [(HOSTILE, HOSTILE)]),
        Table(HOSTILE, [HOSTILE, "b"], [[Entry("[a]"), Entry("2.1 × 10⁻⁴")], [Entry("*"), Entry(HOSTILE)]]),
        Table("without rows", ["a", "b"], []),
        Table("prose", ["a", "b"], [[Entry("a"), Entry("long " * 60)]], prose=True),
    ]
    return Report(HOSTILE, HOSTILE, [HOSTILE], [Page("page", HOSTILE, HOSTILE, blocks)])


@pytest.mark.skipif(TEX is None, reason="no pdflatex: apt-get install texlive-latex-extra")
def test_tex_compiles_it_whatever_the_names_are(tmp_path: Path):
    letters = "\n".join(known(chr(number)) for number in range(0xA0, 0x200))
    text = "\n".join([latex(report()), latex(every_block()), letters])
    (tmp_path / "page.tex").write_text(DOCUMENT % text)
    command = [str(TEX), "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in done.stdout.casefold()


def test_a_caption_stands_inside_its_table_and_heads_on_every_page():
    table = Table("How fast", ["Method", "Prefill"], [[Entry("trio"), Entry("1.5×")]])
    text = latex(Report("a", "b", [], [Page("page", "Page", "", [table])]))
    lines = text[text.index("\\begin{longtable}") :].splitlines()
    assert lines[1] == "\\caption{How fast} \\\\"
    assert lines[2].startswith("\\toprule Method & Prefill") and lines[2].endswith("\\midrule \\endfirsthead")
    assert lines[3].endswith("\\midrule \\endhead") and lines[-2:] == ["\\bottomrule", "\\end{longtable}"]


def test_a_letter_stays_and_what_tex_cannot_print_becomes_its_number():
    for char in "aéłđ–":
        assert known(char) == char
    for char, text in (("ħ", "U+0127"), ("中", "U+4E2D"), ("👩", "U+1F469")):
        assert known(char) == rf"\texttt{{{text}}}"
    assert (symbols()["γ"], symbols()["µ"], symbols()[MARK]) == (r"$\gamma$", r"$\mu$", r"\textdagger{}")


def test_characters_that_a_font_would_join_are_separated():
    assert separated("---,,''``?`") == "-{}-{}-,{},'{}'`{}`?{}`"
    assert separated("a-b, c") == "a-b, c"
