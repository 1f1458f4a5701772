"""PruneVid: its rules by hand and against loops over the card, and inside real models, before and in the decoder."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods.test_overhead import counted, waits_per_stage
from tests.core.models.test_families import CLOSE, apart, extended, listening, shortened, stages_of
from trio_core import OptionError, prune
from trio_core.methods.prunevid import (
    PruneVid,
    dpc_knn,
    text_attention,
)
from trio_core.models import adapter_for
from trio_core.rules.merging import cluster_means
from trio_core.rules.schedule import Schedule

LAYERS = (0, 2)
"""Of the toys' six: 11 of 32 in proportion."""
FAMILIES = (*tiny.BY_HAND, "qwen3_vl", "internvl")
"""Qwen3-VL norms queries and keys, and adds to its first layers' input."""


# --- density peaks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "centres", "labels"),
    [(1, [1], [0, 0, 0, 0, 0, 0]), (2, [1, 3], [0, 0, 0, 1, 1, 0]), (3, [1, 2, 3], [0, 0, 1, 2, 2, 0])],
)
def test_centres_by_hand(count, centres, labels):
    """On a line, with three neighbours: the mean squares are .033, .017, .043, 2.443, 2.817, 2.803.

    The peaks are .1, 5.2 (the largest distance), .2, 2.7, .2, 2; times the density .097, 5.114, .192, .235, .012, .121,
    so that the last token, alone as it is, comes fourth.
    """
    places = torch.tensor([0.0, 0.1, 0.3, 3, 3.2, -2])[:, None]
    assert [part.tolist() for part in dpc_knn(places, count, 3)] == [centres, labels]


@pytest.mark.parametrize("width", [1, 4])
def test_distances_are_by_the_width(width):
    """Of features repeated, the mean squares are the same; twice as far apart, what is alone is no centre any more."""
    places = torch.tensor([0.0, 0.1, 0.3, 3, 3.2, -2])[:, None].expand(-1, width)
    assert dpc_knn(places, 3, 3)[0].tolist() == [1, 2, 3]
    assert dpc_knn(2 * places, 3, 3)[0].tolist() == [0, 1, 2]


def test_densities_that_vanish_still_rank():
    """A thousand times as far apart all of them are 0 in floats, and their order is not."""
    places = torch.tensor([-2, 3.2, 3, 0.3, 0.1, 0.0])[:, None] * 1000
    assert dpc_knn(places, 2, 3)[0].tolist() == [4, 5]


def test_ties_go_to_the_lower_index():
    """Of equal tokens the first is the densest, and the others' peaks are all 0."""
    for count in range(1, 6):
        centres, labels = dpc_knn(torch.full((5, 3), 0.7), count)
        assert centres.tolist() == list(range(count))
        assert labels.tolist() == [*range(count), *[0] * (5 - count)]


def test_all_are_centres_of_themselves():
    features = torch.randn(20, 4)
    centres, labels = dpc_knn(features, 20)
    assert centres.tolist() == labels.tolist() == list(range(20))
    assert torch.equal(cluster_means(features, labels, 20), features)


def by_the_card(features: Tensor, count: int, neighbours: int = 7) -> tuple[list[int], list[int]]:
    """DPC-KNN, token by token."""
    rows = [[float(value) for value in row] for row in features]
    tokens, width = len(rows), len(rows[0])
    distance = [[math.dist(a, b) / width**0.5 for b in rows] for a in rows]
    sparse = [sum(d * d for d in sorted(row)[:neighbours]) / min(neighbours, tokens) for row in distance]
    denser = sorted(range(tokens), key=sparse.__getitem__)
    largest = max(map(max, distance))
    peak = [min((distance[i][j] for j in denser[: denser.index(i)]), default=largest) for i in range(tokens)]
    ranked = sorted(range(tokens), key=lambda i: -peak[i] * math.exp(-sparse[i]))
    centres = sorted(ranked[:count])
    labels = [
        centres.index(i) if i in centres else min(range(count), key=lambda c, i=i: distance[i][centres[c]])
        for i in range(tokens)
    ]
    return centres, labels


@settings(max_examples=80)
@given(st.data())
def test_density_peaks_are_the_cards(data):
    tokens, width = data.draw(st.integers(1, 16)), data.draw(st.integers(2, 5))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    features = 5 + torch.randn(tokens, width, generator=generator, dtype=torch.float64)
    # Two tokens alone are equally dense, and with two neighbours so are any two that are nearest to each other.
    assume(tokens != 2)
    neighbours, count = data.draw(st.integers(3, 8)), data.draw(st.integers(1, tokens))
    found = dpc_knn(features, count, neighbours)
    assert (found[0].tolist(), found[1].tolist()) == by_the_card(features, count, neighbours)


@pytest.mark.parametrize("count", [0, 6])
def test_a_count_out_of_range(count):
    with pytest.raises(OptionError, match=f"count {count}: can make clusters of 1 … 5 of 5 tokens"):
        dpc_knn(torch.rand(5, 2), count)


