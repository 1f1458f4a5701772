"""Each row of docs/reference/support.md is run, and the page says what the run has shown."""

from pathlib import Path

import pytest

from tests.core import tiny
from tests.core.support import GROUPS
from tests.core.support.rows import INTRODUCTION, Group, Row, not_portable, page, sentence, way_out
from trio_core import TrioError

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "support.md"
ROWS = [row for group in GROUPS for row in group.rows]
WAY_OUT = "run scripts/support_table and read what it changes"


def shown() -> dict[tuple[str, str], str]:
    """What the page says of each setup, by group and title; empty if it stands among those that work."""
    said, group = {}, ""
    for line in PAGE.read_text().removeprefix(INTRODUCTION).splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        elif line.startswith("- "):
            said[group, line.removeprefix("- ")] = ""
        elif line.startswith("| ") and line != "| Setup | What happens |":
            titles, _, says = line.strip("| ").replace(r"\|", "|").rpartition(" | ")
            said |= {(group, title): says for title in titles.split("<br>")}
    return said


SLOW = ("torch.compile", "Several processes", "Adapters, quantised and offloaded weights")


@pytest.mark.parametrize(
    "row",
    tiny.fast_first(ROWS, *(row for row in ROWS if row.group not in SLOW and "compile" not in row.title)),
    ids=lambda row: f"{row.group}: {row.title}",
)
def test_row(row: Row):
    result = row.run()
    assert result.outcome == row.expected, result.says
    assert not_portable(result.says) is None
    says = sentence(result)
    assert shown()[row.group, row.title] in (says, way_out(says)), WAY_OUT


def test_the_page_has_these_rows_and_no_others():
    assert PAGE.read_text().startswith(INTRODUCTION), WAY_OUT
    assert sorted(shown()) == sorted((row.group, row.title) for row in ROWS), WAY_OUT


def test_titles_are_used_once():
    assert len({(row.group, row.title) for row in ROWS}) == len(ROWS)


def test_a_page_lists_what_works_and_joins_setups_with_one_way_out():
    group = Group("Example")
    group.works("adds", lambda: None)
    group.works("adds | up", lambda: None, says="the sum is 2")
    for value in (3, 4):

        @group.refused(f"breaks at {value}")
        def breaks(value=value) -> str:
            raise TrioError(f"value {value}: give 2")

    assert [row.run().outcome for row in group.rows] == ["works", "works", "refused", "refused"]
    text = page([group], lambda row: row.run())
    assert text.startswith(INTRODUCTION)
    assert text.endswith(
        "## Example\n\nThese work:\n\n- adds\n\n| Setup | What happens |\n|---|---|\n"
        "| adds \\| up | works: the sum is 2 |\n"
        "| breaks at 3<br>breaks at 4 | refused: … give 2 |\n"
    )


@pytest.mark.parametrize("text", ["at 0x7f3a21", "in /home/a", "thread Thread-3", "pid 140211234567", "two\nlines"])
def test_what_differs_by_machine_is_found(text):
    assert not_portable(text)
