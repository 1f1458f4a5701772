"""Names from files of other people cannot steer the terminal, in any form."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.profile.render.test_every_block import says
from trio_profile.findings.blocks import Page, Report
from trio_profile.render import html, latex, markdown, terminal
from trio_profile.render.cleaning import clean_report
from trio_profile.text import printable

ODD = "mine\x1b[31m\u202e\x9b2J"
SHOWN = "mine\\x1b[31m\\u202e\\x9b2J"


def report(text: str) -> Report:
    blocks = tuple(block for block, _ in says(text))
    page = Page("page", f"title {text}", f"how {text}", blocks)
    return Report(f"subject {text}", f"model {text}", (f"fact {text}",), (page,), data='{"a": 1}')


def drawn_in_the_terminal(one: Report) -> str:
    file = io.StringIO()
    terminal.show(one, everything=True, console=Console(file=file, width=200, highlight=False))
    return file.getvalue()


@pytest.mark.parametrize("draw", [drawn_in_the_terminal, markdown.markdown, latex.latex, html.render])
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
