"""SCOPE: by hand, against a plain loop, and inside the models against the tower's own eager maps."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.core.methods import encoder_checks
from trio_core import OptionError
from trio_core.methods.scope import Scope, scope
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Schedule, shares

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
    unit = [row / row.norm() for row in features.double()]
    similarity = [[float(a @ b) for b in unit] for a in unit]
    weights = [float(a) ** alpha for a in attention.double()]
    cover, kept = [0.0] * len(unit), []
    for _ in range(budget):
        gains = {
            j: sum(max(0.0, similarity[i][j] - cover[i]) for i in range(len(unit))) * weights[j]
            for j in range(len(unit))
            if j not in kept
        }
        pick = max(gains, key=lambda j: (round(gains[j], 9), -j))
        kept.append(pick)
        cover = [max(c, similarity[i][pick]) for i, c in enumerate(cover)]
    return kept


@given(st.integers(0, 10_000), st.integers(1, 20), st.sampled_from([0.5, 1.0, 2.0]), st.data())
def test_it_is_the_plain_loop(seed, count, alpha, data):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 5, generator=generator, dtype=torch.float64)
    attention = torch.rand(count, generator=generator, dtype=torch.float64)
    # While something is uncovered: afterwards rounding decides what is still a gain. Nor with a power of 0, where two
    # tokens that cover only each other gain the same.
    budget = data.draw(st.integers(1, max(1, count // 2)))
    assert scope(features, attention, budget, alpha).tolist() == sorted(plain(features, attention, budget, alpha))


def expected(alpha: float):
    def of_one(output: encoder_checks.TowerOutput, budget: int, _one: object) -> list[int]:
        kept = []
        for crop, share in encoder_checks.crop_budgets(output.crops, budget).items():
            patches = sorted(output.crops[crop])
            if share:
                chosen = plain(output.hidden[crop][patches], output.attention[crop][patches], share, alpha)
                kept += [output.crops[crop][patches[i]] for i in chosen]
        return kept

    return of_one


@pytest.mark.parametrize(("retention", "alpha"), [(0.17, 1.0), (0.3, 1.0), (0.5, 0.5), (0.7, 2.0)])
@encoder_checks.families
def test_inside_the_models(family, retention, alpha):
    encoder_checks.check_selection(family, Scope(retention=retention, alpha=alpha), expected(alpha))


def test_fewer_tokens_than_crops():
    """The others are not looked at, and cost nothing but their attention."""
    method = Scope(budgets=(2,), layers=(0,))
    encoder_checks.check_selection("llava_next", method, expected(1.0))
    encoder_checks.check_cost(method, rel=0.3)


@encoder_checks.families
def test_it_generates_and_is_dense_when_all_stay(family):
    encoder_checks.check_generation(family, Scope(retention=0.3))
    encoder_checks.check_full_retention(family, Scope(retention=1.0))


def test_a_share_is_never_more_than_there_is():
    assert shares(9, [4, 2]) == [4, 2]
    assert shares(5, [4, 2]) == [3, 2]
    assert shares(3, []) == []


def test_newlines_go_first():
    encoder_checks.check_newlines_refused(Scope)


@pytest.mark.parametrize("tokens", [192, 128, 64])
def test_published_budgets(tokens):
    schedule = Scope(retention=tokens / 576).schedule(visual_tokens=576, num_layers=32)
    assert schedule == Schedule((0,), (tokens,), 576, 32)


@pytest.mark.parametrize("retention", [0.17, 0.5])
def test_its_cost(retention):
    encoder_checks.check_cost(Scope(retention=retention), rel=0.3)


def test_a_tower_that_projects_itself_is_compared_in_the_decoders_width():
    shape = LayerShape(8, 16, 8, 4, 2, 32, 3, vision_hidden=6, vision_heads=2, merged=4)
    method, sizes = Scope(retention=0.5), Sizes(tokens=30, visual=20, budget=8, text_after=5)
    assert method.overhead(shape, 0, sizes) == (20 * 4) ** 2 * 6 + 20 * 20 * 8
    assert method.overhead(replace(shape, merged=0), 0, sizes) == 0  # a family whose tower no method looks into


def test_the_host_waits_for_the_inputs_check():
    encoder_checks.check_host_waits(Scope, 1)


@pytest.mark.parametrize("alpha", [-0.5, float("nan"), float("inf")])
def test_bad_options(alpha):
    with pytest.raises(OptionError, match=rf"^alpha {alpha}: the power") as caught:
        Scope(retention=0.5, alpha=alpha)
    assert "\n" not in str(caught.value)
