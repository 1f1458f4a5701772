"""SCOPE: by hand, against a plain loop, and inside the models against the tower's own eager maps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.core.methods import towers
from tests.core.rules.test_selection import facility_location_in_a_loop
from trio_core.methods.scope import Scope, scope

FEATURES = torch.tensor([(1, 0), (0.9, 0.1), (0, 1), (0.1, 0.9), (0.7, 0.7), (-1, 0)])
ATTENTION = torch.tensor([0.30, 0.10, 0.10, 0.05, 0.25, 0.20])


@pytest.mark.parametrize(("budget", "kept"), [(1, [4]), (2, [4, 5]), (3, [0, 4, 5]), (6, [0, 1, 2, 3, 4, 5])])
def test_the_cards_example(budget, kept):
    assert scope(FEATURES, ATTENTION, budget).tolist() == kept


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


@given(st.integers(0, 10_000), st.integers(1, 20), st.sampled_from([0.5, 1.0, 2.0]), st.data())
def test_it_is_the_plain_loop(seed, count, alpha, data):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 5, generator=generator, dtype=torch.float64)
    attention = torch.rand(count, generator=generator, dtype=torch.float64)
    # While something is uncovered: afterwards rounding decides what is still a gain. Nor with a power of 0, where two
    # tokens that cover only each other gain the same.
    budget = data.draw(st.integers(1, max(1, count // 2)))
    assert scope(features, attention, budget, alpha).tolist() == plain(features, attention, budget, alpha)


@pytest.mark.parametrize(("retention", "alpha"), [(0.17, 1.0), (0.3, 1.0), (0.5, 0.5), (0.7, 2.0)])
@towers.families
def test_inside_the_models(family, retention, alpha):
    choose = towers.crop_by_crop(lambda crop, at, k: plain(crop.hidden[at], crop.attention[at], k, alpha))
    towers.check_selection(family, Scope(retention=retention, alpha=alpha), choose)
    if family == "llava_next":  # fewer tokens than crops: one for each of the first, the base crop among them
        towers.check_selection(family, Scope(budgets=(2,), layers=(0,), alpha=alpha), choose)
