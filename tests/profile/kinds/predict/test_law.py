"""The law over whole predictions: see tests/profile/law.py."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.kinds.predict import kept
from tests.profile.law import Case, Row, about, around, check_deployed, law, numbers
from trio_profile import units
from trio_profile.kinds.predict.document import PredictionDocument, conclude

predicted = cache(kept.predicted)


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
    rows = [Row(f"trio at {units.percent(cell.layer_average)}", cell.gain, sureness="low") for cell in document.cells]
    found = conclude(document)
    named = [row for row in rows if row.name in about(found)]
    check_deployed(Case("predict", found, rows, named, answers=False, unit="times", together=True))
    assert found.word in ("try", "not decided", "do not") and found.sureness == "low"
    for low, high in zip(numbers("be # to", found.sentence), numbers(" to # times", found.sentence), strict=True):
        assert low <= named[0].gain[0] and named[0].gain[1] <= high
