"""The head and the rows of a table as HTML."""

import re

from trio_profile.report import rows
from trio_profile.report.blocks import Entry, Table

HOSTILE = "\"><img src=x onerror='boom'>&"


def table(*found: list[Entry], **fields) -> Table:
    return Table("caption", ["Method", "prefill", "peak"], found, **fields)


def one_entry(entry: Entry, **arguments) -> str:
    """The HTML of an entry in the second column of its table."""
    text = str(rows.body(table([Entry("trio"), entry]), **arguments))
    return text.partition("</th>")[2].removesuffix("</tr>")


def test_a_doubt_is_a_mark_that_leads_to_the_doubts():
    drawn = one_entry(Entry("1.5×", doubt="busy machine"), doubts="doubts")
    assert re.search(r'1.5×<a class="mark" title="busy machine" href="#doubts">.*†', drawn)
    drawn = one_entry(Entry("1.5×", doubt="busy machine"))
    assert "href" not in drawn and 'tabindex="0"' in drawn and 'title="busy machine"' in drawn


def test_markup_in_any_part_of_an_entry_is_escaped():
    entry = Entry(HOSTILE, note=HOSTILE, title=HOSTILE, doubt=HOSTILE)
    text = rows.head(Table("", [HOSTILE], [[entry]] * 3)) + rows.body(table([entry]), doubts="doubts")
    assert "<img" not in text and text.count("&lt;img") == 5


def test_a_table_of_few_rows_or_of_sentences_is_not_sorted():
    row = [Entry("trio"), Entry("1"), Entry("2")]
    assert rows.head(table(row, row, row)).count('<button type="button" class="sort">') == 3
    for plain in (table(row, row), table(row, row, row, prose=True), table(row, row, row, compact=True)):
        assert "button" not in rows.head(plain)


def test_a_head_tells_what_its_word_means():
    found = table([Entry("trio")])
    drawn = rows.head(found, {"prefill": 'the "first" pass', "peak": "p"})
    assert '<th scope="col" title="the &#34;first&#34; pass">prefill</th>' in drawn
    assert drawn.count("title=") == 2 and "title=" not in rows.head(found)


def test_a_drawn_column_holds_every_value_and_cuts_a_wide_whisker():
    entries = [Entry("0", order=0.0, bounds=(-1.0, 1.0)), Entry("4", order=4.0, bounds=(3.0, 90.0)), Entry("–")]
    drawn = str(rows.body(table(*([Entry("a"), entry] for entry in entries), drawn={"prefill": 0.0})))
    assert drawn.count('class="range"') == 2 and drawn.count('aria-hidden="true"') == 2
    styles = re.findall(r"--level:(.+?)%;--low:(.+?)%;--high:(.+?)%;--at:(.+?)%", drawn)
    places = [[float(part) for part in style] for style in styles]
    assert all(0 <= part <= 100 for style in places for part in style)
    assert places[0][0] == places[0][3] and places[1][2] == 100 and drawn.count('class="high"') == 1


def test_a_column_without_values_is_not_drawn():
    assert "range" not in rows.body(table([Entry("a"), Entry("–")], drawn={"prefill": 1.0}))
