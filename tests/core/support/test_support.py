"""Each row of docs/reference/support.md is run, and the page says what the run has shown."""

from pathlib import Path

import pytest

from tests.core import tiny
from tests.core.support import GROUPS
from tests.core.support.rows import INTRODUCTION, Row, not_portable, sentence, way_out

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


SLOW = ("torch.compile", "Several processes", "Adapters, quantised and offloaded weights", "Classes without a family")
FAST = ("Aya Vision, after its trial", "Granite 4 Vision, after its trial", "Qwen3.5")


@pytest.mark.parametrize(
    "row",
    tiny.fast_first(
        ROWS, *(row for row in ROWS if row.title in FAST or (row.group not in SLOW and "compile" not in row.title))
    ),
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
