"""FasterVLM: by hand, and inside the models against the tower's own eager maps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.core import tiny
from tests.core.methods import encoder_checks
from tests.core.methods.test_visionzip import samples_of
from trio_core.methods.fastervlm import FasterVLM, fastervlm
from trio_core.rules.schedule import Schedule


@pytest.mark.parametrize(
    ("budget", "kept"), [(1, [1]), (2, [1, 3]), (3, [1, 3, 4]), (4, [1, 2, 3, 4]), (5, [0, 1, 2, 3, 4])]
)
def test_the_cards_example(budget, kept):
    assert fastervlm(torch.tensor([[0.1, 0.9, 0.2, 0.8, 0.3]]), budget).tolist() == kept


def test_heads_are_averaged_and_ties_go_to_the_lower_index():
    attention = torch.tensor([[0.5, 0.0, 0.25, 0.75], [0.0, 0.5, 0.25, 0.25]])
    assert [fastervlm(attention, k).tolist() for k in (1, 2, 3, 4)] == [[3], [0, 3], [0, 1, 3], [0, 1, 2, 3]]


@given(st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), min_size=1, max_size=4), st.integers(1, 7))
def test_it_is_the_plain_sort(rows, budget):
    ranked = sorted(range(7), key=lambda i: (-sum(row[i] for row in rows), i))
    assert fastervlm(torch.tensor(rows, dtype=torch.float64), budget).tolist() == sorted(ranked[:budget])


def expected(output: encoder_checks.TowerOutput, budget: int, _one: object) -> list[int]:
    kept = []
    for crop, share in encoder_checks.crop_budgets(output.crops, budget).items():
        numbers = output.crops[crop]
        ranked = sorted(numbers, key=lambda patch, crop=crop: (-float(output.attention[crop, patch]), patch))
        kept += [numbers[patch] for patch in ranked[:share]]
    return kept


@pytest.mark.parametrize("retention", [0.17, 0.3, 0.8])
@encoder_checks.families
def test_inside_the_models(family, retention):
    encoder_checks.check_selection(family, FasterVLM(retention=retention), expected)


def test_fewer_tokens_than_crops():
    """One for each of the first, the base crop among them."""
    encoder_checks.check_selection("llava_next", FasterVLM(budgets=(2,), layers=(0,)), expected)


@encoder_checks.families
def test_the_scores_are_the_averaged_attention(family):
    model, samples = tiny.model(family), samples_of(family)
    trace = encoder_checks.prefill(model, tiny.batch(samples), FasterVLM(retention=0.3))
    for b in range(2):
        output, scores = encoder_checks.tower_output(family, b), trace.stages[0].scores[b]
        wanted = torch.zeros_like(scores, dtype=torch.float64)  # newlines have no score
        for crop, numbers in output.crops.items():
            wanted[[*numbers.values()]] = output.attention[crop][[*numbers]] / output.heads
        assert torch.allclose(scores.double(), wanted, rtol=1e-4, atol=1e-8)


@encoder_checks.families
def test_it_generates_and_is_dense_when_all_stay(family):
    encoder_checks.check_generation(family, FasterVLM(retention=0.3))
    encoder_checks.check_full_retention(family, FasterVLM(retention=1.0))


def test_newlines_go_first():
    encoder_checks.check_newlines_refused(FasterVLM)


@pytest.mark.parametrize("tokens", [192, 144, 128, 64, 58])
def test_published_budgets(tokens):
    schedule = FasterVLM(retention=tokens / 576).schedule(visual_tokens=576, num_layers=32)
    assert schedule == Schedule((0,), (tokens,), 576, 32)


@pytest.mark.parametrize("retention", [0.17, 0.5])
def test_its_cost(retention):
    encoder_checks.check_cost(FasterVLM(retention=retention), rel=0.3)


def test_the_host_waits_for_the_inputs_check():
    encoder_checks.check_host_waits(FasterVLM, 1)
