"""What the pages of the documentation say of the program is what the program says."""

import ast
import re
from functools import cache

import pytest

from documentation import gallery
from tests.docs.blocks import ROOT, read

PACKAGES = ("trio_core", "trio_profile")
SHORTEST = 6
"""A part of a message with fewer characters is found by chance."""
MESSAGES = [block for block in read(ROOT / "docs/how-to/troubleshooting.md") if block.language == "text"]


@cache
def texts() -> tuple[str, ...]:
    """Every text in the code of both packages. An f-string has a text before and after each of its values."""
    files = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return tuple({node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)})


def is_printed(part: str) -> bool:
    """Whether the code has a part of a message, in one text or in two that follow on each other."""
    if any(part in text for text in texts()):
        return True
    cuts = range(1, len(part))
    return any(
        any(text.endswith(part[:cut]) for text in texts()) and any(text.startswith(part[cut:]) for text in texts())
        for cut in cuts
    )


@pytest.mark.parametrize("block", MESSAGES, ids=lambda block: block.place)
def test_a_message_of_the_troubleshooting_page_is_in_the_code(block):
    parts = [part for part in re.split(r"'…'|…", block.text.strip()) if len(part) >= SHORTEST]
    assert parts
    assert [part for part in parts if not is_printed(part)] == []


def test_a_message_that_the_code_does_not_have_is_noticed():
    assert not is_printed("; choose a smaller --dtype or a bigger machine")


def test_the_gallery_names_every_folder_of_reports_and_studies_that_exist():
    page = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    folders = [path.parent.name for path in (ROOT / "reports").glob("*/README.md")]
    assert [name for name in folders if f"`reports/{name}`" not in page] == []
    found = gallery.studies(ROOT)
    assert len(found) > len(folders)
    assert [study for study in found if not (ROOT / study / "study.toml").is_file()] == []
