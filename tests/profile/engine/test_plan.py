import sys
from dataclasses import fields
from itertools import pairwise

import pytest

from tests.profile.examples import shape
from tests.profile.studying import make, plan
from trio_core.errors import MethodError, OptionError, RetentionError, UnsupportedInput
from trio_core.methods.combined import split
from trio_core.rules.cost import LayerShape, PromptSizes
from trio_profile.cost.formula import fastv_overhead
from trio_profile.engine.plan import resolve
from trio_profile.inputs.catalogue import layer_shape

SHAPE = shape()


def test_plan_has_the_published_schedule_and_the_papers_work():
    (cell,) = plan(make(retentions=(64 / 576,), gamma=1), SHAPE)
    assert cell.schedule.budgets == (92, 54, 22)
    assert cell.fastv_overhead_macs(SHAPE, 1) == 116_371_914_752
    assert cell.fastv_macs(SHAPE, 1) == 325_651_333_120 + 116_371_914_752
    assert cell.fastv_macs(SHAPE, 2) == 325_651_333_120 + 2 * 116_371_914_752


def test_a_stage_that_drops_nothing_costs_nothing():
    (cell,) = plan(make(methods=("trio-printed",), retentions=(0.88,)), SHAPE)
    assert cell.schedule.budgets[0] == 576
    assert len(cell.stage_tokens) == 2
    (full,) = plan(make(retentions=(1.0,)), SHAPE)
    assert full.stage_tokens == ()


def test_a_plan_has_the_stages_that_a_prefill_runs():
    (cell,) = plan(make(retentions=(0.88,)), SHAPE)
    assert cell.schedule.layers == (10, 15) and cell.schedule == cell.method.schedule_in(layer_shape(SHAPE), 576, 32)


def test_a_retention_below_the_lowest_says_what_is_the_lowest():
    with pytest.raises(RetentionError, match=r"lowest possible is 0\.0330"):
        plan(make(retentions=(0.5, 0.02)), SHAPE)


def test_options_go_to_the_methods_that_have_them():
    cells = plan(make(methods=("trio", "random"), retentions=(0.2,), options={"threshold": 0.9, "seed": 3}), SHAPE)
    assert cells[0].method.threshold == 0.9
    assert cells[1].method.seed == 3
    with pytest.raises(OptionError, match="option 'colour' belongs to none of the methods trio"):
        plan(make(options={"colour": 1}), SHAPE)
    with pytest.raises(OptionError, match="give retentions with --retention"):
        plan(make(options={"retention": 0.5}), SHAPE)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def overhead(self, *_): return 1.5", "raised TypeError: 'float' object cannot be interpreted as an integer"),
        ("def overhead(self, *_): return {}['x']", "raised KeyError: 'x'"),
        ("def schedule(self, *_): pass", "raised AttributeError: 'NoneType' object has no attribute 'layers'"),
        ("def __post_init__(self): raise ValueError('too odd')", "raised ValueError: too odd"),
    ],
)
def test_a_method_of_the_users_own_that_fails_is_named_before_a_measurement(body, says, tmp_path, monkeypatch):
    (tmp_path / "odd_method.py").write_text(f"from trio_core.methods.random import Random\nclass Odd(Random):\n {body}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_method", raising=False)
    with pytest.raises(MethodError, match=f"^method odd_method:Odd {says}$"):
        plan(make(methods=("odd_method:Odd",), retentions=(0.2,)), SHAPE)


def test_a_combination_gets_its_options_and_the_layers_of_the_decoder():
    named = {"contextual_share": 0.25, "k_pos": 2, "encoder_retention": 0.5}
    study = make(methods=("visionzip", "visionzip+trio", "trio"), retentions=(0.25,), layers=(2, 9), options=named)
    alone, both, trio = plan(study, SHAPE)
    assert both.method.contextual_share == alone.method.contextual_share == 0.25
    assert both.method.k_pos == trio.method.k_pos == 2
    assert both.schedule.layers == (0, 2, 9) and both.schedule.budgets[0] == 288
    assert sum(both.schedule.tokens_by_layer) == 32 * 144
    with pytest.raises(OptionError, match=r"option 'alpha' belongs to none of the methods visionzip\+trio"):
        plan(make(methods=("visionzip+trio",), retentions=(0.25,), options={"alpha": 1.0}), SHAPE)
    with pytest.raises(OptionError, match="option contextual_share = 'much' of visionzip"):
        plan(make(methods=("visionzip+trio",), retentions=(0.25,), options={"contextual_share": "much"}), SHAPE)


@pytest.mark.parametrize("method", ["trio-ve", "visionzip+trio"])
def test_the_stage_before_the_decoder_probes_no_layer(method):
    """F_ov is the proxy loss of the stages inside the decoder, on what the first stage left."""
    (cell,) = plan(make(methods=(method,), retentions=(0.25,)), SHAPE)
    looked_at = tuple(n for n, kept in pairwise(cell.schedule.budgets) if kept < n)
    assert cell.stage_tokens == looked_at != () and 576 not in looked_at
    assert cell.fastv_overhead_macs(SHAPE, 1) == fastv_overhead(looked_at, SHAPE.hidden, SHAPE.intermediate)
    first, second = split(cell.schedule)
    both = cell.method.encoder_part, cell.method.decoder_part
    widths = LayerShape(**{field.name: getattr(SHAPE, field.name) for field in fields(LayerShape)})
    prompt = PromptSizes(576, 60, 60)
    macs = [part.selection_macs(widths, one, prompt) for part, one in zip(both, (first, second), strict=True)]
    assert cell.selection_macs(SHAPE.model_copy(update={"text_after": 60})) == sum(macs)


def test_a_method_for_videos_is_refused_before_it_runs_on_a_picture(tiny_study):
    study = tiny_study.model_copy(update={"methods": ("evs", "random"), "retentions": (0.5,)})
    kept = resolve(study, keep_refusals=True)
    assert [cell.cell.method for cell in kept.cells] == ["random"]
    assert len(kept.refused) == 1
    with pytest.raises(UnsupportedInput, match="'evs' is for videos"):
        resolve(study)
