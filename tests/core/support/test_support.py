"""Each row of docs/reference/support.md is run, and the page says what the run has shown."""

from pathlib import Path

import pytest
import torch

from tests.core import tiny
from tests.core.support import GROUPS
from tests.core.support.introduction import INTRODUCTION
from tests.core.support.rows import Group, Row, not_portable, page
from trio_core import TrioError

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "support.md"
ROWS = [row for group in GROUPS for row in group.rows]
WAY_OUT = "run scripts/support_table and read what it changes"


def lines() -> list[str]:
    """The lines of the page's tables."""
    return PAGE.read_text().removeprefix(INTRODUCTION).splitlines()


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
    assert row.line(result) in lines(), WAY_OUT


def test_the_page_has_these_rows_and_no_others():
    assert PAGE.read_text().startswith(INTRODUCTION), WAY_OUT
    first_cells = [line.split(" | ")[0] for line in lines() if line.startswith(("## ", "| "))]
    expected = [
        cell
        for group in GROUPS
        for cell in (f"## {group.title}", "| Setup", *("| " + row.title.replace("|", r"\|") for row in group.rows))
    ]
    assert first_cells == expected, WAY_OUT


def test_titles_are_used_once():
    assert len({(row.group, row.title) for row in ROWS}) == len(ROWS)


def test_a_row_shows_what_its_run_has_shown():
    group = Group("Example")

    @group.works("adds | up")
    def adds() -> str:
        return f"2 picture tokens; the sum is {torch.ones(2).sum():.0f}."

    @group.refused("breaks")
    def breaks() -> str:
        raise TrioError("value 3: give 2")

    assert [row.run().outcome for row in group.rows] == ["works", "refused"]
    shown = page([group], lambda row: row.run())
    assert shown.startswith(INTRODUCTION)
    assert shown.endswith(
        "## Example\n\n| Setup | Outcome | What happens |\n|---|---|---|\n"
        "| adds \\| up | works | 2 picture tokens; the sum is 2. |\n"
        "| breaks | refused | value 3: give 2 |\n"
    )


@pytest.mark.parametrize("text", ["at 0x7f3a21", "in /home/a", "thread Thread-3", "pid 140211234567", "two\nlines"])
def test_what_differs_by_machine_is_found(text):
    assert not_portable(text)
