"""What the terminal leaves out unless everything is asked for."""

from dataclasses import replace

from tests.profile.reading import in_terminal
from trio_profile.report.blocks import Entry, Page, Report, Sentences, Table

ROWS = [[Entry("trio"), Entry("11 %"), Entry("2×")], [Entry("trio"), Entry("33 %"), Entry("1.5×")]]
CHOICE = Table("cells", ["Method", "Retention", "prefill"], ROWS, keys=2, switch=1, chosen="33 %")


def test_folded_pages_and_rows_that_are_not_chosen_need_all():
    folded = Page("b", "Folded", "", [Sentences("", ["hidden"])], folded="Show it")
    report = Report("a", "b", [], [Page("a", "In sight", "", [CHOICE]), folded])
    said, whole = in_terminal(report), in_terminal(report, everything=True)
    assert "1.5×" in said and "Retention 33 %. cells" in said and "11 %" not in said and "hidden" not in said
    assert "2×" in whole and "hidden" in whole


def test_rows_that_are_cut_off_are_counted():
    cut = replace(CHOICE, switch=None, most=1, order="Controls last.")
    said = in_terminal(Report("a", "b", [], [Page("a", "In sight", "", [cut])]))
    assert "Controls last. The first 1 of 2 rows." in said and "1.5×" not in said and "--all" in said
