"""Every kind of block is drawn by every renderer, and text that looks like markup stays text."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import unescape
from typing import get_args

import pytest

from tests.profile import reading
from trio_profile.records.conclusion import Conclusion
from trio_profile.report import html, latex, markdown, terminal
from trio_profile.report.blocks import (
    Axis,
    Block,
    Chart,
    DrawnStage,
    DrawnTokens,
    Entry,
    Grid,
    Page,
    Report,
    Sentences,
    Series,
    Span,
    Step,
    Table,
    Terms,
    Tokens,
    Waterfall,
)

HOSTILE = "<b>bold</b> [red]hot[/red] a|b R&D $x_1$ 5%"


def says(text: str) -> list[tuple[Block, list[str]]]:
    """One block of each kind in which `text` stands, with all that it says."""
    chart = Chart(
        "figure-1",
        f"caption {text}",
        f"label {text}",
        Axis("Retention", 0, 100, " %"),
        Axis("Speed-up", 0.5, 2, "×"),
        [Series(f"name {text}", [10, 90], [1.5, 0.9], [f"first {text}\nsecond"] * 2, [1.4, 0.8], [1.6, 1.0], colour=0)],
        levels=[1],
        uprights=[70],
        spans=[Span(0, 50, f"gain {text}", "gain")],
    )
    stage = DrawnStage(8, "kept 1 of 4 after layer 8", b"\0\1\0\0", b"\0\xfe\x10\xff", "0", "2")
    told = DrawnTokens(f"trio {text}", 0.25, "25.0 %", f"trio {text} at 25.0 %: kept 1 after layer 8", [stage])
    tokens = Tokens("tokens", "caption", "label", 4, [Grid("", 2, 2)], [told], [f"trio {text}"], f"note {text}")
    first, step, last = Step(f"claimed {text}", 100, "100", "100 MACs"), Step("head", -30, "−30"), Step("sum", 70, "70")
    return [
        (Sentences(f"heading {text}", [f"one {text}.", "two."]), [f"heading {text}", f"one {text}.", "two."]),
        (Terms("terms", [(f"term {text}", f"meaning {text}")]), ["terms", f"term {text}", f"meaning {text}"]),
        (
            Table(
                "caption",
                ["name", f"speed {text}"],
                [[Entry(f"trio {text}"), Entry("1.5×", f"note {text}", doubt=f"why {text}")]],
            ),
            ["caption", "name", "speed", f"trio {text}", "1.5×", f"note {text}", f"† why {text}"],
        ),
        (chart, [f"caption {text}", f"label {text}"]),
        (
            Waterfall("walk", f"caption {text}", "label", first, [step], last),
            [f"caption {text}", "label", f"claimed {text}", "100 MACs", "head", "−30", "sum", "70"],
        ),
        (tokens, ["caption", "label", f"note {text}", f"trio {text} at 25.0 %: kept 1 after layer 8"]),
    ]


def report_of(*blocks: Block) -> Report:
    return Report("subject", "model", ["fact"], [Page("page", "Title", "How to read.", blocks)])


def in_html(report: Report) -> str:
    text = html.render(report)
    body = text[text.index("<main>") : text.index("</main>")]
    body = re.sub(r'aria-label="([^"]*)"', r">\1<i ", body)
    return unescape(re.sub(r"<script.*?</script>|<[^>]*>", " ", body, flags=re.DOTALL))


in_terminal = partial(reading.in_terminal, everything=True, width=200)


def in_markdown(report: Report) -> str:
    return unescape(re.sub(r"\\(.)", r"\1", markdown.markdown(report)))


def in_latex(report: Report) -> str:
    names = {r"\textless{}": "<", r"\textgreater{}": ">", r"\textbar{}": "|", "{[}": "[", "{]}": "]"}
    text = latex.latex(report)
    for name, char in {**names, r"$\times$": "×", "$-$": "−", r"\textdagger{}": "†"}.items():
        text = text.replace(name, char)
    return re.sub(r"\\([&%$#_{}])", r"\1", text)


RENDERERS: dict[str, Callable[[Report], str]] = {
    "html": in_html,
    "terminal": in_terminal,
    "markdown": in_markdown,
    "latex": in_latex,
}


def in_one_line(text: str) -> str:
    return re.sub(r"[\s\u00a0]+", " ", text)


def test_every_kind_of_block_has_an_example():
    assert {type(block) for block, _ in says("")} == set(get_args(Block))


@pytest.mark.parametrize("renderer", RENDERERS)
def test_every_renderer_draws_what_a_block_says_and_markup_stays_text(renderer: str):
    for words in ("plainly", HOSTILE):
        for block, said in says(words):
            text = in_one_line(RENDERERS[renderer](report_of(block)))
            if renderer == "html" and isinstance(block, Waterfall):
                # Its steps stand in the figure on the page; the table below it holds them as text.
                [drawn] = re.findall(r'"customdata":(\[\[.*?\]\])', html.render(report_of(block)))
                assert "100 MACs" in drawn and "head" in drawn
                said = [block.caption, block.label]
            assert [part for part in said if part not in text] == []


def test_no_markup_leaves_a_renderer_unescaped():
    report = report_of(*(block for block, _ in says(HOSTILE)))
    page = html.render(report)
    assert "<b>bold" not in page[page.index("<main>") :]
    text = markdown.markdown(report)
    assert "<b>" not in text and "\\[red\\]" in text and "a\\|b" in text and "R&amp;D" in text and "\\$x\\_1\\$" in text
    text = latex.latex(report)
    assert "[red]" not in text and r"R\&D" in text and r"\$x\_1\$" in text and r"5\%" in text


# The head of a report


@pytest.mark.parametrize("renderer", RENDERERS)
def test_every_renderer_shows_the_banner_and_the_conclusion(renderer: str):
    report = replace(
        report_of(),
        banner=f"The model is a toy {HOSTILE}.",
        conclusion=Conclusion(
            word="try", sentence=f"few pairs {HOSTILE}.", sureness="low", reasons=("r",), next="again", next_seconds=90
        ),
    )
    page = html.render(report)
    assert "<b>bold" not in page
    text = unescape(re.sub("<[^>]*>", " ", page)) if renderer == "html" else RENDERERS[renderer](report)
    said = in_one_line(text)
    assert f"The model is a toy {HOSTILE}." in said
    assert "again (about 1 min 30 s)" in said
    assert "Try:" in said and f"few pairs {HOSTILE}." in said and "low, because r." in said


# Columns that are not always in sight


def folded() -> Report:
    """A table of three columns, of which the last one is not always in sight."""
    return report_of(
        Table("", ["Method", "prefill", "peak"], [[Entry("trio"), Entry("1.5×"), Entry("9 GiB")]], first=2)
    )


def test_the_terminal_leaves_out_as_many_columns_in_sight_as_it_has_no_room_for():
    columns = ["Method", *(f"column {number}" for number in range(8)), "hidden"]
    rows = [[Entry("trio"), *(Entry(f"{number}.123456789×") for number in range(9))]]
    text = in_terminal(report_of(Table("", columns, rows, first=9)), width=80, everything=False)
    assert text.count("Method") == 1 and "4.123456789×" in text and "5.123456789×" not in text
    assert max(map(len, text.splitlines())) <= 80
    whole = in_terminal(report_of(Table("", columns, rows, first=9)), width=80)
    assert "7.123456789×" in whole and "8.123456789×" in whole


def test_markdown_has_all_columns_and_latex_puts_the_others_into_a_second_table():
    assert "| Method | prefill | peak |" in markdown.markdown(folded())
    text = latex.latex(folded())
    assert text.count(r"\begin{longtable}") == 2
    assert r"trio & 1.5$\times$ \\" in text and r"trio & 9 GiB \\" in text


@pytest.mark.parametrize("renderer", RENDERERS)
def test_no_renderer_draws_a_column_without_values(renderer: str):
    rows = [[Entry("trio"), Entry("–"), Entry("1.5×")], [Entry("fastv"), Entry("–"), Entry("–")]]
    text = RENDERERS[renderer](report_of(Table("", ["Method", "energy", "prefill"], rows)))
    assert "energy" not in text and "prefill" in text and "–" in text


# Details


def test_the_terminal_leaves_columns_and_details_out_and_says_so():
    text = in_terminal(folded(), everything=False)
    assert "1.5×" in text and "peak" not in text and "9 GiB" not in text and text.rstrip().endswith(terminal.HINT)
    assert "9 GiB" in in_terminal(folded())
    shown, hidden = Sentences("", ["shown."]), Sentences("", ["hidden."], detail=True)
    text = in_terminal(report_of(shown, hidden), everything=False)
    assert "shown." in text and "hidden." not in text and text.rstrip().endswith(terminal.HINT)
    assert terminal.HINT not in in_terminal(report_of(shown), everything=False)
    text = in_terminal(report_of(shown, hidden))
    assert "hidden." in text and terminal.HINT not in text
    only_details = report_of(hidden)
    assert "Title" not in in_terminal(only_details, everything=False)
    for renderer in (in_html, in_markdown, in_latex):
        assert "hidden." in renderer(only_details)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_page_without_blocks_says_that_it_is_empty(renderer: str):
    report = replace(report_of(), pages=[Page("page", "Title", "", [], empty="Nothing here.")])
    assert "Nothing here." in RENDERERS[renderer](report)


# Tables in the terminal


def wide() -> Table:
    columns = ["Method", "Retention", *(f"quantity {number}" for number in range(12))]
    rows = [
        [Entry(name), Entry("11 %"), *(Entry(f"{number}.123×") for number in range(12))] for name in ("trio", "fastv")
    ]
    return Table("wide", columns, rows, keys=2)


def test_a_wide_table_is_cut_and_each_part_names_its_rows():
    text = in_terminal(report_of(wide()), width=80)
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert text.count("trio  ") == text.count("Method") >= 2
    assert all(f"{number}.123×" in text for number in range(12))