# --- what the text asks for ------------------------------------------------------------------------------------------


def test_the_text_asks_by_hand():
    """Two rows and two heads of one key head: each token's largest share of any row."""
    keys = torch.tensor([1.0, 2, 3])[:, None, None].log()
    query = torch.tensor([[1.0, 0], [2, -1]])[..., None]
    shares = [(1 / 6, 2 / 6, 3 / 6), (1 / 3, 1 / 3, 1 / 3), (1 / 14, 4 / 14, 9 / 14), (6 / 11, 3 / 11, 2 / 11)]
    expected = [max(column) for column in zip(*shares, strict=True)]
    assert text_attention(query, keys, torch.ones(3, dtype=torch.bool)).tolist() == pytest.approx(expected)


def most_asked(query: Tensor, keys: Tensor) -> list[float]:
    """The card's: query [T, H, E], keys [S, N, E], each head and row a softmax over all tokens."""
    most = [0.0] * len(keys)
    for row in query:
        for h, q in enumerate(row):
            k = keys[:, h * keys.shape[1] // query.shape[1]].double()
            powers = (k @ q.double() / len(q) ** 0.5).exp()
            most = [max(a, float(b)) for a, b in zip(most, powers / powers.sum(), strict=True)]
    return most


@settings(max_examples=40)
@given(st.data())
def test_what_the_text_asks_is_the_cards(data):
    rows, tokens, heads, groups, width, padding = (data.draw(st.integers(1, 4)) for _ in range(6))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    query = torch.randn(rows, heads * groups, width, generator=generator, dtype=torch.float64)
    keys = torch.randn(tokens + padding, heads, width, generator=generator, dtype=torch.float64)
    keys[:padding] = torch.nan
    valid = torch.arange(tokens + padding) >= padding
    scores = text_attention(query, keys, valid)
    assert scores[:padding].tolist() == [0] * padding
    assert scores[padding:].tolist() == pytest.approx(most_asked(query, keys[padding:]))


# --- inside real models ----------------------------------------------------------------------------------------------


def samples_of(family: str) -> list[dict[str, Tensor]]:
    return [tiny.sample(family, "small", seed=1), tiny.sample(family, after=12)]


def merged(model: PreTrainedModel, one: dict[str, Tensor], budget: int) -> dict[int, Tensor]:
    """The numbers of the tokens that stay before the decoder, with their means, of what enters the dense model's."""
    with torch.no_grad(), listening(model) as calls:
        model(**one, use_cache=False)
    features = calls[0][0][0][0, tiny.visual_rows(one)].double()
    centres, labels = by_the_card(features, budget)
    return {
        centre: features[[token for token, label in enumerate(labels) if label == number]].mean(dim=0).float()
        for number, centre in enumerate(centres)
    }


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_both_stages_are_the_cards_in_a_padded_batch(family, side):
    """The first by what enters the dense model's decoder, the second by what the eager model's own layer projects."""
    model, samples, method = tiny.model(family), samples_of(family), PruneVid(retention=0.5)
    inputs = tiny.batch(samples, side)
    with torch.inference_mode(), prune(model, method) as trace, listening(model) as calls:
        model(**inputs, use_cache=False)
    assert tuple(stage.layer for stage in trace.stages) == LAYERS
    for b, one in enumerate(samples):
        clusters = merged(model, one, trace.schedules[b].budgets[0])
        assert trace.stages[0].kept[b].tolist() == list(clusters)
        with torch.no_grad(), listening(model) as dense:
            model(**one, use_cache=False)
        wanted = dense[0][0][0][0].clone()
        wanted[tiny.visual_rows(one)[[*clusters]]] = torch.stack([*clusters.values()])
        wanted = wanted[stages_of(trace, one, b, len(wanted))[0].sort().values]
        entered = calls[0][0][0][b]
        ours = entered[-len(wanted) :] if inputs["attention_mask"][b, -1] else entered[: len(wanted)]
        assert apart(ours, wanted) < CLOSE
        alone = asked(tiny.model(family, "eager"), one, method)
        assert alone == trace.stages[1].kept[b].tolist()


def asked(model: PreTrainedModel, one: dict[str, Tensor], method: PruneVid) -> list[int]:
    """What the second stage keeps, from the queries and keys that the layer before it made when it ran."""
    attention, seen, handles = adapter_for(model).layers[LAYERS[1] - 1].get_submodule("self_attn"), {}, []
    for name in "qk":
        module: nn.Module = attention.get_submodule(f"{name}_norm" if hasattr(attention, "q_norm") else f"{name}_proj")
        # The first time is the layer's own; the second, if any, is the method's.
        handles.append(module.register_forward_hook(lambda _m, _a, out, name=name: seen.setdefault(name, out)))
    try:
        with torch.no_grad(), prune(model, method) as trace:
            model(**one, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    first, budget = trace.stages[0].kept[0].tolist(), trace.schedules[0].budgets[1]
    tokens = seen["k"].shape[1]
    query, keys = (seen[name][0].reshape(tokens, -1, attention.head_dim) for name in "qk")
    behind = one["input_ids"].shape[1] - 1 - int(tiny.visual_rows(one)[-1])
    ids = one["input_ids"][0].tolist()
    places = stages_of(trace, one, 0, len(ids))[0].sort().values.tolist()
    visual = [place for place, row in enumerate(places) if ids[row] in (tiny.IMAGE, tiny.VIDEO)]
    scores = most_asked(query[-behind:], keys)
    ranked = sorted(range(len(visual)), key=lambda i: -scores[visual[i]])[:budget]
    return [first[i] for i in sorted(ranked)]


@pytest.mark.parametrize(
    ("family", "positions"),
    [(family, "original") for family in FAMILIES] + [("llava", "compact"), ("llava_next", "compact")],
)
def test_it_generates_as_from_the_shorter_prompt(family, positions):
    """Each new token's logits are those of the model's own layers on the merged prompt with the new ones behind it."""
    model, samples = tiny.model(family), samples_of(family)
    asked_for = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    method = PruneVid(retention=0.4, positions=positions)
    with prune(model, method) as trace:
        output = model.generate(
            **tiny.batch(samples),
            **asked_for,
            suppress_tokens=[tiny.IMAGE, tiny.VIDEO],
            return_dict_in_generate=True,
            output_logits=True,
        )
    for b, one in enumerate(samples):
        longer = extended(family, one, output.sequences[b, -4:-1].tolist())
        left = stages_of(trace, one, b, longer["input_ids"].shape[1])
        clusters = merged(model, one, trace.schedules[b].budgets[0])

        def exchanged(_layer: object, args: tuple, one=one, clusters=clusters) -> tuple:
            hidden = args[0].clone()
            if hidden.shape[1] > len(tiny.visual_rows(one)):
                hidden[0, tiny.visual_rows(one)[[*clusters]]] = torch.stack([*clusters.values()])
            return (hidden, *args[1:])

        handle = adapter_for(model).layers[0].register_forward_pre_hook(exchanged)
        try:
            _, _, logits = shortened(model, longer, left, compact=positions == "compact")
        finally:
            handle.remove()
        ours = torch.stack([step[b] for step in output.logits])
        assert torch.allclose(ours, logits[-4:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", tiny.BY_HAND)
def test_at_full_retention_it_is_the_model_bit_by_bit(family):
    model, one = tiny.model(family), tiny.sample(family)
    with torch.no_grad():
        dense = model(**one).logits
        with prune(model, PruneVid(retention=1.0)):
            assert torch.equal(model(**one).logits, dense)


def test_at_layer_0_a_sample_is_judged_without_its_neighbours_and_a_full_budget_changes_nothing():
    method, view = PruneVid(retention=0.5), replace(tiny.toy_view(), layer=0)
    together = method.select(view)
    for b in range(3):
        alone = method.select(replace(tiny.toy_view(samples=[b]), layer=0))
        assert torch.equal(together.kept[b], alone.kept[0])
        assert torch.equal(together.features[b], alone.features[0])
    assert torch.equal(together.features[2], view.features(2))  # whose budget is all it has


def test_a_broken_prompt_is_named():
    model, one = tiny.model("llava"), tiny.sample("llava")
    one["pixel_values"] = one["pixel_values"] * torch.nan
    for layers in ((0, 2), (0,)):
        method = PruneVid(retention=0.5, layers=layers)
        with torch.no_grad(), prune(model, method), pytest.raises(OptionError, match="NaN or inf") as caught:
            model(**one)
        assert "\n" not in str(caught.value)


# --- budgets, costs, options -----------------------------------------------------------------------------------------


def test_released_layers_and_budgets():
    """Half of the tokens before the decoder, and int(.4 · 288) of those after the layer of index 10."""
    schedule = Schedule((0, 11), (288, 115), 576, 32)
    assert PruneVid(retention=schedule.layer_average).schedule(576, 32) == schedule
    assert PruneVid(retention=0.5, budget_rule="after-prune").schedule(576, 32) == schedule
    assert PruneVid(retention=0.5).default_layers(28) == (0, 10)
    assert PruneVid(retention=0.5).default_layers(tiny.NUM_LAYERS) == LAYERS


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_declared_overhead_is_what_is_counted(family):
    pairs = counted(family, tiny.sample(family), PruneVid(retention=0.5))
    assert len(pairs) == 2
    for seen, declared in pairs:
        assert seen == declared > 0


def test_the_host_waits_once_a_stage():
    for side, retention in ((8, 0.5), (24, 0.5), (24, 0.8)):
        assert set(waits_per_stage(side, PruneVid(retention=retention))) == {1}


def test_options():
    with pytest.raises(OptionError, match=r"layers \(1, 2\): it begins before the decoder"):
        PruneVid(retention=0.5, layers=(1, 2))
