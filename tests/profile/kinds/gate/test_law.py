"""The law over all verdicts of a gate: see tests/profile/law.py."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.law import SEEN, law
from tests.profile.reading import line_of
from trio_profile.kinds.gate.document import Verdict, conclude
from trio_profile.kinds.gate.verdict import judge, judge_pairs

WORDS = {"regression": "regression", "inconclusive": "inconclusive", "improved": "improvement", "pass": "pass"}
"""The word of a gate whose worst verdict is this one, from the worst on."""
ratios = st.sampled_from([0.9, 0.97, 1.0, 1.0, 1.02, 1.04, 1.2])


@st.composite
def verdicts(draw: st.DrawFn, number: int) -> Verdict:
    """The verdict on a whole number, or on times that were measured in turn."""
    quantity = f"quantity_{number}"
    if draw(st.booleans()):
        return judge(quantity, "trio", 4096, draw(st.sampled_from([4095, 4096, 4096, 4096, 4097])))
    ratio, spread = draw(ratios), draw(st.sampled_from([0.001, 0.02]))
    new = [ratio * (1 + spread * place) for place in range(-6, 7)]
    return judge_pairs(quantity, "trio", [1.0] * len(new), new)


def outcome_of(row: Verdict) -> str:
    """The verdict that the row's own numbers give."""
    if row.ci95 is None:
        return "regression" if row.new > row.base else "improved" if row.new < row.base else "pass"
    low, high = row.ci95
    if low > row.max_ratio:
        return "regression"
    return "improved" if high < 1 / row.max_ratio else "pass" if high < row.max_ratio else "inconclusive"


several = st.integers(1, 6).flatmap(lambda count: st.tuples(*map(verdicts, range(count))))


@law(150)
@given(several)
def test_no_verdict_refutes_the_conclusion(rows: tuple[Verdict, ...]):
    found = conclude(rows)
    SEEN["gate"][found.word] += 1
    counts = Counter(map(outcome_of, rows))
    assert found.word == next(word for outcome, word in WORDS.items() if counts[outcome])
    assert found.sentence.startswith(f"of {len(rows)} verdict")
    tally = re.findall(rf"(\d+) ({'|'.join(WORDS)})", found.sentence)
    assert {outcome: int(count) for count, outcome in tally} == counts
    for number in re.findall(r"quantity_(\d)", found.sentence):
        assert WORDS[outcome_of(rows[int(number)])] == found.word
    assert (found.word == "pass") == ("quantity" not in found.sentence)


def test_without_a_base_nothing_passes():
    found = conclude([Verdict(quantity="run_ms", where="trio", new=12.0, verdict="no base")])
    assert line_of(found) == "Inconclusive: of 1 verdict, 1 no base."
