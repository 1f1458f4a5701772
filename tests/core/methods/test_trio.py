"""TRIO in every family and with every option: at each stage the equations, and all the rest is as the trace says.

The oracle runs the model's own layers on the shorter sequence and differentiates the proxy loss by autograd.
"""

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods import towers
from tests.core.models.test_families import LAYERS, stages_of, walk
from trio_core import LayerShape, Schedule, Trio, UnsupportedModel, methods
from trio_core.methods.scope import Scope
from trio_core.methods.trio import TrioVe
from trio_core.models import adapter_for
from trio_core.rules import equations
from trio_core.rules.cost import PromptSizes, without_losing_stages
from trio_core.trace import Trace

VARIANTS = ("trio", "trio-printed", "trio-released")


def made(name: str = "trio", **options) -> Trio:
    """A threshold at which some of these random features are duplicates."""
    return methods.find(name)(**({"retention": 0.5, "layers": LAYERS, "threshold": 0.3} | options))


def check_equations(model: PreTrainedModel, samples: list[dict[str, Tensor]], method: Trio) -> Trace:
    """In a padded batch each stage inside the decoder keeps what the equations say of its layer and rows."""
    trace, adapter = tiny.prefill(model, samples, method), adapter_for(model)
    assert tuple(stage.layer for stage in trace.stages) == method.layers
    compact = method.positions_in(adapter.multi_axis_positions) == "compact"
    for b, one in enumerate(samples):
        rivals, length = tiny.visual_rows(one), one["input_ids"].shape[1]
        left, kept = stages_of(trace, one, b, length), torch.arange(len(rivals))
        for stage, budget in zip(trace.stages, trace.schedules[b].budgets, strict=True):
            if stage.layer == 0:
                kept = stage.kept[b]
                continue
            earlier = {layer: places for layer, places in left.items() if layer < stage.layer}
            step = walk(model, one, earlier, compact)[stage.layer - (method.probe == "current")]
            last = len(step.places) - (method.rows == "shifted")
            supervised = slice(last - method.k_pos, last)
            scores = equations.saliency(
                lambda hidden, run=step.run, rows=supervised: adapter.readout(run(hidden)[:, rows]), step.hidden
            )[0]
            competing = torch.isin(step.places, rivals)
            seen = stage.scores[b]
            assert torch.allclose(seen[kept].float() * len(samples), scores[competing], rtol=2e-3, atol=1e-7)
            assert seen.isnan().sum() == len(seen) - len(kept)
            features = step.hidden[0, competing]
            kept = kept[equations.nms_select(scores[competing], features, budget, method.threshold)]
            assert torch.equal(stage.kept[b], kept), f"sample {b}, layer {stage.layer}"
    return trace


@pytest.mark.parametrize("name", tiny.fast_first(VARIANTS, "trio", "trio-released"))
@tiny.every_family
def test_each_variant_keeps_what_the_equations_say_of_its_layer_and_rows(family, name):
    check_equations(tiny.model(family), tiny.pair(family), made(name))


@pytest.mark.parametrize(("probe", "rows"), [("next", "last"), ("current", "shifted")])
@tiny.one_or_three_axes
def test_autograd_too(family, probe, rows):
    method = made(saliency="autograd", probe=probe, rows=rows, k_pos=3)
    check_equations(tiny.model(family), tiny.pair(family), method)


@pytest.mark.parametrize("layers", [pytest.param((0, 1), marks=tiny.SLOW), (0, 2, 4)])
@towers.families
def test_before_the_decoder_trio_ve_is_scope_and_within_it_trio(family, layers):
    model, samples = tiny.model(family), tiny.pair(family)
    method = TrioVe(retention=0.3, layers=layers, k_pos=3, threshold=0.3, alpha=0.5)
    trace = check_equations(model, samples, method)
    for b, one in enumerate(samples):
        scope = Scope(budgets=trace.schedules[b].budgets[:1], layers=(0,), alpha=0.5)
        assert torch.equal(trace.stages[0].kept[b], tiny.prefill(model, [one], scope).stages[0].kept[0])


@pytest.mark.parametrize("family", tiny.fast_first(tiny.MULTI_AXIS, "qwen2_5_vl"))
def test_where_compact_is_undefined_the_released_one_keeps_the_original_positions(family):
    model, inputs = tiny.model(family), tiny.batch(tiny.pair(family))
    (released, _), (original, _) = (
        tiny.run(model, inputs, made("trio-released", positions=positions)) for positions in ("compact", "original")
    )
    assert tiny.same(released, original)
    with tiny.refused(UnsupportedModel, "positions 'compact' are not defined"):
        tiny.run(model, inputs, made(positions="compact"))


# --- little text after the picture -----------------------------------------------------------------------------------


def test_a_question_before_the_picture_supervises_fewer_rows_and_says_so():
    for name in ("trio", "trio-released", "lookahead"):
        model, one = tiny.model("llava"), tiny.sample("llava", before=10, after=3)
        left = 2 if name == "trio-released" else 3
        trace, exact = (tiny.run(model, one, made(name, k_pos=k_pos))[1] for k_pos in (4, left))
        assert any(f"only {left} supervised" in note for note in trace.notes)
        assert not any("supervised" in note for note in exact.notes)
        for stage, same in zip(trace.stages, exact.stages, strict=True):
            assert torch.equal(stage.kept[0], same.kept[0])
            assert torch.allclose(stage.scores[0], same.scores[0], equal_nan=True)


