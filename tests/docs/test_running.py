"""The runner of the documentation's blocks: what it runs, what it refuses, and what it leaves behind."""

import os
import sys
from pathlib import Path

import pytest

import trio_profile
from tests.docs import __main__ as listing
from tests.docs.blocks import Mistake, Use, blocks
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


def refused(text: str) -> str:
    """What is wrong with the only block of a text."""
    with pytest.raises(Mistake) as caught:
        _ = blocks(text, "docs/page.md")[0].use
    return str(caught.value)


def test_blocks_share_a_directory_and_python_blocks_share_their_names(run):
    directory = run(
        fence("bash", "echo one > first.txt")
        + fence("python", "from pathlib import Path", "word = Path('first.txt').read_text().strip()")
        + fence("python", "Path('second.txt').write_text(word)")
        + fence("bash", 'test "$(cat first.txt)" = "$(cat second.txt)"')
    )
    assert (directory / "second.txt").read_text() == "one"


def test_a_block_with_a_file_for_a_title_is_written_and_not_run(run):
    text = fence('python title="parts/mine.py"', "word = 'here'", "assert __name__ == 'parts.mine'")
    directory = run(text + fence("python", "from parts.mine import word") + fence("bash", "test -f parts/mine.py"))
    assert (directory / "parts" / "mine.py").read_text().startswith("word")
    assert "parts.mine" not in sys.modules


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n\n" + fence("bash", "echo before", "false", "echo after"), "docs/page.md:3: exit code 1"),
        (fence("bash", "false | true"), "docs/page.md:1: exit code 1"),
        (fence("bash", "echo $UNKNOWN_NAME"), "docs/page.md:1: exit code"),
        ("\n" + fence("python", "a = 1", "b = a / 0"), "docs/page.md:4: ZeroDivisionError"),
        ("\n" + fence("python", "a =="), "docs/page.md:2: SyntaxError"),
        (fence("python", "raise SystemExit(3)"), "docs/page.md:2: SystemExit: 3"),
        (fence("console", "$ printf 'one\\ntwo\\n'", "one", "three"), "does not print this line there: 'three'"),
        (fence("console", "$ printf 'one\\ntwo\\n'", "⋮", "two", "one"), "print this line there: 'one'"),
        (fence("console", "$ printf 'a\\nb\\nc\\n'", "a", "c"), "does not print this line there: 'c'"),
        (fence("console", "$ false"), "docs/page.md:1: exit code 1 of `false`"),
        (fence("console", "one"), "a transcript begins with a command"),
    ],
)
def test_a_block_that_fails_is_named_with_page_and_line(run, text, says):
    with pytest.raises(Mistake) as caught:
        run(text)
    assert str(caught.value).startswith("docs/page.md:")
    assert says in str(caught.value)


def test_a_transcript_may_leave_lines_out_and_show_an_exit_code(run):
    run(fence("console", "$ printf '%s\\n' \\", "    a b c", "a", "⋮", "c", "$ grep -q x <<< y", "$ echo $?", "1"))


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        ("a b c d b d", None),
        ("a b", None),
        ("", None),
        ("⋮", None),
        ("⋮ c", None),
        ("a ⋮ d", None),
        ("a ⋮ ⋮ b", None),
        ("⋮ b d", None),
        ("a b ⋮ d b ⋮ d ⋮", None),
        ("b c", "b"),
        ("a c", "c"),
        ("a ⋮ b e", "e"),
        ("⋮ b ⋮ a", "a"),
        ("⋮ d ⋮ d ⋮ d", "d"),
        ("a b c d b d e", "e"),
    ],
)
def test_lines_that_a_transcript_leaves_out_need_their_mark(shown, missing):
    assert first_missing(shown.split(), "a\n b\n\nc \nd\nb\nd\n") == missing


def test_the_programs_of_a_page_are_those_of_this_tree(run):
    run(fence("bash", f'test "$(python -c "import trio_profile as t; print(t.__file__)")" = "{trio_profile.__file__}"'))
    run(fence("console", "$ trio-profile --version | cut -d' ' -f1", "trio-profile"))


def test_a_block_that_needs_something_is_counted_and_not_run(run, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(fence('bash title="Needs a GPU"', "false") + fence("python", "pass"))
    run(page.read_text())
    monkeypatch.setattr(listing, "PAGES", [page])
    monkeypatch.setattr(listing, "read", lambda path: blocks(path.read_text(), "docs/page.md"))
    said = listing.summary()
    assert "docs/page.md:1: bash: a GPU" in said
    assert "2 blocks on 1 pages: 1 run" in said and "1 not run" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (fence("ruby", "puts 1"), "language 'ruby' is unknown"),
        (fence("", "puts 1"), "write a language"),
        (fence("bash linenums=1", "true"), "write a language, and at most title"),
        ("Text.\n\n    indented\n", "docs/page.md:3: an indented code block"),
        (fence('yaml title="Needs a GPU"', "a: 1"), "only bash, python, console can need something"),
        (fence('bash title="Needs"', "true"), "say what"),
        (fence('text title="../out.txt"', "a"), "outside the page's directory"),
    ],
)
def test_a_block_of_no_known_sort_is_refused(text, says):
    assert says in refused(text)


def test_data_and_output_are_not_run(run):
    text = fence("toml", "not toml") + fence('text title="Output; your times differ"', "1.2 ms") + fence("json", "{")
    assert {block.use for block in blocks(text, "docs/page.md")} == {Use.SHOW}
    assert list(run(text).iterdir()) == []


MINE = """
from dataclasses import dataclass
from typing import ClassVar
from trio_core import Reference, ScoreMethod

@dataclass(frozen=True, kw_only=True)
class Mine(ScoreMethod):
    name: ClassVar[str] = "mine"
    reference: ClassVar[Reference] = Reference(title="none")

    def score(self, view):
        return view.hidden.norm(dim=-1)
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
