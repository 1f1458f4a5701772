"""Budgets that TRIO's own schedule gives, for 2880 visual tokens in 32 layers."""

import pytest

from trio_core import Trio, methods
from trio_profile.analysis.cells import CellSummary
from trio_profile.analysis.ladders import OF_TRIO, clamped_above, idle_stages
from trio_profile.records.schema import Retention

TOKENS = 2880


def cell(method: str, retention: float) -> CellSummary:
    schedule = methods.find(method)(retention=retention).schedule(TOKENS, 32)
    average = schedule.layer_average
    return CellSummary(
        method=method,
        status="done",
        nominal_retention=retention,
        retention=Retention(
            nominal=retention, layer_average=average, final_layer=schedule.final_layer, realised=average
        ),
        layers=schedule.layers,
        budgets=schedule.budgets,
    )


def cells(method: str, *retentions: float) -> list[CellSummary]:
    return [cell(method, retention) for retention in retentions]


@pytest.mark.parametrize("method", ["trio", "trio-printed", "lookahead"])
def test_the_proportion_of_the_paper_clamps_above_53_percent(method: str):
    """By hand: (1 + 9 + 5 · 54/92 + 17 · 22/92) / 32 = 0.53125."""
    found = clamped_above(cells(method, 0.11, 0.22, 0.44, 0.55, 0.77), TOKENS, 32)
    assert found == pytest.approx(0.53125, abs=0.002)


def test_without_a_cell_below_the_limit_the_paper_says_the_proportion_of_trio():
    assert Trio.proportion == OF_TRIO
    assert clamped_above(cells("trio", 0.77), TOKENS, 32) == pytest.approx(0.53125, abs=0.002)
    assert clamped_above(cells("trio", 0.11, 0.22, 0.5), TOKENS, 32) is None
    assert clamped_above(cells("pyramiddrop", 0.9), TOKENS, 32) is None
    assert clamped_above([], TOKENS, 32) is None


@pytest.mark.parametrize("method", sorted(set(methods.names()) - {"trio-ve"}))
def test_only_a_method_whose_budgets_stand_in_a_proportion_has_a_limit(method: str):
    """PyramidDrop's budgets are powers of λ."""
    known = cells(method, 0.4, 0.5, 0.66, 0.77, 0.9)
    found = clamped_above(known, TOKENS, 32)
    several = len(known[0].budgets) > 1
    assert (found is None) or (several and known[-1].budgets[0] > 0.99 * TOKENS)
    assert method != "pyramiddrop" or found is None


def test_a_stage_that_drops_next_to_none_is_named():
    (stage,) = idle_stages(cells("trio", 0.11, 0.55, 0.77), TOKENS)
    assert (stage.method, stage.nominal_retention, stage.layer) == ("trio", 0.77, 10)
    assert (stage.tokens, stage.dropped) == (2880, 3)


def test_behind_the_encoder_a_stage_that_keeps_all_is_named():
    """visionzip+trio gives 1654 of 2880 tokens to the decoder, and its first stage there keeps them."""
    (stage,) = idle_stages(cells("visionzip+trio", 0.11, 0.33), TOKENS)
    assert (stage.nominal_retention, stage.layer, stage.dropped) == (0.33, 1, 0)
    assert stage.tokens == cell("visionzip+trio", 0.33).budgets[0]
