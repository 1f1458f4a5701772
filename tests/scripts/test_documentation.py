"""The generated pages are current, docstrings become lists, and a link that leads nowhere is found."""

import re
import runpy
from pathlib import Path

import pytest

import trio_core
import trio_profile
from documentation import links, pages
from documentation.docstrings import markdown, meanings, without_items
from trio_core import methods
from trio_profile.cli import verbs

ROOT = Path(__file__).parents[2]
TEXTS: dict[str, str] = runpy.run_path(str(ROOT / "scripts" / "reference"))["texts"]()
PYTHON = (ROOT / "docs" / "reference" / "python.md").read_text()


# --- generated pages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_a_generated_page_is_current(name):
    assert (ROOT / "docs" / "reference" / name).read_text() == TEXTS[name], "run scripts/reference"


def test_every_verb_has_its_section_and_every_method_too():
    for name, _, _ in verbs.commands():
        assert f"\n### {name}\n" in TEXTS["command-line.md"]
    for name in methods.names():
        assert f"\n### {name}\n" in TEXTS["methods.md"]


def test_the_options_of_a_verb_are_those_that_it_accepts():
    from typer.main import get_command

    page = TEXTS["command-line.md"]
    for name, command in get_command(verbs.app).commands.items():
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        shown = set(re.findall(r"`(--?[\w-]+)", "\n".join(re.findall(r"^\| (`-.*?) \|", section, flags=re.MULTILINE))))
        accepted = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert shown == {option for option in accepted if option.startswith("-")}, name


def test_the_python_page_has_everything_that_the_packages_offer():
    offered = [f"trio_core.{name}" for name in trio_core.__all__ if name != "methods"]
    offered += [f"trio_profile.{name}" for name in trio_profile.__all__]
    assert [name for name in offered if f"::: {name}\n" not in PYTHON] == []


# --- docstrings ------------------------------------------------------------------------------------------------------

DOCSTRING = """Keep some tokens.

share: how many, in (0, 1],
    of all.
first, last: two places.
Raises OptionError for a share of 0.

Note: this is a sentence.

    code: stays
"""
NAMES = {"share": " `float`", "first": "", "last": "", "code": ""}


def test_lines_of_arguments_become_a_list():
    assert markdown(DOCSTRING, NAMES) == (
        "Keep some tokens.\n\n"
        "- **`share`** `float`: how many, in (0, 1], of all.\n- **`first`**, **`last`**: two places.\n\n"
        "Raises OptionError for a share of 0.\n\nNote: this is a sentence.\n\n    code: stays"
    )


def test_meanings_and_the_rest_of_a_docstring():
    assert meanings(DOCSTRING, NAMES) == {
        "share": "how many, in (0, 1], of all.",
        "first": "two places.",
        "last": "two places.",
    }
    assert without_items(DOCSTRING, NAMES).startswith("Keep some tokens.\n\nRaises OptionError")


# --- links -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path):
    """A site of two pages, of which the first has one more element; returns what is wrong with it."""

    def build(element: str) -> list[str]:
        (tmp_path / "a.html").write_text(f'<h1 id="top">A</h1><a href="b.html#there">b</a>{element}')
        (tmp_path / "b.html").write_text('<h2 id="there">B</h2><a href="a.html">a</a><a href="#there">here</a>')
        return links.check(tmp_path)

    return build


def test_a_site_without_a_broken_link_has_no_findings(site):
    assert site('<a href="https://arxiv.org/abs/2602.04657">paper</a>') == []


@pytest.mark.parametrize(
    ("element", "says"),
    [
        ('<a href="c.html">c</a>', "c.html: there is no such file"),
        ('<a href="b.html#elsewhere">b</a>', "the page has no place 'elsewhere'"),
        ('<a href="#elsewhere">b</a>', "the page has no place 'elsewhere'"),
        ('<img src="picture.png">', "there is no such file"),
        ('<a href="/b.html">b</a>', "is not relative"),
        ('<a href="https://nowhere">b</a>', "is no address"),
        ('<script src="https://cdn.example.org/a.js"></script>', "is loaded from the network"),
        ('<link rel="stylesheet" href="https://fonts.example.org/a.css">', "is loaded from the network"),
        ("<p>A list:\n- one\n- two</p>", "Markdown wants an empty line before"),
    ],
)
def test_what_is_wrong_with_a_link_is_said_with_its_page(site, element, says):
    found = site(element)
    assert found and all(line.startswith("a.html: ") for line in found)
    assert says in found[0]


def test_a_broken_link_of_a_markdown_file_is_found(tmp_path):
    (tmp_path / "README.md").write_text("[here](README.md) [there](docs/none.md) [web](https://example.org/none)")
    assert links.check_files([tmp_path / "README.md"], tmp_path) == ["README.md: docs/none.md: there is no such file"]


# --- llms.txt --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A title\n\nOne `sentence` of two\nlines. Another.\n", ("A title", "One sentence of two lines.")),
        ("# A [link](b.md)\n\n- a list\n\nA question? Yes.\n", ("A link", "a list")),
        ("# Only a title\n", ("Only a title", "")),
        ("# Numbers\n\nIt is 1.5 times, e.g. here. So.\n", ("Numbers", "It is 1.5 times, e.g. here.")),
    ],
)
def test_the_title_and_the_first_sentence_of_a_page(text, expected):
    assert pages.title_and_sentence(text) == expected


def test_every_page_is_in_the_nav_and_the_other_way_round():
    assert pages.missing(ROOT) == []
