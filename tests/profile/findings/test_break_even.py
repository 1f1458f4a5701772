"""Break-even in words and as a table."""

import pytest

from tests.profile.examples import document
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import break_even
from trio_profile.stats.crossing import BreakEven

SWEEP = (0.11, 0.77)
FOUND = {
    "crossing": BreakEven(status="crossing", retention=0.612, ci95=(0.55, 0.66), measured=SWEEP),
    "near the end": BreakEven(status="crossing", retention=0.70, ci95=(0.65, 0.77), measured=SWEEP),
    "near the start": BreakEven(status="crossing", retention=0.15, ci95=(0.11, 0.20), measured=SWEEP),
    "exact": BreakEven(status="crossing", retention=0.612, ci95=(0.612, 0.612), measured=SWEEP),
    "once": BreakEven(status="crossing", retention=0.612),
    "always": BreakEven(status="always", measured=SWEEP),
    "never": BreakEven(status="never", measured=SWEEP),
    "old document": BreakEven(status="always"),
    "perhaps above": BreakEven(status="inconclusive", ci95=(0.7, 0.77), measured=SWEEP),
    "perhaps below": BreakEven(status="inconclusive", ci95=(0.11, 0.2), measured=SWEEP),
    "anywhere": BreakEven(status="inconclusive", ci95=SWEEP, measured=SWEEP),
    "nothing known": BreakEven(status="inconclusive"),
}


def of(case: str) -> SweepDocument:
    """A sweep with this break-even in prefill and no other."""
    by_method = {"trio": {"prefill_ms": FOUND[case]}}
    return document().model_copy(update={"break_even_by_method": by_method, "break_even": by_method["trio"]})


@pytest.mark.parametrize(
    ("case", "words", "text", "note"),
    [
        ("crossing", "pays up to 61 % [55, 66]", "61 %", "[55, 66]"),
        ("exact", "pays up to 61.2 %", "61.2 %", "exact"),
        ("once", "is inconclusive", "61.2 %", "measured once"),
        (
            "always",
            "pays at every retention measured, up to 77.0 %",
            "pays at every retention measured, up to 77.0 %",
            "",
        ),
        ("never", "pays at no retention measured, from 11.0 %", "pays at no retention measured, from 11.0 %", ""),
        ("old document", "pays at every retention measured", "pays at every retention measured", ""),
        (
            "perhaps above",
            "is inconclusive (break-even may lie above 70.0 %)",
            "inconclusive",
            "break-even may lie above 70.0 %",
        ),
        (
            "perhaps below",
            "is inconclusive (break-even may lie below 20.0 %)",
            "inconclusive",
            "break-even may lie below 20.0 %",
        ),
        ("anywhere", "is inconclusive", "inconclusive", ""),
        ("nothing known", "is inconclusive", "inconclusive", ""),
    ],
)
def test_each_status_has_its_words(case: str, words: str, text: str, note: str):
    [[name, entry]] = break_even.table(of(case)).rows
    assert name.text == "Prefill time" and (entry.text, entry.note) == (text, note)
    assert break_even.pays(of(case), "trio", "prefill_ms") == words


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("crossing", "Pruning with trio pays in prefill up to 61 % [55, 66]."),
        (
            "near the end",
            "Pruning with trio pays in prefill up to 70 % [65, 77]; "
            "the interval ends with the sweep, so break-even may lie above it.",
        ),
        (
            "near the start",
            "Pruning with trio pays in prefill up to 15 % [11, 20]; "
            "the interval begins with the sweep, so break-even may lie below it.",
        ),
        (
            "always",
            "Pruning with trio pays in prefill at every retention measured, up to 77.0 %: the sweep met no break-even.",
        ),
        ("never", "Pruning with trio pays in prefill at no retention measured, from 11.0 %."),
        (
            "perhaps above",
            "Inconclusive: the noise is too large to say up to which retention pruning with trio pays in prefill; "
            "break-even may lie above 70.0 %.",
        ),
        (
            "anywhere",
            "Inconclusive: the noise is too large to say up to which retention pruning with trio pays in prefill.",
        ),
    ],
)
def test_each_status_has_its_sentence(case: str, sentence: str):
    assert break_even.sentence(of(case), "trio", "prefill_ms", "prefill") == sentence


def test_a_quantity_that_was_not_measured_is_inconclusive():
    assert break_even.find(document(), "trio", "energy_j").status == "inconclusive"
