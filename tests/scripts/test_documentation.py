"""The generated page is current, docstrings become lists, and a link that leads nowhere is found."""

import runpy
from pathlib import Path

import griffe
import pytest

import trio_core
import trio_profile
from documentation import links, pages
from documentation.docstrings import Fields

ROOT = Path(__file__).parents[2]
METHODS: str = runpy.run_path(str(ROOT / "scripts" / "reference"))["page"]()
PYTHON = (ROOT / "docs" / "reference" / "python.md").read_text()


# --- the generated page -----------------------------------------------------------------------------------------------


def test_the_page_of_the_methods_is_current():
    assert (ROOT / "docs" / "reference" / "methods.md").read_text() == METHODS, "run scripts/reference"


def test_the_python_page_has_everything_that_the_packages_offer():
    offered = [f"trio_core.{name}" for name in trio_core.__all__ if name != "methods"]
    offered += [f"trio_profile.{name}" for name in trio_profile.__all__]
    assert [name for name in offered if f"::: {name}\n" not in PYTHON] == []


# --- docstrings ------------------------------------------------------------------------------------------------------


def test_the_type_of_a_field_is_shown_without_what_annotated_adds(tmp_path):
    top = 'from typing import Annotated, Literal\n\nclass A:\n    """A class.\n\n    a: meaning.\n    """\n\n'
    for line, shown in (
        ("a: Annotated[int, Field(ge=1)] | None = None", " `int | None = None`"),
        ("a: dict[str, int] = Field(default_factory=dict)", " `dict[str, int]`"),
        ("a: Literal['x', 'y'] = 'x'", " `Literal['x', 'y'] = 'x'`"),
    ):
        (tmp_path / "fields.py").write_text(f"{top}    {line}\n")
        package = griffe.load("fields", search_paths=[tmp_path], extensions=griffe.load_extensions(Fields))
        assert package["A"].docstring.value == f"A class.\n\n- **`a`**{shown}: meaning."


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


def test_what_is_wrong_with_a_link_is_said_with_its_page(site):
    for element, says in (
        ('<a href="c.html">c</a>', "c.html: there is no such file"),
        ('<a href="b.html#elsewhere">b</a>', "the page has no place 'elsewhere'"),
        ('<img src="picture.png">', "there is no such file"),
        ('<a href="/b.html">b</a>', "is not relative"),
        ('<a href="https://nowhere">b</a>', "is no address"),
        ('<script src="https://cdn.example.org/a.js"></script>', "is loaded from the network"),
        ("<p>A list:\n- one\n- two</p>", "Markdown wants an empty line before"),
    ):
        found = site(element)
        assert found and all(line.startswith("a.html: ") for line in found)
        assert says in found[0]


OTHER = "# A `head_line`: one & two\n\n## Again\n\n## Again\n\n<a id='mark'></a>\n\n```text\n# none\n```\n"


@pytest.fixture
def file_with(tmp_path):
    """A function that writes README.md beside OTHER.md and docs/page.md; returns what is wrong with its links."""
    (tmp_path / "OTHER.md").write_text(OTHER)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# Page\n\n## `a_b` { #a-b }\n")

    def check(text: str) -> list[str]:
        (tmp_path / "README.md").write_text(f"# Title\n\n{text}\n")
        return links.check_files([tmp_path / "README.md", tmp_path / "OTHER.md"], tmp_path)

    return check


def test_links_of_a_markdown_file_that_lead_somewhere_are_no_findings(file_with):
    good = (
        "[here](README.md) [web](https://example.org/none) [folder](docs) `[code](none.md)`",
        "[here](#title) [head](OTHER.md#a-head_line-one--two) [page](docs/page.md#page)",
        '[second](OTHER.md#again-1) [mark](OTHER.md#mark) <a href="OTHER.md#again">again</a>',
    )
    assert file_with("\n".join(good)) == []


def test_a_broken_link_of_a_markdown_file_is_found(file_with):
    for text, says in (
        ('[there](none.md "title")', "none.md: there is no such file"),
        ("[there][1]\n\n[1]: none.md", "none.md: there is no such file"),
        ("| head |\n|---|\n| [there](none.md) |", "none.md: there is no such file"),
        ('<p align="center">\n<img src="none.png">\n</p>', "none.png: there is no such file"),
        ("[a](OTHER.md#again-2)", "OTHER.md#again-2: the page has no place 'again-2'"),
        ("[a](docs/page.md#nowhere)", "docs/page.md#nowhere: the page has no place 'nowhere'"),
    ):
        assert file_with(text) == [f"README.md: {says}"]


# --- llms.txt --------------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_nav_and_the_other_way_round():
    assert pages.missing(ROOT) == []
