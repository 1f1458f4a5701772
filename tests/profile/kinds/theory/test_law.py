"""The law over whole studies of the theory: see tests/profile/law.py."""

import re
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.kinds.theory import kept
from tests.profile.law import SEEN, joint, law
from trio_profile.kinds.theory.document import Correlation, StageTheory, TheoryDocument, conclude

theory = cache(kept.theory_document)


@st.composite
def stages(draw: st.DrawFn, layer: int) -> StageTheory:
    """A stage with another correlation among selections of equal size."""
    middle, reach = draw(st.sampled_from([-0.5, -0.05, 0.05, 0.5])), draw(st.sampled_from([0.0, 0.02, 0.1, 0.4]))
    interval, samples = (middle - reach, middle + reach), draw(st.sampled_from([1, 2, 40, 40, 40]))
    same = draw(st.sampled_from([None, *[Correlation(value=middle, ci95=interval, samples=samples)] * 5]))
    return theory().stages[0].model_copy(update={"layer": layer, "same_kept": same})


@st.composite
def theories(draw: st.DrawFn) -> TheoryDocument:
    found = tuple(draw(stages(layer)) for layer in range(1, 1 + draw(st.integers(1, 5))))
    return theory().model_copy(update={"stages": found, "planned": draw(st.sampled_from([10, 10, 20]))})


@law(100)
@given(theories())
def test_no_stage_refutes_the_conclusion(document: TheoryDocument):
    found, count = conclude(document), len(document.stages)
    SEEN["theory"][found.word] += 1
    known = {s.layer: s.same_kept.ci95 for s in document.stages if s.same_kept and s.same_kept.samples >= 10}
    named = [int(layer) for layer in re.findall(r"after layer (\d+)", found.sentence)]
    more = [int(number) for number in re.findall(r"(\d+) more", found.sentence)]
    match found.word:
        case "holds":
            assert len(known) == count == len(named) + sum(more)
            assert all(low > 0 for low, _ in known.values())
        case "does not hold":
            assert named and all(known[layer][1] <= 0 for layer in named)
            assert len(named) + sum(more) <= sum(high <= 0 for _, high in known.values())
        case "not decided":
            wide = {layer: joint(interval, count, of_ratio=False) for layer, interval in known.items()}
            assert not any(high <= 0 for _, high in wide.values())
            assert not (len(known) == count and all(low > 0 for low, _ in wide.values()))
            assert not any(layer in wide and wide[layer][0] > 0 for layer in named)
            assert found.sureness in (None, "low")
    assert found.sureness != "high" or document.questions == document.planned
