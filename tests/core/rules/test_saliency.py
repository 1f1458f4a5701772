"""Tail saliency against its oracle, autograd through the whole layer, inside real models."""

import copy

import pytest
import torch

from tests.core import tiny
from tests.core.models.test_families import LAYERS, windowed
from trio_core import Trio, tensors
from trio_core.models.adapter import families
from trio_core.rules.saliency import loss_slope


def traced(model, inputs, **options):
    """The stages of one prefill."""
    _, trace = tiny.run(model, inputs, Trio(retention=0.5, layers=LAYERS, **options))
    return trace.stages


def widest_difference(model, inputs, **options) -> float:
    """Greatest relative difference of the scores and autograd's over all stages, at tokens both still have."""
    worst, by_autograd = 0.0, {**options, "saliency": "autograd"}
    for tail, plain in zip(traced(model, inputs, **options), traced(model, inputs, **by_autograd), strict=True):
        if tail.scores is None:
            assert plain.scores is None
            continue
        for ours, oracle, kept, expected in zip(tail.scores, plain.scores, tail.kept, plain.kept, strict=True):
            there = ~oracle.isnan()
            assert torch.equal(there, ~ours.isnan())
            assert torch.equal(kept, expected)
            error = (ours[there].double() - oracle[there].double()).abs() / oracle[there].double().abs().max()
            worst = max(worst, error.max().item())
    return worst


def with_float64_norms(model):
    """The library's RMS norms compute in float32 whatever comes in; torch's stay in the type they are given."""
    for module in list(model.modules()):
        for name, norm in list(module.named_children()):
            if type(norm).__name__.endswith("RMSNorm"):
                replaced = torch.nn.RMSNorm(norm.weight.shape, eps=norm.variance_epsilon, dtype=torch.float64)
                replaced.weight = norm.weight
                setattr(module, name, replaced)
    return model


@pytest.mark.parametrize(("probe", "rows"), [("next", "last"), ("current", "shifted")])
@tiny.every_kernel
def test_tail_equals_autograd_and_keeps_the_same(family, attention, probe, rows):
    assert 0 < widest_difference(tiny.model(family, attention), tiny.sample(family), probe=probe, rows=rows) < 1e-5


def test_tail_equals_autograd_under_a_window_and_where_all_see_all():
    """Gemma 3's window is outgrown by the prompt. PaliGemma without token types has no mask under sdpa."""
    assert widest_difference(windowed("gemma3", "sdpa", 12), tiny.sample("gemma3")) < 1e-5
    inputs = {name: value for name, value in tiny.sample("paligemma").items() if name != "token_type_ids"}
    assert widest_difference(tiny.model("paligemma"), inputs) < 1e-5


@pytest.mark.parametrize("probe", ["next", "current"])
@tiny.one_or_three_axes
def test_in_float64_they_are_equal_to_rounding(family, probe):
    model = with_float64_norms(copy.deepcopy(tiny.model(family, "sdpa")).double())
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in tiny.sample(family).items()}
    assert widest_difference(model, inputs, probe=probe) < 1e-10


@pytest.mark.parametrize("side", tiny.fast_first(["left", "right"], "right"))
@pytest.mark.parametrize("attention", tiny.fast_first(tiny.ATTENTION, "sdpa"))
@tiny.one_or_three_axes
def test_padded_batches_with_unequal_pictures(family, attention, side):
    inputs = tiny.batch(tiny.unequal_spans(family), side)
    assert widest_difference(tiny.model(family, attention), inputs) < 1e-5


@pytest.mark.parametrize("family", ["llava", "gemma3", "qwen2_5_vl"])
def test_block_by_block_it_is_the_same(family, monkeypatch):
    """Blocks of two tokens or so, as of a model whose tensors fill a core's cache."""
    monkeypatch.setattr(tensors, "_IN_CACHE", 64)
    assert widest_difference(tiny.model(family), tiny.sample(family)) < 1e-5
    assert widest_difference(tiny.model(family), tiny.batch(tiny.unequal_spans(family), "left")) < 1e-5


def agreement(family: str, seed: int) -> float:
    """The share of the first stage's tokens in float32 that bfloat16 keeps too, of a model of the same rounded weights.

    Later stages see what the first one left.
    """
    adapter = families[tiny.NAMES[family]]
    model, one = adapter.toy(adapter.toy_attention[-1], seed).bfloat16(), tiny.sample(family, seed=seed)
    inputs = {k: v.bfloat16() if v.is_floating_point() else v for k, v in one.items()}
    half = set(traced(model, inputs)[0].kept[0].tolist())
    inputs = {k: v.float() if v.is_floating_point() else v for k, v in inputs.items()}
    single = set(traced(model.float(), inputs)[0].kept[0].tolist())
    return len(half & single) / len(single)


@pytest.mark.slow
def test_bfloat16_keeps_what_float32_keeps():
    """At least 95 % of the tokens over all families, 98 % as measured; a toy of 20 tokens cannot resolve 5 % alone."""
    shares = {family: [agreement(family, seed) for seed in (0, 1)] for family in tiny.FAMILIES}
    means = {family: sum(values) / len(values) for family, values in shares.items()}
    assert sum(means.values()) / len(means) >= 0.95
    assert min(means.values()) >= 0.9, means


# --- the loss --------------------------------------------------------------------------------------------------------


def test_a_confident_label_leaves_a_slope_in_any_type():
    """At a lead of 40 the derivative is 1e-18: nothing in float16, and a difference of equals in float32."""
    logits = torch.tensor([[[40.0, 0.0, -1.0]]])
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        slope, log_scale = loss_slope(logits.to(dtype))
        expected = torch.tensor([-1 - torch.e**-1, 1, torch.e**-1], dtype=torch.float64)
        assert torch.allclose(slope[0, 0].double(), expected, rtol=torch.finfo(dtype).eps * 4)
        assert log_scale.item() == pytest.approx(-40, abs=0.1)


def test_a_label_infinitely_ahead_gives_no_slope_and_no_nan():
    slope, log_scale = loss_slope(torch.tensor([[[0.0, -torch.inf]]]))
    assert slope.tolist() == [[[0, 0]]]
    assert log_scale.isfinite().all()


# --- cost and refusals -----------------------------------------------------------------------------------------------


def test_tail_never_asks_for_all_rows_of_the_head():
    model, inputs = tiny.model("llava"), tiny.sample("llava")
    seen: list[int] = []
    hook = model.lm_head.register_forward_pre_hook(lambda _module, args: seen.append(args[0].shape[1]))
    with tiny.attached([hook]):
        traced(model, inputs, k_pos=3)
    assert seen[:-1] == [3] * (len(seen) - 1)
