"""The runner of the documentation's blocks: what it runs, what it refuses, and what it leaves behind."""

import os
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import Mistake, blocks
from tests.docs.running import first_missing, run_page
from trio_core.methods.method import registry


@pytest.fixture
def run(tmp_path):
    """A function that runs the blocks of a text as those of docs/page.md; it returns the page's directory."""

    def call(text: str) -> Path:
        directory = tmp_path / "page"
        directory.mkdir(exist_ok=True)
        run_page(blocks(text, "docs/page.md"), directory)
        return directory

    return call


def fence(language: str, *lines: str) -> str:
    return "\n".join([f"```{language}", *lines, "```", ""])


def test_a_block_with_a_file_for_a_title_is_written_and_not_run(run):
    text = fence('python title="parts/mine.py"', "word = 'here'", "assert __name__ == 'parts.mine'")
    directory = run(text + fence("python", "from parts.mine import word") + fence("bash", "test -f parts/mine.py"))
    assert (directory / "parts" / "mine.py").read_text().startswith("word")
    assert "parts.mine" not in sys.modules


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n\n" + fence("bash", "echo before", "false", "echo after"), "docs/page.md:3: exit code 1"),
        ("\n" + fence("python", "a = 1", "b = a / 0"), "docs/page.md:4: ZeroDivisionError"),
        (fence("console", "$ printf 'one\\ntwo\\n'", "one", "three"), "does not print this line there: 'three'"),
        (fence("console", "$ false"), "docs/page.md:1: exit code 1 of `false`"),
    ],
)
def test_a_block_that_fails_is_named_with_page_and_line(run, text, says):
    with pytest.raises(Mistake) as caught:
        run(text)
    assert str(caught.value).startswith("docs/page.md:")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        ("a b c d b d", None),
        ("⋮ c", None),
        ("a b ⋮ d b ⋮ d ⋮", None),
        ("a c", "c"),
        ("a ⋮ b e", "e"),
        ("⋮ b ⋮ a", "a"),
        ("a b c d b d e", "e"),
    ],
)
def test_lines_that_a_transcript_leaves_out_need_their_mark(shown, missing):
    assert first_missing(shown.split(), "a\n b\n\nc \nd\nb\nd\n") == missing


MINE = """
from trio_core.methods.method import registry
registry["mine"] = registry["random"]
"""


def test_the_process_is_as_before_also_after_an_error(run):
    before = Path.cwd(), list(sys.path), dict(os.environ), dict(registry), set(sys.modules)
    with pytest.raises(Mistake):
        run(
            fence('python title="helper_of_the_page.py"', "a = 1")
            + fence("python", "import os, helper_of_the_page", "os.environ['OF_THE_PAGE'] = '1'", MINE, "1 / 0")
        )
    assert (Path.cwd(), list(sys.path), dict(os.environ), dict(registry)) == before[:4]
    assert not {name for name in set(sys.modules) - before[4] if "page" in name}
