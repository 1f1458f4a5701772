"""VisPruner: by hand, against a plain loop, and inside the models against the tower's own eager maps."""

import pytest
import torch

from tests.core import tiny
from tests.core.methods import towers
from trio_core.methods.vispruner import FasterVLM, VisPruner, vispruner


def test_what_is_not_sure_by_hand():
    """By attention the order is 0, 1, 2, 3, 4, 5; 0 and 1 are sure of 4; 2 and 4 are matched with 3 and 5."""
    attention = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    features = torch.tensor([(1.0, 0, 0), (1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0.9, 0, 0.1)])
    assert vispruner(features, attention, 5).tolist() == [0, 1, 3, 4, 5]  # 2 is like 5, and 4 like nobody
    # The budget of 4 has two to drop: both of the first set.
    assert vispruner(features, attention, 4).tolist() == [0, 1, 3, 5]
    assert vispruner(features, attention, 6).tolist() == [0, 1, 2, 3, 4, 5]


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


def test_of_many_tokens_at_most_eight_leave_in_a_round():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 6, generator=generator, dtype=torch.float64)
    attention = torch.rand(60, generator=generator, dtype=torch.float64)
    for budget, important in ((7, 0.3), (40, 0.5), (20, 1.0)):
        expected = plain(features, attention, budget, important)
        assert vispruner(features, attention, budget, important).tolist() == sorted(expected)


@pytest.mark.parametrize(("retention", "important"), [(0.17, 0.5), (0.4, 0.5), (0.6, 0.2)])
@towers.families
def test_inside_the_models(family, retention, important):
    choose = towers.crop_by_crop(lambda crop, at, k: plain(crop.hidden[at], crop.attention[at], k, important))
    towers.check_selection(family, VisPruner(retention=retention, important=important), choose)


@towers.families
def test_fastervlm_is_vispruner_by_attention_alone_inside_the_models(family):
    choose = towers.crop_by_crop(lambda crop, at, k: plain(crop.hidden[at], crop.attention[at], k, 1.0))
    for retention in (0.17, 0.8):
        towers.check_selection(family, FasterVLM(retention=retention), choose)


@towers.families
def test_the_scores_of_fastervlm_are_the_averaged_attention(family):
    model, samples = tiny.model(family), tiny.pair(family)
    trace = tiny.prefill(model, samples, FasterVLM(retention=0.3))
    for b in range(2):
        scores = trace.stages[0].scores[b]
        wanted = torch.zeros_like(scores, dtype=torch.float64)  # newlines have no score
        for crop in towers.crops_of_sample(family, b):
            wanted[[*crop.numbers.values()]] = crop.attention[[*crop.numbers]] / crop.heads
        assert torch.allclose(scores.double(), wanted, rtol=1e-4, atol=1e-8)
