"""The walk from a claimed speed-up to a measured one, by hand."""

import pytest

from trio_profile.judge.attribution import Part, attribute


def test_each_step_adds_the_time_of_its_part():
    """100 ms, claimed four times as fast: 25. Layers promise 20 and their work says 24; they take 30. The tower takes
    20 of its 20, not 5; choosing takes 4."""
    steps = attribute(
        4,
        [
            Part(name="layers 1 to 8", dense_ms=80, pruned_ms=30, macs_ratio=0.3),
            Part(name="tower", dense_ms=20, pruned_ms=20),
            Part(name="selection", dense_ms=0, pruned_ms=4),
        ],
    )
    assert [(step.name, step.added_ms) for step in steps] == [
        ("claimed", 25),
        ("layers: work that the claim leaves out", 4),
        ("layers 1 to 8: time that does not follow work", 6),
        ("tower", 15),
        ("selection", 4),
    ]
    assert [step.speedup for step in steps] == pytest.approx([4, 100 / 29, 100 / 35, 2, 100 / 54])


@pytest.mark.parametrize("claim", [0, -2, float("nan")])
def test_no_claim_is_refused(claim: float):
    with pytest.raises(ValueError, match="positive"):
        attribute(claim, [Part(name="all", dense_ms=1, pruned_ms=1)])
