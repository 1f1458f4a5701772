"""LaTeX compiles: by TeX where it is installed, and by its structure everywhere."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.profile.examples import answered, document, failed, measurement, study
from trio_profile.findings import sweep
from trio_profile.findings.blocks import Entry, Page, Report, Sentences, Table, Terms
from trio_profile.render.latex import SYMBOLS, known, latex, separated

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
        Table(HOSTILE, [HOSTILE, "b"], [[Entry("[a]"), Entry("2.1 × 10⁻⁴")], [Entry("*"), Entry(HOSTILE, span=1)]]),
        Table("", ["a", "b", "c"], [[Entry("a"), Entry("over two", span=2)]], [("", 1), ("both", 2)]),
        Table("without rows", ["a", "b"], []),
        Table("prose", ["a", "b"], [[Entry("a"), Entry("long " * 60)]], prose=True),
    ]
    return Report(HOSTILE, HOSTILE, [HOSTILE], [Page("page", HOSTILE, HOSTILE, blocks)])


def faults(text: str) -> list[str]:
    """What TeX would stumble over: open groups and environments, rows of the wrong width, bare special characters."""
    found, depth, environments = [], 0, []
    body = re.sub(r"^%.*\n", "", text)
    for token in re.findall(r"\\begin\{\w+\}|\\end\{\w+\}|\\.|[{}$%#~^]", body.replace(r"\_", "")):
        if token.startswith(("\\begin", "\\end")):
            name = re.sub(r"\\\w+\{(\w+)\}", r"\1", token)
            if token.startswith("\\begin"):
                environments.append(name)
            elif not environments or environments.pop() != name:
                found.append(f"{token} ends nothing")
        elif token in "{}":
            depth += 1 if token == "{" else -1
        elif token in ("%", "#", "^"):
            found.append(f"a bare {token}")
    if depth or environments:
        found.append(f"{depth} groups and {environments} are open")
    without_maths = re.sub(r"\$[^$]*\$", "", body)
    if "$" in without_maths.replace(r"\$", ""):
        found.append("a formula is open")
    allowed = "–—‘’“”"
    found += [f"the character {char!r}" for char in body if ord(char) > 0x17F and char not in allowed]
    return [*found, *wrong_rows(body)]


def wrong_rows(body: str) -> list[str]:
    """The rows of a table that have more columns than it."""
    found = []
    for shape, rows in re.findall(r"\\begin\{longtable\}\{(.*)\}\n(.*?)\\end\{longtable\}", body, flags=re.DOTALL):
        width = len(re.sub(r"p\{\\dimexpr[^}]*\\relax\}", "p", shape))
        for line in rows.split("\\\\"):
            spans = [int(span) for span in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            columns = len(re.findall(r"(?<!\\)&", line)) + 1 + sum(span - 1 for span in spans)
            if "\\caption" not in line and columns > width:
                found.append(f"{columns} columns in a table of {width}: {line[:80]}")
    return found


@pytest.mark.parametrize("made", [report, every_block])
def test_the_structure_is_whole_whatever_the_names_are(made):
    assert faults(latex(made())) == []


def test_the_check_of_the_structure_notices_faults():
    for text in (
        "{",
        "\\begin{itemize}",
        "50%",
        "a#b",
        "$x",
        "中",
        "\\begin{longtable}{l}\na & b \\\\\n\\end{longtable}",
    ):
        assert faults("\n" + text), text


def test_a_caption_stands_inside_its_table_and_heads_on_every_page():
    table = Table("How fast", ["Method", "Prefill"], [[Entry("trio"), Entry("1.5×")]])
    text = latex(Report("a", "b", [], [Page("page", "Page", "", [table])]))
    lines = text[text.index("\\begin{longtable}") :].splitlines()
    assert lines[1] == "\\caption{How fast} \\\\"
    assert lines[2].startswith("\\toprule Method & Prefill") and lines[2].endswith("\\midrule \\endfirsthead")
    assert lines[3].endswith("\\midrule \\endhead") and lines[-2:] == ["\\bottomrule", "\\end{longtable}"]


@pytest.mark.skipif(TEX is None, reason="no pdflatex: apt-get install texlive-latex-extra")
@pytest.mark.parametrize("made", [report, every_block])
def test_tex_compiles_it(made, tmp_path: Path):
    (tmp_path / "page.tex").write_text(DOCUMENT % latex(made()))
    assert TEX is not None
    command = [TEX, "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in done.stdout.casefold()


# --- characters -------------------------------------------------------------------------------------------------------


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


@pytest.mark.skipif(TEX is None, reason="no pdflatex here")
def test_tex_prints_every_letter_that_stays(tmp_path: Path):
    letters = "\n".join(known(chr(number)) for number in range(0xA0, 0x200))
    (tmp_path / "letters.tex").write_text(DOCUMENT % letters)
    assert TEX is not None
    command = [TEX, "-interaction=nonstopmode", "-halt-on-error", "letters.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
