"""SCOPE: its power by hand, and inside the models against a plain loop over the tower's own eager maps.

The rule itself is `facility_location`, whose worked case and loop are in `tests/core/rules/test_selection.py`.
"""

import pytest
import torch

from tests.core.methods import towers
from tests.core.rules.test_selection import facility_location_in_a_loop
from trio_core.methods.scope import Scope, scope


def test_the_power_of_the_attention_by_hand():
    """Two pairs of twins and one alone: all twins cover two, and which pair comes first is the attention's matter."""
    features = torch.tensor([(1.0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1)])
    attention = torch.tensor([0.1, 0.1, 0.2, 0.2, 0.3])
    assert scope(features, attention, 1).tolist() == [2]  # 2 · 0.2 before 1 · 0.3 and 2 · 0.1
    assert scope(features, attention, 1, alpha=2.0).tolist() == [4]  # 0.09 before 2 · 0.04
    assert scope(features, attention, 1, alpha=0.0).tolist() == [0]  # coverage alone; ties to the lower index
    assert scope(features, attention, 3).tolist() == [0, 2, 4]
    assert scope(features, attention, 4).tolist() == [0, 1, 2, 4]  # all is covered: the lowest that is left


def plain(features: torch.Tensor, attention: torch.Tensor, budget: int, alpha: float) -> list[int]:
    """The card's loop, a pair at a time."""
    unit = features.double() / features.double().norm(dim=-1, keepdim=True)
    return facility_location_in_a_loop(unit @ unit.T, attention.double() ** alpha, budget)


@pytest.mark.parametrize(("retention", "alpha"), [(0.17, 1.0), (0.6, 0.5)])
@towers.families
def test_inside_the_models(family, retention, alpha):
    choose = towers.crop_by_crop(lambda crop, at, k: plain(crop.hidden[at], crop.attention[at], k, alpha))
    towers.check_selection(family, Scope(retention=retention, alpha=alpha), choose)
    if family == "llava_next":  # fewer tokens than crops: one for each of the first, the base crop among them
        towers.check_selection(family, Scope(budgets=(2,), layers=(0,), alpha=alpha), choose)
