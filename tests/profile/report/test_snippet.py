"""What a notebook shows of a report."""

from html.parser import HTMLParser

from trio_profile.report.blocks import Entry, Page, Report, Sentences, Table
from trio_profile.report.snippet import MOST_ROWS, snippet

HOSTILE = "<script>alert(1)</script>\" onload='x' &amp;"


def test_the_first_sentences_and_the_first_table_are_shown():
    blocks = [
        Sentences("", ["Use trio at 22 %."]),
        Table("cells", ["Method", "Prefill"], [[Entry("trio"), Entry("1.46×", note="[1.4, 1.5]", tone="gain")]]),
        Sentences("", ["not this."]),
    ]
    text = snippet(Report("trio", "pocket", ["cpu"], [Page("one", "One", "", blocks)], banner="A toy model."))
    for said in ("trio on pocket", "cpu", "A toy model.", "Use trio at 22\u00a0%.", "1.46×", "cells"):
        assert said in text
    assert "not this." not in text and "<script" not in text


def test_text_that_looks_like_markup_stays_text():
    table = Table(HOSTILE, [HOSTILE, "b"], [[Entry(HOSTILE, HOSTILE, HOSTILE), Entry("1", doubt=HOSTILE)]])
    report = Report(HOSTILE, HOSTILE, [HOSTILE], [Page("one", "", "", [Sentences("", [HOSTILE]), table])])
    seen: list[tuple[str, list]] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.append((tag, attrs))

    Tags().feed(snippet(report))
    known = "div p b br small span ul li table caption thead tbody tr th td"
    assert [tag for tag, _ in seen if tag not in known.split()] == []
    known = "class title colspan scope role tabindex aria-hidden"
    assert {name for _, attrs in seen for name, _ in attrs} <= set(known.split())


def test_a_doubt_has_the_mark_of_every_form_and_a_column_of_dashes_is_left_out():
    rows = [[Entry("trio"), Entry("–"), Entry("1.5×", doubt="few pairs")]]
    table = Table("", ["Method", "Energy", "Prefill"], rows)
    text = snippet(Report("a", "b", [], [Page("one", "", "", [table])]))
    assert 'title="few pairs"' in text and "† few pairs" in text
    assert "Energy" not in text and "–" not in text


def test_columns_behind_a_click_and_rows_past_the_limit_are_left_out():
    rows = [[Entry(f"row {number}"), Entry("1"), Entry("hidden")] for number in range(MOST_ROWS + 3)]
    table = Table("", ["name", "first", "later"], rows, first=2)
    text = snippet(Report("a", "b", [], [Page("one", "", "", [table])]))
    assert "hidden" not in text and "later" not in text and "3 more rows" in text and "row 39<" in text
