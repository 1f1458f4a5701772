"""What is done to a report before it is drawn."""

from trio_profile.findings.blocks import Entry, Page, Report, Sentences, Table
from trio_profile.render.preparing import prepare


def test_texts_are_printable_and_empty_columns_are_left_out():
    table = Table("", ["Method", "energy"], [[Entry("tr\x1bio"), Entry("–")]])
    report = Report("a\x1b", "b", [], [Page("page", "Page", "", [Sentences("", ["one"]), table])])
    found = prepare(report)
    assert found.subject == "a\\x1b"
    assert found.pages[0].blocks == [Sentences("", ["one"]), Table("", ["Method"], [[Entry("tr\\x1bio")]], groups=[])]
