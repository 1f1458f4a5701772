"""The runner of the documentation's blocks: a block that fails is noticed."""

import pytest

from tests.docs.blocks import Mistake, blocks
from tests.docs.running import run_page


def fence(language: str, *lines: str) -> str:
    return "\n".join([f"```{language}", *lines, "```", ""])


def test_a_block_that_fails_is_named_with_page_and_line(tmp_path):
    for text, says in (
        ("\n\n" + fence("bash", "echo before", "false", "echo after"), "docs/page.md:3: exit code 1"),
        ("\n" + fence("python", "a = 1", "b = a / 0"), "docs/page.md:4: ZeroDivisionError"),
        (fence("console", "$ printf 'one\\ntwo\\n'", "one", "three"), "docs/page.md:1: .*print this:\none\nthree"),
        (fence("console", "$ printf 'one\\ntwo\\n'", "⋮", "three"), "docs/page.md:1: .*print this:\n⋮\nthree"),
        (fence("console", "$ false"), "docs/page.md:1: exit code 1 of `false`"),
    ):
        (tmp_path / "page").mkdir(exist_ok=True)
        with pytest.raises(Mistake, match=says):
            run_page(blocks(text, "docs/page.md"), tmp_path / "page")
