"""Break-even in words and as a table: what is certain, what is undecided, and where the curve crosses 1."""

from tests.profile.examples import document
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import break_even
from trio_profile.stats.crossing import BreakEven

SWEEP = (0.11, 0.77)
CASES = (
    (
        BreakEven(status="crossing", retention=0.612, ci95=(0.55, 0.66), certain_gain=0.55, certain_loss=0.66),
        "pays in prefill: certainly up to 55.0 %, certainly not from 66.0 %; the curve crosses 1 at 61.2 %",
        ("55.0 %", "55.0 % to 66.0 %", "66.0 %", "61.2 %"),
    ),
    (
        BreakEven(status="gain", ci95=(0.55, 0.77), certain_gain=0.55),
        "pays in prefill: certainly up to 55.0 %, undecided above",
        ("55.0 %", "55.0 % to 77.0 %", "–", "–"),
    ),
    (
        BreakEven(status="loss", retention=0.3, ci95=(0.11, 0.66), certain_loss=0.66),
        "is dearer in prefill: certainly not from 66.0 %, undecided below; the curve crosses 1 at 30.0 %",
        ("–", "11.0 % to 66.0 %", "66.0 %", "30.0 %"),
    ),
    (
        BreakEven(status="crossing", retention=0.612, ci95=(0.612, 0.612), certain_gain=0.612, certain_loss=0.612),
        "pays in prefill up to 61.2 %",
        ("61.2 %", "–", "61.2 %", "61.2 %"),
    ),
    (BreakEven(status="crossing", retention=0.612), "pays in prefill up to 61.2 %", ("–", "–", "–", "61.2 %")),
    (
        BreakEven(status="always", certain_gain=0.77, measured=SWEEP),
        "pays in prefill at every retention measured, up to 77.0 %",
        ("77.0 %", "–", "–", "–"),
    ),
    (
        BreakEven(status="never", certain_loss=0.11, measured=SWEEP),
        "pays in prefill at no retention measured, from 11.0 %",
        ("–", "–", "11.0 %", "–"),
    ),
    (
        BreakEven(status="inconclusive", retention=0.5, ci95=SWEEP, measured=SWEEP),
        "may pay in prefill or not: nothing is certain",
        ("–", "11.0 % to 77.0 %", "–", "50.0 %"),
    ),
    (
        BreakEven(status="inconclusive", ci95=(0.33, 0.33), measured=(0.33, 0.33)),
        "may pay in prefill or not: nothing is certain",
        ("–", "–", "–", "–"),
    ),
    (BreakEven(status="inconclusive"), "may pay in prefill or not: nothing is certain", ("–", "–", "–", "–")),
)
"""Each break-even with its sentence and with its entry of the table."""


def of(found: BreakEven) -> SweepDocument:
    """A sweep with this break-even in prefill and no other."""
    by_method = {"trio": {"prefill_ms": found}}
    return document().model_copy(update={"break_even_by_method": by_method, "break_even": by_method["trio"]})


def test_each_status_has_its_words():
    for found, words, ranges in CASES:
        one = of(found)
        [[name, *entries]] = break_even.table(one).rows
        assert name.text == "Prefill time" and tuple(entry.text for entry in entries) == ranges
        assert break_even.sentence(one, "trio", "prefill_ms", "prefill") == f"Pruning with trio {words}."
        assert break_even.pays(one, "trio", "prefill_ms") == words.replace(" in prefill", "")


def test_a_quantity_that_was_not_measured_is_inconclusive():
    assert break_even.find(document(), "trio", "energy_j").status == "inconclusive"