@pytest.mark.parametrize("saliency", ["tail", "autograd"])
def test_neighbours_in_a_batch_do_not_change_how_many_rows_are_supervised(saliency):
    model = tiny.model("llava")
    samples = [tiny.sample("llava", before=9, after=2, seed=1), tiny.sample("llava", before=2, after=9)]
    together = tiny.prefill(model, samples, made(saliency=saliency))
    for b, one in enumerate(samples):
        alone = tiny.prefill(model, [one], made(saliency=saliency))
        for stage, own in zip(together.stages, alone.stages, strict=True):
            assert torch.equal(stage.kept[b], own.kept[0])
    assert sum("supervised" in note for note in together.notes) == 1


# --- the default schedule ---------------------------------------------------------------------------------------------

VICUNA = LayerShape(4096, 11008, 4096, 4096, 32, 32064, 3)
QWEN = LayerShape(3584, 18944, 3584, 512, 28, 152064, 3)


def worth(shape: LayerShape, method: Trio, schedule: Schedule) -> list[float]:
    """Of each stage: what the later layers save by its dropped tokens, over what it costs. Whole layers, by hand."""
    width, kv, inner = shape.hidden, shape.kv_width, shape.intermediate
    token = 2 * width * width + 2 * width * kv + 3 * width * inner
    before, saved = schedule.visual_tokens, []
    for layer, kept in zip(schedule.layers, schedule.budgets, strict=True):
        own = Schedule((layer,), (kept,), before, schedule.num_layers)
        cost = method.selection_macs(shape, own, PromptSizes(before, 0, 0))
        saved.append((before - kept) * (schedule.num_layers - layer) * token / cost if cost else 0.0)
        before = kept
    return saved


@pytest.mark.parametrize(("shape", "tokens", "layers"), [(VICUNA, 576, 32), (VICUNA, 2928, 32), (QWEN, 1296, 28)])
def test_a_stage_that_costs_more_than_it_saves_is_left_out_and_the_average_stays(shape, tokens: int, layers: int):
    left_out = 0
    for retention in (0.11, 0.33, 0.5, 0.6, 0.66, 0.75, 0.88, 0.95, 0.98):
        method = Trio(retention=retention)
        whole, schedule = method.schedule(tokens, layers), method.schedule_in(shape, tokens, layers)
        assert min(worth(shape, method, schedule)) >= 1
        assert abs(schedule.layer_average - retention) <= 0.5 * (layers - schedule.layers[-1]) / (layers * tokens)
        if min(worth(shape, method, whole)) >= 1:
            assert schedule == whole
        left_out += len(whole.layers) - len(schedule.layers)
    assert left_out


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("trio", {"layers": (1, 10, 15)}),
        ("trio", {"budget_rule": "final"}),
        *((name, {}) for name in ("trio-printed", "trio-released", "trio-ve", "visionzip+trio")),
    ],
)
def test_stages_that_were_asked_for_and_those_of_the_papers_variants_stay(name, options):
    method = methods.find(name)(retention=0.88, **options)
    assert method.schedule_in(VICUNA, 576, 32) == method.schedule(576, 32)


def test_a_stage_that_the_average_needs_stays_and_the_others_may_go():
    """The last of three layers alone could not keep so few of eight tokens."""
    whole = Schedule.average(retention=0.6, visual_tokens=8, num_layers=32, layers=(1, 10, 30))
    left = without_losing_stages(whole, 0.6, (92, 54, 22), VICUNA, lambda *_: 10**15)
    assert whole.layers == (1, 10, 30) and left.layers in ((1,), (10,))
    assert abs(left.layer_average - 0.6) < 0.05


def test_a_subclass_with_a_proportion_or_a_schedule_of_its_own_keeps_it():
    class Even(Trio):
        def profile(self, layers, num_layers):  # noqa: ARG002
            return (1.0,) * len(layers)

    class Own(Trio):
        def schedule(self, visual_tokens, num_layers):
            return Schedule((5,), (visual_tokens - 1,), visual_tokens, num_layers)

    assert Even(retention=0.97).schedule_in(VICUNA, 576, 32) == Schedule.average(
        retention=0.97, visual_tokens=576, layers=(1,), proportion=(1.0,)
    )
    assert Own(retention=0.97).schedule_in(VICUNA, 576, 32).layers == (5,)


def test_a_prefill_has_the_stages_that_are_worth_it():
    model, one, method = tiny.model("llava"), tiny.sample("llava"), Trio(retention=0.95)
    tokens, depth = len(tiny.visual_rows(one)), model.config.get_text_config().num_hidden_layers
    schedule = method.schedule_in(adapter_for(model).layer_shape, tokens, depth)
    trace = tiny.prefill(model, [one], method)
    assert trace.schedules == (schedule,) != (method.schedule(tokens, depth),)
    assert tuple(stage.layer for stage in trace.stages) == schedule.layers
