"""SparseVLM: its rules by hand and as loops, its published lists, and inside every family, merged tokens and all.

The oracle reads the library's own eager maps and rotary embeddings; the method runs beside any kernel.
"""

from math import exp

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods.test_prunevid import dpc_knn_in_a_loop
from tests.core.models.test_families import LAYERS, shortened, stages_of, walk
from trio_core.methods import sparsevlm
from trio_core.methods.sparsevlm import (
    PUBLISHED,
    SparseVLM,
    kept_and_merged,
    pool_size,
    recycled,
)
from trio_core.models import adapter_for
from trio_core.trace import Trace

# --- raters ----------------------------------------------------------------------------------------------------------


def raters_in_a_loop(visual: list, text: list) -> list[bool]:
    shares = [0.0] * len(text)
    for token in visual:
        products = [sum(a * b for a, b in zip(token, word, strict=True)) for word in text]
        likeness = [exp(product - max(products)) for product in products]
        shares = [share + part / sum(likeness) / len(visual) for share, part in zip(shares, likeness, strict=True)]
    return [share > 1 / len(text) for share in shares]


# --- rating ----------------------------------------------------------------------------------------------------------


def rating_in_a_loop(attention: list, telling: list[bool], heads: int | None) -> list[float]:
    rows = [t for t, tells in enumerate(telling) if tells]
    mass = [sum(sum(head[t]) for t in rows) for head in attention]
    loudest = sorted(range(len(mass)), key=lambda h: (-mass[h], h))[:heads]
    return [
        sum(attention[h][t][j] for h in loudest for t in rows) / len(rows) / len(loudest)
        for j in range(len(attention[0][0]))
    ]


# --- recycling -------------------------------------------------------------------------------------------------------


def test_published_lists_come_out_of_their_totals():
    kept = (300, 200, 110), (303, 110, 36), (238, 48, 26), (66, 30, 17)
    merged = (9, 4, 3), (9, 7, 3), (11, 7, 1), (16, 2, 1)
    for listed, *expected in zip(PUBLISHED["v1"], kept, merged, strict=True):
        shares = map(kept_and_merged, (576, *listed.budgets), listed.budgets)
        assert tuple(shares) == tuple(zip(*expected, strict=True))
    assert pool_size(510) == 154 and pool_size(52) == 16


def shares_by_search(count: int, total: int) -> tuple[int, int] | None:
    """The most kept with which the card's numbers make the total."""
    for kept in range(count, 0, -1):
        dropped = count - kept
        merged = int((int(0.3 * dropped) + 1) / 10) + 1 if dropped else 0
        if kept + merged <= total:
            return (kept, merged) if kept + merged == total else None
    return None


def test_a_total_is_met_by_the_rule_unless_it_is_too_small():
    for count in [*range(1, 140), 576]:
        for total in range(1, count + 1):
            expected = shares_by_search(count, total)
            assert kept_and_merged(count, total) == (expected or (1, total - 1))
            assert expected or total <= pool_size(count - 1) // 10 + 1
            kept, merged = kept_and_merged(count, total)
            assert merged <= pool_size(count - kept) or not merged


def recycled_in_a_loop(scores: list[float], features: list, total: int) -> tuple[list[int], list[list[float]]]:
    count = len(scores)
    ranked = sorted(range(count), key=lambda i: (-scores[i], i))
    kept, merged = (total, 0) if total == count else shares_by_search(count, total) or (1, total - 1)
    best = sorted(ranked[:kept])
    if not merged:
        return best, [features[i] for i in best]
    pool = sorted(ranked[kept:][: int(0.3 * (count - kept)) + 1])
    pooled = torch.tensor([features[i] for i in pool], dtype=torch.float64)
    centres, labels = dpc_knn_in_a_loop(pooled, merged, neighbours=merged)
    stands = {i: features[i] for i in best}
    for number, centre in enumerate(centres):
        stands[pool[centre]] = pooled[[label == number for label in labels]].mean(dim=0).tolist()
    return sorted(stands), [stands[place] for place in sorted(stands)]


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.integers(0, 2**31))
def test_recycling_is_its_loop(sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 9, (sizes[0],), generator=generator, dtype=torch.float64)  # some are equal
    features = torch.randn(sizes[0], 3, generator=generator, dtype=torch.float64)
    places, left = recycled(scores, features, sizes[1])
    expected_places, expected = recycled_in_a_loop(scores.tolist(), features.tolist(), sizes[1])
    assert places.tolist() == expected_places
    torch.testing.assert_close(left, torch.tensor(expected, dtype=torch.float64))


# --- schedule and options --------------------------------------------------------------------------------------------


