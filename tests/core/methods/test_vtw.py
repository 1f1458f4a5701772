"""VTW: which layer a retention means, the search for it, and a decoder from which the whole picture is gone."""

from dataclasses import replace

import pytest
import torch

from tests.core import tiny
from tests.core.methods.test_overhead import counted, waits_per_stage
from tests.core.models.test_families import apart, check
from tests.core.test_pruning import check_against_reference
from trio_core import OptionError, prune
from trio_core.methods.vtw import VTW
from trio_core.rules.schedule import Schedule

# --- which layer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "depth", "layer"),
    [
        (0.5, 32, 16),
        (64 / 576, 32, 4),  # 3.56: no integer, and 4 · 576 / 32 = 72
        (54 / 576, 32, 3),
        (1e-6, 32, 1),
        (0.001, 2, 1),
        (0.98, 32, 31),
        (0.5, 28, 14),
        (0.25, 6, 2),  # 1.5: to the even one
    ],
)
def test_the_layer_nearest_to_an_average(retention, depth, layer):
    schedule = VTW(retention=retention).schedule(visual_tokens=576, num_layers=depth)
    assert schedule == Schedule((layer,), (0,), 576, depth)
    assert schedule.layer_average == layer / depth


def test_the_published_average():
    schedule = VTW(retention=0.5).schedule(visual_tokens=576, num_layers=32)
    assert schedule.layer_average * 576 == 288
    assert schedule.tokens_by_layer == (576,) * 16 + (0,) * 16
    assert VTW(retention=0.5).default_layers(32) == (16,)


@pytest.mark.parametrize(
    "options",
    [{"retention": 1.0}, {"retention": 0.99}, {"retention": 1.0, "layers": (16,)}, {"budgets": (576,), "layers": (3,)}],
)
def test_a_decoder_that_keeps_everything(options):
    schedule = VTW(**options).schedule(visual_tokens=576, num_layers=32)
    assert schedule.budgets == (576,) and schedule.layer_average == 1


def test_a_layer_that_is_named_wins():
    assert VTW(retention=0.9, layers=(15,)).schedule(576, 32) == Schedule((15,), (0,), 576, 32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retention": 0.5, "layers": (3, 4)}, r"layers \(3, 4\): all visual tokens leave at once; name one layer"),
        ({"retention": 0.5, "budget_rule": "final"}, "budget_rule 'final': nothing is left after its layer"),
        ({"retention": 0.5, "budget_rule": "after-prune"}, "budget_rule 'after-prune': nothing is left"),
        ({"retention": 0.5, "layers": (0,)}, r"layers \(0,\) are 1-based"),
        ({}, "either retention or budgets"),
    ],
)
def test_options_without_a_meaning_are_refused_in_one_line(options, message):
    with pytest.raises(OptionError, match=message) as caught:
        VTW(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "depth", "message"),
    [
        ({"budgets": (64,), "layers": (3,)}, 32, r"budgets \(64,\): it withdraws all visual tokens; give retention"),
        ({"budgets": (0,), "layers": (3,)}, 32, r"budgets \(0,\): keep at least 1 token"),
        ({"retention": 0.5}, 1, "num_layers 1: pruning between layers needs at least 2"),
        ({"retention": 0.5, "layers": (32,)}, 32, r"layers \(32,\): a decoder of 32 layers"),
    ],
)
def test_schedules_that_there_are_not(options, depth, message):
    with pytest.raises(OptionError, match=message) as caught:
        VTW(**options).schedule(visual_tokens=576, num_layers=depth)
    assert "\n" not in str(caught.value)


# --- nothing of the picture is left ----------------------------------------------------------------------------------


def padded(family):
    return [tiny.sample(family, "small", seed=1), tiny.sample(family, after=12)]


@pytest.mark.parametrize(("family", "attention"), tiny.KERNELS)
def test_its_layers_run_on_the_text_alone(family, attention):
    """Prefill and decode of a padded batch, in every family under every kernel."""
    check(family, tiny.model(family, attention), padded(family), VTW(retention=0.5, layers=(3,)))


@pytest.mark.parametrize("positions", ["original", "compact"])
@pytest.mark.parametrize("attention", tiny.ATTENTION)
@pytest.mark.parametrize("family", ["llava", "llava_next"])
def test_against_a_decoder_written_out(family, attention, positions):
    model = tiny.model(family, attention)
    method = VTW(retention=0.3, positions=positions)
    for samples in ([tiny.sample(family, before=0)], [*padded(family), tiny.sample(family, "small", 5, after=30)]):
        trace = check_against_reference(model, samples, method)
        assert [(stage.layer, stage.tokens_after) for stage in trace.stages] == [(2, 0)]
        assert [kept.tolist() for kept in trace.stages[0].kept] == [[]] * len(samples)
        assert trace.realised_retention == 2 / 6


@pytest.mark.parametrize("family", tiny.BY_HAND)
def test_full_retention_is_the_model_bit_by_bit(family):
    model, inputs = tiny.model(family), tiny.batch(padded(family))
    with torch.no_grad():
        dense = model(**inputs).logits
        with prune(model, "vtw", retention=1.0) as trace:
            assert torch.equal(model(**inputs).logits, dense)
        assert trace.realised_retention == 1
        with prune(model, "vtw", retention=0.5):
            assert apart(model(**inputs).logits[:, -1], dense[:, -1]) > 1e-3


def test_right_padding():
    model, samples = tiny.model("llava"), padded("llava")
    with torch.no_grad(), prune(model, VTW(retention=0.5)):
        alone = [model(**one).logits[0, -1] for one in samples]
        together = model(**tiny.batch(samples, "right")).logits
    for b, one in enumerate(samples):
        assert apart(together[b, one["input_ids"].shape[1] - 1], alone[b]) < 2e-5, one["input_ids"].shape


def test_a_stage_keeps_all_or_nothing():
    select = VTW(retention=0.5).select
    assert [len(kept) for kept in select(tiny.toy_view(budgets=(0, 0, 12))).kept] == [0, 0, 12]
    view = tiny.toy_view(budgets=(0, 0, 0))
    assert all(len(kept) == 0 and kept.dtype == torch.long for kept in select(replace(view, signals={})).kept)


def test_it_costs_nothing():
    assert counted("llava", tiny.sample("llava"), VTW(retention=0.5)) == [(0, 0)]
    assert [waits_per_stage(side, VTW(retention=0.5)) for side in (8, 24)] == [[0], [0]]
