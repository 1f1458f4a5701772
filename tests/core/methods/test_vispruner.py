"""VisPruner: by hand, against a plain loop, and inside the models against the tower's own eager maps."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.core.methods import encoder_checks
from trio_core import OptionError
from trio_core.methods.vispruner import VisPruner, vispruner
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Schedule


def test_attention_alone_is_the_card_of_fastervlm():
    attention, features = torch.tensor([0.1, 0.9, 0.2, 0.8, 0.3]), torch.eye(5)
    assert vispruner(features, attention, 2, important=1.0).tolist() == [1, 3]
    assert vispruner(features, attention, 5, important=1.0).tolist() == [0, 1, 2, 3, 4]
    assert vispruner(features, torch.ones(5), 3, important=1.0).tolist() == [0, 1, 2]


def test_what_is_not_sure_by_hand():
    """By attention the order is 0, 1, 2, 3, 4, 5; 0 and 1 are sure of 4; 2 and 4 are matched with 3 and 5."""
    attention = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    features = torch.tensor([(1.0, 0, 0), (1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0.9, 0, 0.1)])
    assert vispruner(features, attention, 5).tolist() == [0, 1, 3, 4, 5]  # 2 is like 5, and 4 like nobody
    # The budget of 4 has two to drop: both of the first set.
    assert vispruner(features, attention, 4).tolist() == [0, 1, 3, 5]
    assert vispruner(features, attention, 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_round_deals_what_the_last_one_left_the_most_alike_first():
    """None sure, one to stay of three: 0 and 2 against 1; both drop at once. Of five, two rounds: 0, 2 and 4 first."""
    attention = torch.arange(5, 0, -1).float()
    assert vispruner(torch.ones(3, 1), attention[:3], 1, important=0.0).tolist() == [1]
    assert vispruner(torch.ones(5, 1), attention, 1, important=0.0).tolist() == [3]  # 1 and 3 are left, and 1 drops


def plain(features: torch.Tensor, attention: torch.Tensor, budget: int, important: float) -> list[int]:
    """The rule, a token at a time."""
    ranked = sorted(range(len(attention)), key=lambda i: (-float(attention[i]), i))
    sure = int(budget * important)
    kept, rest = ranked[:sure], ranked[sure:]
    while len(rest) > budget - sure:
        if budget == sure:
            rest = []
            break
        sets: tuple[list[int], list[int]] = ([], [])
        for turn, token in enumerate(rest):
            sets[turn % 2].append(token)
        first, second = sets
        alike = {a: max(float(torch.cosine_similarity(features[a], features[b], dim=0)) for b in second) for a in first}
        first = sorted(first, key=lambda a: -alike[a])
        rest = first[min(8, len(rest) - budget + sure, len(first)) :] + second
    return kept + rest


@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.data())
def test_it_is_the_plain_loop(seed, count, important, data):
    budget = data.draw(st.integers(1, count))
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 6, generator=generator, dtype=torch.float64)
    attention = torch.rand(count, generator=generator, dtype=torch.float64)
    expected = plain(features, attention, budget, important)
    assert vispruner(features, attention, budget, important).tolist() == sorted(expected)
    assert len(set(expected)) == budget


def of_one(important: float):
    def expected(output: encoder_checks.TowerOutput, budget: int, _one: object) -> list[int]:
        kept = []
        for crop, share in encoder_checks.crop_budgets(output.crops, budget).items():
            patches = sorted(output.crops[crop])
            if share:
                chosen = plain(output.hidden[crop][patches], output.attention[crop][patches], share, important)
                kept += [output.crops[crop][patches[i]] for i in chosen]
        return kept

    return expected


@pytest.mark.parametrize(("retention", "important"), [(0.17, 0.5), (0.4, 0.5), (0.6, 0.2)])
@encoder_checks.families
def test_inside_the_models(family, retention, important):
    encoder_checks.check_selection(family, VisPruner(retention=retention, important=important), of_one(important))


@encoder_checks.families
def test_it_generates_and_is_dense_when_all_stay(family):
    encoder_checks.check_generation(family, VisPruner(retention=0.3))
    encoder_checks.check_full_retention(family, VisPruner(retention=1.0))


def test_newlines_go_first():
    encoder_checks.check_newlines_refused(VisPruner)


@pytest.mark.parametrize("tokens", [192, 128, 64, 32])
def test_published_budgets(tokens):
    schedule = VisPruner(retention=tokens / 576).schedule(visual_tokens=576, num_layers=32)
    assert schedule == Schedule((0,), (tokens,), 576, 32)


@pytest.mark.parametrize("retention", [0.17, 0.5])
def test_its_cost(retention):
    encoder_checks.check_cost(VisPruner(retention=retention), rel=0.3)


def test_a_tower_that_projects_itself_is_compared_in_the_decoders_width():
    shape = LayerShape(8, 16, 8, 4, 2, 32, 3, vision_hidden=6, vision_heads=2, merged=4)
    method, sizes = VisPruner(retention=0.5), Sizes(tokens=30, visual=20, budget=8, text_after=5)
    assert method.overhead(shape, 0, sizes) == (20 * 4) ** 2 * 6 + 20 * 20 * 8
    assert method.overhead(replace(shape, merged=0), 0, sizes) == 0  # a family whose tower no method looks into


def test_the_host_waits_for_the_inputs_check():
    encoder_checks.check_host_waits(VisPruner, 1)


def test_what_is_broken_or_too_much_is_refused():
    with pytest.raises(OptionError, match="attention or features hold NaN or infinity"):
        vispruner(torch.eye(3) * torch.nan, torch.ones(3), 2)
    with pytest.raises(OptionError, match="budget 4: can keep 1 … 3 of 3 tokens"):
        vispruner(torch.eye(3), torch.ones(3), 4)


@pytest.mark.parametrize("important", [-0.1, 1.1, float("nan")])
def test_bad_options(important):
    with pytest.raises(OptionError, match=rf"^important {important} is outside") as caught:
        VisPruner(retention=0.5, important=important)
    assert "\n" not in str(caught.value)