def test_at_the_average_of_a_published_list_the_budgets_are_that_list():
    for version, listed in [(version, listed) for version, lists in PUBLISHED.items() for listed in lists]:
        assert SparseVLM(retention=listed.layer_average, version=version).schedule(576, 32) == listed
        first, last = listed.budgets[0] / 576, listed.final_layer
        assert SparseVLM(retention=last, version=version, budget_rule="final").schedule(576, 32) == listed
        assert SparseVLM(retention=first, version=version, budget_rule="after-prune").schedule(576, 32) == listed
        named = SparseVLM(layers=listed.layers, budgets=listed.budgets, version=version)
        assert named.schedule(576, 32) == listed


# --- inside every family ---------------------------------------------------------------------------------------------

Exchanged = dict[int, tuple[Tensor, Tensor, Tensor]]
"""After layer l: the places that are left, and of them those of the picture with what stands there from now on."""


def follow(
    model: PreTrainedModel, one: dict[str, Tensor], trace: Trace, sample: int, method: SparseVLM
) -> tuple[Exchanged, int]:
    """Each stage of one sample by the loops above, from the eager model's own maps; checked against the trace.

    Returns what was exchanged, and at how many stages tokens were merged.
    """
    visual, compact = tiny.visual_rows(one), method.positions == "compact"
    left, stages, merges = stages_of(trace, one, sample, one["input_ids"].shape[1]), {}, 0
    embedded = walk(model, one, {})[0].hidden[0]
    words = torch.arange(int(visual[-1]) + 1, len(embedded))
    telling = raters_in_a_loop(embedded[visual].tolist(), embedded[words].tolist())
    here = torch.arange(len(visual))
    for stage, budget in zip(trace.stages, trace.schedules[sample].budgets, strict=True):
        if stage.scores is None:  # nothing was to go
            continue
        steps = walk(model, one, stages, compact)
        (hidden, places), step = steps[stage.layer].before, steps[stage.layer - 1]
        attention, (cosine, sine) = step.attention, (part[0] for part in step.rotary)
        tokens, asking = torch.isin(places, visual), torch.isin(places, words)
        seen = attention[:, asking][..., tokens]
        if method.version == "v2":
            # The product of two rotated vectors of ones: 2 Σ cos(a − b) over the half of the angles that differ, and 1
            # for each place that is not turned. GLM turns neighbours, and so each angle stands beside its like.
            turned, width = cosine.shape[-1], adapter_for(model).layers[0].get_submodule("self_attn").head_dim
            angles = slice(None, None, 2) if torch.equal(cosine[:, 0], cosine[:, 1]) else slice(turned // 2)
            c, s = cosine[:, angles], sine[:, angles]
            product = 2 * (c[asking] @ c[tokens].T + s[asking] @ s[tokens].T) + (width - turned)
            seen = seen / (product / width**0.5)
        heads = sparsevlm.HEADS if method.version == "v2" else None
        scores = rating_in_a_loop(seen.tolist(), telling, heads)
        assert torch.allclose(stage.scores[sample][here], torch.tensor(scores), rtol=1e-3, atol=1e-7)
        if method.merges:
            kept, features = recycled_in_a_loop(scores, hidden[tokens].tolist(), budget)
            merges += budget < len(here) and kept_and_merged(len(here), budget)[1] > 0
        else:
            kept = sorted(sorted(range(len(scores)), key=lambda j: -scores[j])[:budget])
            features = hidden[tokens][kept].tolist()
        here = here[kept]
        assert torch.equal(stage.kept[sample], here), f"sample {sample}, layer {stage.layer}"
        stages[stage.layer] = left[stage.layer], visual[here], torch.tensor(features)
    return stages, merges


def check(family: str, method: SparseVLM, side: str = "left") -> int:
    """The selections are those of the loops. The output is that of the model's own layers on the kept tokens."""
    samples, eager, merges = tiny.pair(family), tiny.model(family, "eager"), 0
    logits, trace = tiny.run(tiny.model(family), tiny.batch(samples, side), method)
    for b, one in enumerate(samples):
        stages, merged = follow(eager, one, trace, b, method)
        merges += merged
        expected = shortened(eager, one, (), stages, method.positions == "compact")[1][-1]
        assert torch.allclose(logits[b, trace.places[b][-1]], expected, rtol=1e-3, atol=1e-4)
    return merges


@tiny.every_family
def test_v1_is_its_loops_at_every_stage_and_the_merged_tokens_go_on(family):
    assert check(family, SparseVLM(retention=0.5, layers=LAYERS)) >= 3


@tiny.every_family
def test_v2_is_its_loops_at_every_stage(family, monkeypatch):
    monkeypatch.setattr(sparsevlm, "HEADS", 2)  # of the toys' four
    check(family, SparseVLM(retention=0.5, layers=LAYERS, version="v2"))


@pytest.mark.parametrize(
    "options",
    [{"recycle": False}, {"retention": 0.3}, {"retention": 0.8}, {"positions": "compact"}, {"layers": None}],
    ids=str,
)
def test_other_options(options):
    check("llava", SparseVLM(**({"retention": 0.5, "layers": LAYERS} | options)))
