"""The fast form of Algorithm 1 against the plain one, and what the host waits for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.rules.drawn import cloud, ranks, waits
from trio_core import OptionError
from trio_core.rules import equations, nms
from trio_core.rules.nms import _LEAST_BLOCK, _MOST_BLOCK, nms_select


@pytest.fixture
def as_on_an_accelerator(monkeypatch):
    """The blocks of an accelerator: all candidates at once."""
    monkeypatch.setattr(nms, "_LEAST_BLOCK", nms._AT_ONCE)
    monkeypatch.setattr(nms, "_MOST_BLOCK", nms._AT_ONCE)


KINDS = ["random", "clustered", "duplicates", "axes"]
EDGES = (1, 2, _LEAST_BLOCK - 1, _LEAST_BLOCK, _LEAST_BLOCK + 1, _MOST_BLOCK + 1)


@settings(max_examples=80)
@given(
    st.sampled_from(EDGES) | st.integers(1, 700), st.sampled_from(KINDS), st.floats(-0.9, 1.0), st.booleans(), st.data()
)
def test_the_fast_form_is_algorithm_1(count, kind, threshold, ties, data):
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    budget = data.draw(st.integers(1, count))
    features, scores = cloud(kind, count, generator), ranks(count, ties, generator)
    fast = nms_select(scores, features, budget, threshold)
    assert torch.equal(fast, equations.nms_select(scores, features, budget, threshold))


def test_a_chain_longer_than_a_block_is_settled_exactly():
    # Each token is near the next alone, so every other one stays: the longest dependence that a block can hold.
    count = 2 * _MOST_BLOCK + 7
    angle = torch.arange(count, dtype=torch.float64) * 0.01
    features = torch.stack([angle.cos(), angle.sin()], dim=1)
    scores = torch.arange(count, 0, -1).double()
    kept = nms_select(scores, features, count // 2, threshold=float(torch.tensor(0.015).cos()))
    assert kept.tolist() == list(range(0, 2 * (count // 2), 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [1, 300])
def test_an_accelerator_waits_once_and_selects_the_same(as_on_an_accelerator, kind, budget):
    generator = torch.Generator().manual_seed(budget)
    features, scores = cloud(kind, 700, generator), ranks(700, True, generator)
    assert torch.equal(nms_select(scores, features, budget), equations.nms_select(scores, features, budget))
    assert waits(lambda: nms_select(scores, features, budget)) == 1


@pytest.mark.parametrize("threshold", [-1.0, -2.0, 1.01, float("nan")])
def test_a_threshold_that_is_no_cosine_is_refused(threshold):
    with pytest.raises(OptionError, match=rf"threshold {threshold} is outside \(-1, 1\]"):
        nms_select(torch.rand(5), torch.rand(5, 2), 2, threshold)


def test_a_token_of_zeros_is_near_nothing_but_at_a_threshold_of_zero():
    scores, features = torch.tensor([3.0, 2.0, 1.0]), torch.tensor([[1.0, 0], [0, 0], [1, 0]])
    assert nms_select(scores, features, 2, 0.5).tolist() == [0, 1]
    assert nms_select(scores, features, 2, 0.0).tolist() == equations.nms_select(scores, features, 2, 0.0).tolist()
