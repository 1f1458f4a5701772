"""Break-even in words and as a table: what is certain, what is undecided, and where the curve crosses 1."""

from tests.profile.examples import document
from trio_profile.kinds.grid.sweep import SweepDocument
from trio_profile.report import break_even
from trio_profile.stats.crossing import BreakEven

SWEPT = document()
SWEEP = (0.11, 0.77)
CASES = (
    (
        BreakEven(status="crossing", retention=0.612, ci95=(0.55, 0.66), certain_gain=0.55, certain_loss=0.66),
        "pays certainly up to 55.0 % retention and costs certainly more from 66.0 %",
        ("55.0 %", "55.0 % to 66.0 %", "66.0 %", "61.2 %"),
    ),
    (
        BreakEven(status="gain", ci95=(0.55, 0.77), certain_gain=0.55),
        "pays certainly up to 55.0 % retention",
        ("55.0 %", "55.0 % to 77.0 %", "–", "–"),
    ),
    (
        BreakEven(status="loss", retention=0.3, ci95=(0.11, 0.66), certain_loss=0.66),
        "costs certainly more from 66.0 %",
        ("–", "11.0 % to 66.0 %", "66.0 %", "30.0 %"),
    ),
    (
        BreakEven(status="always", certain_gain=0.77, measured=SWEEP),
        "pays at every retention measured, 11.0 % to 77.0 %",
        ("at least 77.0 %", "–", "–", "–"),
    ),
    (
        BreakEven(status="never", certain_loss=0.11, measured=SWEEP),
        "pays at no retention measured, 11.0 % to 77.0 %",
        ("–", "–", "at most 11.0 %", "–"),
    ),
    (
        BreakEven(status="always", certain_gain=0.33, measured=(0.33, 0.33)),
        "pays at every retention measured, 33.0 % alone",
        ("at least 33.0 %", "–", "–", "–"),
    ),
    (
        BreakEven(status="inconclusive", retention=0.5, ci95=SWEEP, measured=SWEEP),
        "may pay or not: nothing is certain",
        ("–", "11.0 % to 77.0 %", "–", "50.0 %"),
    ),
)
"""Each break-even with its words and with its entries of the table."""


def of(**by_quantity: BreakEven) -> SweepDocument:
    """A sweep with these break-evens."""
    bare = {"break_even": by_quantity, "break_even_by_method": {"trio": by_quantity}}
    return SWEPT.model_copy(update=bare)


def test_each_status_has_its_words_and_its_ranges():
    for found, words, ranges in CASES:
        [[name, *entries]] = break_even.table(of(prefill_ms=found), "trio").rows
        assert name.text == "Prefill time" and tuple(entry.text for entry in entries) == ranges
        assert break_even.pays(of(prefill_ms=found), "trio", "prefill_ms") == words


def test_quantities_with_the_same_ranges_share_a_row():
    same, other = CASES[3][0], CASES[0][0]
    found = break_even.table(of(prefill_ms=other, fastv_macs=same, kv_bytes=same), "trio")
    assert [row[0].text for row in found.rows] == ["Prefill time", "MACs by formula; KV cache bytes"]


def test_a_quantity_that_was_not_measured_is_inconclusive():
    assert break_even.find(SWEPT, "trio", "energy_j").status == "inconclusive"
