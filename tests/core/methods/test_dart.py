"""DART: its rule by hand and against a loop over the card, and inside real models against their own keys."""

import math
from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.models.test_families import listening
from trio_core.methods.dart import Dart, DartOnEmbeddings, least_duplicated
from trio_core.models import adapter_for

FEATURES = torch.tensor([(1, 0), (0.9, 0.1), (0, 1), (0.1, 0.9), (0.7, 0.7), (-1, 0)])
"""The cards' f0 … f5."""
STRENGTH = torch.tensor([1.0, 5, 2, 4, 3, 1])[:, None]
TEXT = torch.tensor([(0.0, 1), (1, 1)])


def by_the_card(
    keys: Tensor, hidden: Tensor, text_keys: Tensor, text_hidden: Tensor, budget: int, visual: int = 4, text: int = 4
) -> list[int]:
    """The card's rule, token by token."""

    def strongest(rows: Tensor, most: int) -> list[int]:
        norms = [sum(abs(float(value)) for value in row) for row in rows]
        return sorted(sorted(range(len(rows)), key=lambda i: -norms[i])[:most])

    def likeness(one: Tensor, other: Tensor) -> float:
        lengths = [max(math.sqrt(sum(float(v) ** 2 for v in row)), 1e-12) for row in (one, other)]
        return sum(float(a) * float(b) for a, b in zip(one, other, strict=True)) / lengths[0] / lengths[1]

    kept = strongest(keys, min(visual, budget))
    probes = [hidden[i] for i in kept] + [text_hidden[i] for i in strongest(text_keys, text)]
    rest = max(budget - len(kept), 0)
    for number, probe in enumerate(probes):
        share = rest // len(probes) + (1 if number < rest % len(probes) else 0)
        left = [i for i in range(len(keys)) if i not in kept]
        kept += sorted(left, key=lambda i, probe=probe: likeness(hidden[i], probe))[:share]
    return sorted(kept)


# --- worked by hand --------------------------------------------------------------------------------------------------


def test_the_card_by_hand():
    """From f1 the cosines are .994, –, .110, .220, .781, −.994; from (1, 1) .707, –, .707, .781, 1, 0."""
    for budget, expected in (
        (2, [1, 5]),  # one more, and the earlier pivot takes it
        (3, [0, 1, 5]),  # one each: 5 is least like f1, and of the rest 0 and 2 least like (1, 1)
        (4, [0, 1, 2, 5]),
        (5, [0, 1, 2, 3, 5]),  # the card's own: 2 each
    ):
        text_strength = torch.tensor([[3.0], [9.0]])
        kept = least_duplicated(STRENGTH, FEATURES, text_strength, TEXT, budget, 1, 1)
        assert kept.tolist() == expected
        assert by_the_card(STRENGTH, FEATURES, text_strength, TEXT, budget, 1, 1) == expected


def test_ties_go_to_the_lower_index():
    same = torch.ones(9, 4)
    for budget in range(1, 10):
        assert least_duplicated(same, same, same[:2], same[:2], budget).tolist() == list(range(budget))


# --- against the loop ------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_the_rule_is_the_cards(data):
    count, words = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    made = torch.randn(2 * (count + words), 3, generator=generator, dtype=torch.float64)
    parts = made.split([count, count, words, words])
    budget, visual, text = (data.draw(st.integers(1, most)) for most in (count, 6, 6))
    kept = least_duplicated(*parts, budget, visual, text)
    assert kept.tolist() == by_the_card(*parts, budget, visual, text)


# --- inside real models ----------------------------------------------------------------------------------------------


def expected(model: PreTrainedModel, one: dict[str, Tensor], budget: int, after: int = 2) -> list[int]:
    """By the keys that the dense model's own cache holds, and what enters the layer behind."""
    with torch.no_grad(), listening(model) as calls:
        cache = model(**one, use_cache=True)[tiny.CACHE]
        hidden = adapter_for(model).decoder.get_submodule("norm")(calls[0][after][0])[0]
    keys = cache.layers[after - 1].keys[0].transpose(0, 1).flatten(1)
    visual = tiny.visual_rows(one)
    text = slice(int(visual[-1]) + 1, None)
    return by_the_card(keys[visual].double(), hidden[visual].double(), keys[text], hidden[text].double(), budget)


@tiny.cached
def test_it_is_the_card_on_the_models_own_keys_in_a_padded_batch(family):
    """Under the default kernel, against the eager model."""
    samples, method = tiny.pair(family), Dart(retention=0.9 if family.startswith("qwen") else 0.6)
    model = tiny.model(family)  # built here: under inference_mode its weights could not be differentiated later
    for side in ("left", "right"):
        _, trace = tiny.run(model, tiny.batch(samples, side), method)
        (stage,) = trace.stages
        assert stage.layer == 2
        for b, one in enumerate(samples):
            budget = trace.schedules[b].budgets[0]
            assert 4 < budget < len(tiny.visual_rows(one))
            assert stage.kept[b].tolist() == expected(tiny.model(family, "eager"), one, budget)


# --- on embeddings ---------------------------------------------------------------------------------------------------


def test_each_run_of_visual_tokens_has_its_part_of_the_budget():
    """Runs of six, two and four tokens; text stands before, between and behind them. Nine tokens stay."""
    states = torch.randn(1, 17, 4, generator=torch.Generator().manual_seed(3))
    rows = torch.tensor([2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 14, 15])
    view = tiny.view(13, 9, hidden=states)
    view = replace(view, pictures=(replace(view.pictures[0], rows=rows),))
    (kept,) = DartOnEmbeddings(retention=0.5, pivots_visual=1, pivots_text=2).select(view).kept
    text, expected = states[0, [0, 1, 8, 11, 16]], []
    for start, end, budget in ((0, 6, 4), (6, 8, 2), (8, 12, 3)):
        run = states[0, rows[start:end]]
        expected += [start + index for index in by_the_card(run, run, text, text, budget, visual=1, text=2)]
    assert kept.tolist() == expected
