"""The law over whole studies of layers: see tests/profile/law.py."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.kinds.layers import kept
from tests.profile.law import SEEN, around, joint, law, numbers
from trio_profile.judge.attribution import Part, attribute
from trio_profile.kinds.layers.document import LayersDocument, PrefillTimes, conclude
from trio_profile.records.estimate import Ratio

layers_at = cache(kept.layers_at)


@st.composite
def prefills(draw: st.DrawFn, base: PrefillTimes) -> PrefillTimes:
    """A prefill with another claim and another speed-up, whose parts may not add up to its time."""
    claimed = draw(st.sampled_from([1.02, 1.5, 2.5, 6.0]))
    value, interval = draw(around(st.sampled_from([0.8, 1.02, 1.5, 2.5, 6.0])))
    speedup = Ratio(value=value, ci95=interval, samples=12, sessions=draw(st.sampled_from([1, 4])), stopped="budget")
    parts = [Part(name="layers", dense_ms=40, pruned_ms=30, macs_ratio=1 / claimed)]
    whole = [side * draw(st.sampled_from([1.0, 1.0, 1.0, 1.04, 0.8, 1.2])) for side in (40, 30)]
    times = {
        "dense_prefill_ms": kept.ms(whole[0]),
        "prefill_ms": kept.ms(whole[1]),
        "prefill_speedup": speedup,
    }
    totals = base.totals.model_copy(update=times)
    update = {"claimed_ratio": claimed, "attribution": tuple(attribute(claimed, parts)), "totals": totals}
    return base.model_copy(update=update)


@st.composite
def layers(draw: st.DrawFn) -> LayersDocument:
    base = layers_at(0.1, 0.33, 0.5)
    cells = tuple(draw(prefills(cell)) for cell in base.cells[: draw(st.integers(1, 3))])
    return base.model_copy(update=dict(cells[0]) | {"cells": cells})


@law(100)
@given(layers())
def test_no_retention_refutes_the_conclusion(document: LayersDocument):
    found, cells = conclude(document), document.cells
    SEEN["layers"][found.word] += 1
    measured = [cell.totals.prefill_speedup for cell in cells]
    if "add up to" in found.sentence:
        assert found.word == "not decided"
        [share] = numbers("add up to # %", found.sentence)
        sums = [40 / cell.totals.dense_prefill_ms.value for cell in cells]
        sums += [30 / cell.totals.prefill_ms.value for cell in cells]
        assert any(abs(share / 100 - own) < 0.001 for own in sums) and not 0.95 < share / 100 < 1.05
        return
    assert not any(abs(30 / cell.totals.prefill_ms.value - 1) > 0.1 for cell in cells), "its parts do not add up"
    [claimed] = numbers("claims #×", found.sentence)
    named = next(n for n, cell in enumerate(cells) if f"{100 * cell.retention.realised:.1f} %" in found.sentence)
    assert abs(claimed - cells[named].claimed_ratio) < 0.01
    for bound in numbers("at most #", found.sentence):
        assert measured[named].ci95[1] <= bound
    for low, high in zip(numbers("is # to", found.sentence), numbers(r"to # times", found.sentence), strict=True):
        assert low <= measured[named].ci95[0] and measured[named].ci95[1] <= high
    match found.word:
        case "holds":
            assert all(
                speedup.ci95[0] * 1.05 >= cell.claimed_ratio for cell, speedup in zip(cells, measured, strict=True)
            )
        case "does not hold":
            assert measured[named].ci95[1] < cells[named].claimed_ratio
        case "not decided":
            low, high = joint(measured[named].ci95, len(cells))
            assert low * 1.05 < claimed <= high
    assert found.sureness != "high" or all(speedup.sessions > 1 for speedup in measured)
