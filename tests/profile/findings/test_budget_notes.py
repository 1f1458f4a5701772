"""Sentences on budgets near full retention."""

from trio_profile.analysis.ladders import IdleStage
from trio_profile.findings.budget_notes import sentences


def idle(layer: int, tokens: int, retention: float = 0.77) -> IdleStage:
    return IdleStage(method="trio", nominal_retention=retention, layer=layer, tokens=tokens, dropped=3)


def test_only_trio_has_the_papers_budgets():
    first, second = sentences({"trio": 0.53, "mine": 0.6}, [])
    assert first.startswith("Above about 53 % retention") and first.endswith("The paper gives no budgets there.")
    assert "The paper" not in second


def test_several_idle_stages_of_a_cell_are_one_sentence():
    one, two = sentences({}, [idle(10, 2880), idle(1, 2880, 0.88), idle(10, 2877, 0.88)])
    assert one == "At 77.0 % the stage of trio after layer 10 drops 3 of 2880 tokens, and pays for the scores of all."
    assert "2 stages of trio" in two and two.endswith("3 of 2880 after layer 1 and 3 of 2877 after layer 10.")


def test_a_stage_that_keeps_all_does_not_run():
    stage = IdleStage(method="visionzip+trio", nominal_retention=0.33, layer=1, tokens=1654, dropped=0)
    (said,) = sentences({}, [stage])
    assert said == "At 33.0 % the stage of visionzip+trio after layer 1 keeps all 1654 tokens, so it does not run."
