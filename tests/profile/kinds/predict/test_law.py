"""The law over whole predictions: see tests/profile/law.py."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.profile import faking
from tests.profile.law import MATTERS, SEEN, around, law, numbers
from trio_profile import units
from trio_profile.kinds.predict.document import PredictionDocument, conclude

predicted = cache(faking.predicted)


@st.composite
def predictions(draw: st.DrawFn) -> PredictionDocument:
    """A prediction with other gains at one to five retentions."""
    base = predicted()
    count, middles = draw(st.integers(1, len(base.cells))), st.sampled_from([0.5, 1.0, 1.02, 1.06, 1.5, 6.0])
    gains = [draw(around(middles))[1] for _ in range(count)]
    cells = [cell.model_copy(update={"gain": gain}) for cell, gain in zip(base.cells, gains, strict=False)]
    return base.model_copy(update={"cells": tuple(cells)})


@law(100)
@given(predictions())
def test_no_retention_refutes_the_conclusion(document: PredictionDocument):
    found, gains = conclude(document), [cell.gain for cell in document.cells]
    SEEN["predict"][found.word] += 1
    own = [f"trio at {units.percent(cell.layer_average)}" for cell in document.cells]
    named = [gain for name, gain in zip(own, gains, strict=True) if name in found.sentence]
    faster, slow = [gain[0] > 1 for gain in gains], [gain[1] <= MATTERS for gain in gains]
    deployable = any(first and not none for first, none in zip(faster, slow, strict=True))
    assert found.word == ("do not" if all(slow) else "try" if deployable else "not decided")
    assert found.loss is None and "points" not in found.sentence and found.sureness == "low"
    assert found.word == "do not" or len(named) == 1
    assert all(bound <= named[0][0] for bound in numbers("at least # times", found.sentence))
    for low, high in zip(numbers("be # to", found.sentence), numbers(" to # times", found.sentence), strict=True):
        assert low <= named[0][0] and named[0][1] <= high
    assert found.word != "do not" or numbers("of # retention", found.sentence) == [len(gains)]
    assert found.word == "do not" or (found.gain is not None and found.gain == named[0])
