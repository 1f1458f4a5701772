"""The fast selection rules against the plain ones and against cases worked by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.core.rules.drawn import cloud
from trio_core.rules.nms import nms_select
from trio_core.rules.selection import (
    cosine,
    dpp_map,
    facility_location,
    farthest_point,
    stride,
    top_k,
)


@pytest.mark.parametrize(
    ("count", "budget", "kept"),
    [(9, 3, [1, 4, 7]), (8, 3, [1, 4, 6]), (10, 4, [1, 3, 6, 8]), (5, 5, [0, 1, 2, 3, 4]), (7, 1, [3]), (1, 1, [0])],
)
def test_stride_on_cases_worked_by_hand(count, budget, kept):
    assert stride(count, budget).tolist() == kept


def test_top_k_gives_ties_to_the_lower_index():
    for scores, budget, kept in (
        ([2.0, 2.0, 2.0, 2.0], 2, [0, 1]),
        ([1.0, 2.0, 1.0, 2.0, 1.0], 3, [0, 1, 3]),
        ([0.0, -1.0], 1, [0]),
    ):
        assert top_k(torch.tensor(scores), budget).tolist() == kept


# methods.md, §1.11 and cards 8, 9 and 12: six features, each rule's picks worked by hand.
HAND = torch.tensor([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [0.7, 0.7], [-1, 0]])
ATTENTION = torch.tensor([0.30, 0.10, 0.10, 0.05, 0.25, 0.20])
RELEVANCE = torch.tensor([1, 0.9, 0.5, 0.25, 0.75, 5e-6])


def relevant(features: Tensor, relevance: Tensor) -> Tensor:
    return relevance[:, None] * cosine(features) * relevance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_cards_examples(dtype):
    features, attention, relevance = HAND.to(dtype), ATTENTION.to(dtype), RELEVANCE.to(dtype)
    assert [farthest_point(features, k).tolist() for k in (1, 2, 3)] == [[5], [0, 5], [0, 2, 5]]
    assert [dpp_map(relevant(features, relevance).to(dtype), k).tolist() for k in (1, 2)] == [[0], [0, 4]]
    similarity = cosine(features).to(dtype)
    assert [facility_location(similarity, attention, k).tolist() for k in (1, 2, 3)] == [[4], [4, 5], [0, 4, 5]]


# Each rule once more as a loop over candidates, in Python's float64; a pick is the first of the best.


def best(gains: dict[int, float]) -> int:
    return max(gains, key=lambda j: gains[j])


def farthest_point_in_a_loop(features: Tensor, budget: int) -> list[int]:
    distance = (1 - cosine(features.double())).tolist()
    everyone = range(len(distance))
    kept: list[int] = []
    for _ in range(budget):
        others = {j: kept or [i for i in everyone if i != j] for j in everyone if j not in kept}
        kept.append(best({j: min((distance[i][j] for i in near), default=0) for j, near in others.items()}))
    return sorted(kept)


def dpp_map_in_a_loop(kernel: Tensor, budget: int) -> list[int]:
    """By determinants: the gain of j is det(L of those kept and j) over det(L of those kept), on logarithms."""
    kept: list[int] = []
    for _ in range(budget):
        rest = [j for j in range(len(kernel)) if j not in kept]
        kept.append(best({j: float(torch.linalg.slogdet(kernel[[*kept, j]][:, [*kept, j]])[1]) for j in rest}))
    return sorted(kept)


def facility_location_in_a_loop(similarity: Tensor, weights: Tensor, budget: int) -> list[int]:
    rows, kept = similarity.tolist(), []
    for _ in range(budget):
        cover = [max([0.0, *(row[i] for i in kept)]) for row in rows]
        gains = {
            j: sum(max(0.0, row[j] - c) for row, c in zip(rows, cover, strict=True)) * float(weights[j])
            for j in range(len(rows))
            if j not in kept
        }
        kept.append(best(gains))
    return sorted(kept)


counts_and_budgets = st.integers(1, 24).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))
seeds = st.integers(0, 2**31)


def drawn(kind: str, count: int, seed: int, width: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return cloud(kind, count, generator, width).double(), torch.rand(count, generator=generator).double() + 0.1


@settings(max_examples=60)
@given(counts_and_budgets, st.sampled_from(["random", "clustered", "axes", "duplicates"]), seeds)
def test_farthest_point_is_its_loop(sizes, kind, seed):
    features, _ = drawn(kind, sizes[0], seed)
    assert farthest_point(features, sizes[1]).tolist() == farthest_point_in_a_loop(features, sizes[1])


@settings(max_examples=60)
@given(counts_and_budgets, st.sampled_from(["random", "clustered"]), seeds)
def test_dpp_map_is_its_loop(sizes, kind, seed):
    features, relevance = drawn(kind, sizes[0], seed, width=32)
    kernel = relevant(features, relevance)
    assert dpp_map(kernel, sizes[1]).tolist() == dpp_map_in_a_loop(kernel, sizes[1])


@settings(max_examples=60)
@given(counts_and_budgets, st.sampled_from(["random", "clustered", "axes", "duplicates"]), seeds)
def test_facility_location_is_its_loop(sizes, kind, seed):
    features, weights = drawn(kind, sizes[0], seed)
    # Eighths: sums of products stay exact, so that ties are ties whatever the order of the sum.
    similarity, weights = (cosine(features) * 8).round() / 8, (weights * 8).round() / 8
    expected = facility_location_in_a_loop(similarity, weights, sizes[1])
    assert facility_location(similarity, weights, sizes[1]).tolist() == expected


RULES = {
    "farthest_point": lambda features, _, k: farthest_point(features, k),
    "dpp_map": lambda features, weights, k: dpp_map(relevant(features, weights), k),
    "facility_location": lambda features, weights, k: facility_location(cosine(features), weights, k),
    "nms_select": lambda features, weights, k: nms_select(weights, features, k),
}


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=30)
@given(
    counts_and_budgets,
    st.sampled_from(["random", "clustered", "axes", "duplicates"]),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]),
    seeds,
)
def test_each_rule_keeps_exactly_the_budget_in_order(rule, sizes, kind, dtype, seed):
    (count, budget), select = sizes, RULES[rule]
    features, weights = (part.to(dtype) for part in drawn(kind, count, seed))
    kept = select(features, weights, budget)
    assert kept.shape == (budget,) and kept.dtype == torch.long
    assert (kept.diff() > 0).all() and kept[0] >= 0 and kept[-1] < count
    assert torch.equal(kept, select(features, weights, budget))
    assert torch.equal(select(features, weights, count), torch.arange(count))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_each_rule_gives_ties_to_the_lower_index(rule, dtype):
    # Two axes, each four times, equally weighted: one of each first, then the rest from the left.
    features = torch.eye(2).repeat(4, 1)[[0, 2, 1, 4, 3, 6, 5, 7]].to(dtype)
    selections = [RULES[rule](features, torch.ones(8, dtype=dtype), k).tolist() for k in range(1, 9)]
    assert selections == [[0], [0, 2], [0, 1, 2], *(list(range(k)) for k in range(4, 9))]


def test_dpp_map_takes_a_kernel_of_zeros_and_one_that_is_not_definite():
    assert dpp_map(torch.zeros(4, 4), 3).tolist() == [0, 1, 2]
    assert dpp_map(-torch.eye(4), 3).tolist() == [0, 1, 2]
    assert dpp_map(torch.tensor([[1.0, 2.0], [2.0, 1.0]]), 2).tolist() == [0, 1]
