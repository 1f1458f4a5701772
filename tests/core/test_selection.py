"""The fast selection rules against the plain ones and against cases worked by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trio_core import OptionError, equations
from trio_core.selection import _LEAST_BLOCK, nms_select, stride, top_k

COUNTS = (1, 2, 3, 17, _LEAST_BLOCK - 1, _LEAST_BLOCK, _LEAST_BLOCK + 1, 2 * _LEAST_BLOCK, 600, 700)
THRESHOLDS = (-0.2, 0.0, 0.3, 0.8, 0.95)


def cloud(kind: str, count: int, generator: torch.Generator, width: int = 8) -> Tensor:
    """[N, D] features; `duplicates` and `axes` have similarities that floats hold exactly."""
    if kind == "random":
        return torch.randn(count, width, generator=generator)
    if kind == "clustered":
        centres = torch.randn(max(1, count // 9), width, generator=generator)
        which = torch.randint(len(centres), (count,), generator=generator)
        return centres[which] + 0.2 * torch.randn(count, width, generator=generator)
    axes = torch.cat([torch.eye(width), -torch.eye(width)])
    if kind == "duplicates":
        axes = axes[:3]
    return axes[torch.randint(len(axes), (count,), generator=generator)] * 2.0


def ranks(count: int, ties: bool, generator: torch.Generator) -> Tensor:
    if ties:
        return torch.randint(4, (count,), generator=generator).float()
    return torch.rand(count, generator=generator)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ["random", "clustered", "duplicates", "axes"])
def test_the_fast_form_is_algorithm_1(kind, count):
    generator = torch.Generator().manual_seed(count)
    for threshold in THRESHOLDS:
        for ties in (False, True):
            features, scores = cloud(kind, count, generator), ranks(count, ties, generator)
            for budget in sorted({1, max(1, count // 9), max(1, count // 2), count}):
                fast = nms_select(scores, features, budget, threshold)
                plain = equations.nms_select(scores, features, budget, threshold)
                assert torch.equal(fast, plain), (threshold, ties, budget)


@settings(max_examples=60)
@given(st.integers(1, 700), st.sampled_from(["clustered", "axes"]), st.floats(-0.9, 1.0), st.booleans(), st.data())
def test_the_fast_form_is_algorithm_1_anywhere(count, kind, threshold, ties, data):
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    budget = data.draw(st.integers(1, count))
    features, scores = cloud(kind, count, generator), ranks(count, ties, generator)
    fast = nms_select(scores, features, budget, threshold)
    assert torch.equal(fast, equations.nms_select(scores, features, budget, threshold))


def test_a_chain_longer_than_a_block_is_settled_exactly():
    # Each token is near the next alone, so every other one stays: the longest dependence that a block can hold.
    count = 2 * _LEAST_BLOCK + 7
    angle = torch.arange(count, dtype=torch.float64) * 0.01
    features = torch.stack([angle.cos(), angle.sin()], dim=1)
    scores = torch.arange(count, 0, -1).double()
    kept = nms_select(scores, features, count // 2, threshold=float(torch.tensor(0.015).cos()))
    assert kept.tolist() == list(range(0, 2 * (count // 2), 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_choose_by_the_same_rule(dtype):
    generator = torch.Generator().manual_seed(0)
    features, scores = cloud("clustered", 100, generator).to(dtype), torch.rand(100, generator=generator)
    assert torch.equal(nms_select(scores, features, 30), equations.nms_select(scores, features, 30))


def test_the_inputs_stay_as_they_are():
    generator = torch.Generator().manual_seed(0)
    features, scores = cloud("random", 50, generator), torch.rand(50, generator=generator)
    before = features.clone(), scores.clone()
    nms_select(scores, features, 10)
    top_k(scores, 10)
    assert torch.equal(features, before[0]) and torch.equal(scores, before[1])


@pytest.mark.parametrize("budget", [0, -1, 6])
def test_a_budget_outside_1_to_n_is_refused(budget):
    for choose in (lambda: nms_select(torch.rand(5), torch.rand(5, 2), budget), lambda: top_k(torch.rand(5), budget)):
        with pytest.raises(OptionError, match=f"budget {budget}: can keep 1 … 5 of 5 tokens"):
            choose()
    with pytest.raises(OptionError, match=f"budget {budget}"):
        stride(5, budget)


@pytest.mark.parametrize("threshold", [-1.0, -2.0, 1.01, float("nan")])
def test_a_threshold_that_is_no_cosine_is_refused(threshold):
    with pytest.raises(OptionError, match=rf"threshold {threshold} is outside \(-1, 1\]"):
        nms_select(torch.rand(5), torch.rand(5, 2), 2, threshold)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_broken_scores_or_features_are_refused(broken):
    scores, features = torch.rand(5), torch.rand(5, 2)
    bad_scores, bad_features = scores.clone(), features.clone()
    bad_scores[2] = bad_features[3, 1] = broken
    for choose in (
        lambda: nms_select(bad_scores, features, 2),
        lambda: nms_select(scores, bad_features, 2),
        lambda: nms_select(scores, bad_features, 5),
        lambda: top_k(bad_scores, 2),
    ):
        with pytest.raises(OptionError, match="NaN or infinity"):
            choose()


@pytest.mark.parametrize(
    ("count", "budget", "kept"),
    [(9, 3, [1, 4, 7]), (8, 3, [1, 4, 6]), (10, 4, [1, 3, 6, 8]), (5, 5, [0, 1, 2, 3, 4]), (7, 1, [3]), (1, 1, [0])],
)
def test_stride_on_cases_worked_by_hand(count, budget, kept):
    assert stride(count, budget).tolist() == kept


def test_stride_is_strictly_ascending():
    for count in range(1, 60):
        for budget in range(1, count + 1):
            kept = stride(count, budget)
            assert (kept.diff() > 0).all() and kept[0] >= 0 and kept[-1] < count and len(kept) == budget


@pytest.mark.parametrize(
    ("scores", "budget", "kept"),
    [
        ([1.0, 3.0, 2.0], 2, [1, 2]),
        ([2.0, 2.0, 2.0, 2.0], 2, [0, 1]),
        ([1.0, 2.0, 1.0, 2.0, 1.0], 3, [0, 1, 3]),
        ([0.0, -1.0], 1, [0]),
    ],
)
def test_top_k_gives_ties_to_the_lower_index(scores, budget, kept):
    assert top_k(torch.tensor(scores), budget).tolist() == kept
