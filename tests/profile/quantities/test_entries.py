"""Entries that several tables share."""

from trio_profile.quantities import entries
from trio_profile.records.estimate import Accuracy, Ratio


def ratio(value: float, low: float, high: float) -> Ratio:
    return Ratio(value=value, ci95=(low, high), samples=20, stopped="converged")


def test_a_tone_needs_the_whole_interval_on_one_side():
    assert [entries.tone(bounds, 1) for bounds in ((1.1, 1.2), (0.8, 0.9), (0.9, 1.1), (1.0, 1.1))] == [
        "gain",
        "loss",
        "",
        "",
    ]


def test_a_speedup_has_its_interval_as_note():
    found = entries.speedup(ratio(1.2345, 1.20, 1.27))
    assert (found.text, found.note, found.tone, found.order) == ("1.23×", "[1.20, 1.27]", "gain", 1.2345)


def test_counts_have_their_ratio_to_dense_and_all_digits_as_tooltip():
    found = entries.macs(250_000, 1_000_000)
    assert (found.text, found.note) == ("250 k", "25.0 %") and found.title.endswith(" MACs")
    assert entries.num_bytes(2**20, 2**22).note == "25.0 %" and entries.ratio(1, 4).text == "25.0 %"


def test_an_unknown_value_is_a_dash():
    functions = (entries.speedup, entries.milliseconds, entries.macs)
    functions += (entries.num_bytes, entries.share, entries.short_share, entries.points)
    assert [function(None) for function in functions] == [entries.NOTHING] * 7
    assert entries.ratio(1, None) == entries.ratio(None, 1) == entries.NOTHING


def test_only_a_share_of_all_is_100_percent():
    assert entries.short_share(Accuracy(value=1.0, ci95=(0.98, 1.0), samples=200)).text == "100 %"
    assert entries.share(Accuracy(value=1.0, ci95=(0.981, 1.0), samples=200)).text == "100 % [98.1, 100]"
    assert entries.short_share(Accuracy(value=0.9996, ci95=(0.998, 1.0), samples=5000)).text == "99.96 %"
    assert entries.short_share(Accuracy(value=0.9, ci95=(0.85, 0.94), samples=200)).text == "90.0 %"
