"""Break-even in words and as a table."""

import pytest

from tests.profile.examples import document
from trio_profile.findings import break_even
from trio_profile.stats.crossing import BreakEven

FOUND = {
    "crossing": BreakEven(status="crossing", retention=0.612, ci95=(0.55, 0.66)),
    "exact": BreakEven(status="crossing", retention=0.612, ci95=(0.612, 0.612)),
    "once": BreakEven(status="crossing", retention=0.612),
    "always": BreakEven(status="always"),
    "never": BreakEven(status="never"),
    "inconclusive": BreakEven(status="inconclusive"),
}


@pytest.mark.parametrize(
    ("status", "words", "text", "note"),
    [
        ("crossing", "pays up to 61 % [55, 66]", "61 %", "[55, 66]"),
        ("exact", "pays up to 61.2 %", "61.2 %", "exact"),
        ("once", "is inconclusive", "61.2 %", "measured once"),
        ("always", "pays at every retention measured", "always pays", ""),
        ("never", "pays at no retention measured", "never pays", ""),
        ("inconclusive", "is inconclusive", "inconclusive", ""),
    ],
)
def test_each_status_has_its_sentence(status: str, words: str, text: str, note: str):
    by_method = {"trio": {"prefill_ms": FOUND[status]}}
    found = document().model_copy(update={"break_even_by_method": by_method, "break_even": by_method["trio"]})
    [[name, entry]] = break_even.table(found).rows
    assert name.text == "Prefill time" and (entry.text, entry.note) == (text, note)
    assert break_even.pays(found, "trio", "prefill_ms") == words


def test_a_quantity_that_was_not_measured_is_inconclusive():
    assert break_even.find(document(), "trio", "energy_j").status == "inconclusive"
