"""What is done to a report before it is drawn: names from files of other people cannot steer the terminal."""

from dataclasses import replace
from functools import partial

import pytest

from tests.profile.reading import in_terminal
from tests.profile.report.test_every_block import says
from trio_profile.report import html, latex, markdown
from trio_profile.report.blocks import Page, Report
from trio_profile.report.preparing import clean_report, lines, unbroken
from trio_profile.text import printable

ODD = "mine\x1b[31m\u202e\x9b2J"
SHOWN = "mine\\x1b[31m\\u202e\\x9b2J"


def report(text: str) -> Report:
    blocks = tuple(block for block, _ in says(text))
    page = Page("page", f"title {text}", f"how {text}", blocks)
    return Report(f"subject {text}", f"model {text}", (f"fact {text}",), (page,), data='{"a": 1}')


@pytest.mark.parametrize(
    "draw", [partial(in_terminal, everything=True, width=200), markdown.markdown, latex.latex, html.render]
)
def test_no_renderer_prints_a_control_character(draw):
    drawn = draw(report(ODD))
    assert ODD not in drawn and "\u202e" not in drawn and "\x9b2J" not in drawn
    if draw is not html.render:  # plotly's own script holds such characters
        assert drawn == printable(drawn)


def test_every_text_of_a_report_is_cleaned_and_the_rest_stays():
    assert clean_report(report(ODD)) == report(SHOWN)
    plain = report("plain × text")
    assert clean_report(plain) == plain
    assert clean_report(replace(plain, data='"\u202e"')).data == '"\u202e"'


def test_no_line_ends_inside_an_interval_or_before_a_unit():
    text = "prefill 1.74× faster [1.73, 1.76], 12.0 points less [−18.0, −6.7], 22.2 % of 318 MiB in 24.0 ms"
    for width in range(24, len(text) + 1):
        found = lines(text, width)
        assert " ".join(found) == text and max(map(len, found)) <= width
        joined = "\n".join(found)
        assert all(part in joined for part in ("[1.73, 1.76]", "[−18.0, −6.7]", "22.2 %", "318 MiB", "24.0 ms"))
    assert lines("", 80) == [""] and unbroken("plain words") == "plain words"
