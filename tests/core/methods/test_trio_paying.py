"""TRIO's option `schedule_rule="paying"`: only the stages that cost least at the same average retention act."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
import torch

from tests.core import tiny
from trio_core import LayerShape, OptionError, PromptSizes, RetentionError, Schedule, Trio, prune
from trio_core.models import adapter_for

LLAVA = LayerShape(4096, 11008, 4096, 4096, heads=32, vocabulary=32064, ffn_matrices=3)
PROMPT = PromptSizes(visual_tokens=576, text_tokens=60, text_after=20)
SUBSETS = {(1, 10, 15): (92, 54, 22), (1, 10): (92, 54), (1, 15): (92, 22), (10, 15): (54, 22)}
"""The subsets of several stages with the paper's numbers for their layers."""
SUBSETS |= {(1,): (1,), (10,): (1,), (15,): (1,)}


def paying(retention: float = 0.5, **options) -> Trio:
    return Trio(retention=retention, schedule_rule="paying", **options)


def layer_macs(n: int) -> int:
    """One layer over n tokens, written out: four square matrices and the FFN's three, then every pair of tokens."""
    return n * (4 * 4096**2 + 3 * 4096 * 11008) + 2 * n * n * 4096


def macs(schedule: Schedule, saliency: Literal["tail", "autograd"]) -> int:
    """The layers and the selections of LLaVA-1.5-7B."""
    layers = sum(layer_macs(visual + PROMPT.text_tokens) for visual in schedule.tokens_by_layer)
    return layers + Trio(retention=1.0, saliency=saliency).selection_macs(LLAVA, schedule, PROMPT)


@pytest.mark.parametrize("retention", [0.04, 0.33, 0.88, 0.95])
@pytest.mark.parametrize("saliency", ["tail", "autograd"])
def test_no_subset_of_the_stages_costs_less_at_the_same_average(retention, saliency):
    """Whole budgets miss the average by a few tokens. One more token in an average layer is their price."""
    cheapest = paying(retention, saliency=saliency).schedule_for(LLAVA, 32, PROMPT)
    average, costs = round(retention * 576) + 60, {}
    token = layer_macs(average + 1) - layer_macs(average)
    for layers, numbers in SUBSETS.items():
        try:
            one = Schedule.average(retention=retention, visual_tokens=576, layers=layers, proportion=numbers)
        except RetentionError:
            continue
        costs[one] = macs(one, saliency) + (round(32 * retention * 576) - sum(one.tokens_by_layer)) * token
    assert costs[cheapest] == min(costs.values()) < costs[Schedule.average(retention=retention, visual_tokens=576)]
    assert cheapest.layer_average == pytest.approx(retention, abs=16 / (32 * 576))


def test_a_prefill_runs_the_paying_schedule_and_the_trace_shows_it():
    """Each sample of a padded batch has its own: what it has alone."""
    model, samples = tiny.model("llava"), tiny.unequal_spans("llava")
    method = paying()
    assert len(method.default_layers(tiny.NUM_LAYERS)) > 1
    shape = adapter_for(model).layer_shape
    with torch.inference_mode(), prune(model, "trio", retention=0.5, schedule="paying") as trace:
        for one in samples:
            model(**one, use_cache=False)
            visual = len(tiny.visual_rows(one))
            prompt = PromptSizes(visual, one["input_ids"].shape[1] - visual, 9)
            assert trace.schedules == (method.schedule_for(shape, tiny.NUM_LAYERS, prompt),)
            assert [stage.layer for stage in trace.stages] == list(trace.schedules[0].layers) != [1, 2, 3]


@dataclass(frozen=True, kw_only=True)
class OwnLayers(Trio):
    """A small picture is pruned after layer 3, a large one after layer 1."""

    name: ClassVar[str] = ""

    def schedule(self, visual_tokens: int, num_layers: int) -> Schedule:
        return Schedule((3 if visual_tokens < 20 else 1,), (visual_tokens // 2,), visual_tokens, num_layers)


def test_samples_of_a_batch_may_have_stages_after_different_layers():
    model, samples, method = tiny.model("llava"), tiny.unequal_spans("llava"), OwnLayers(retention=1.0)
    sizes = [len(tiny.visual_rows(one)) for one in samples]
    assert sizes[0] < 20 <= sizes[1]
    with torch.inference_mode(), prune(model, method) as trace:
        model(**tiny.batch(samples), use_cache=False)
        together, stages = trace.schedules, [stage.kept for stage in trace.stages]
        alone = []
        for one in samples:
            model(**one, use_cache=False)
            alone.append((trace.schedules[0], trace.stages[0].kept[0]))
    assert [one.layers for one, _ in alone] == [(3,), (1,)]
    assert [one.tokens_by_layer for one in together] == [one.tokens_by_layer for one, _ in alone]
    assert [kept.tolist() for kept in stages[-1]] == [kept.tolist() for _, kept in alone]


def test_a_paying_schedule_needs_the_model_and_the_text():
    with pytest.raises(OptionError, match="call schedule_for"):
        paying().schedule(576, 32)
    assert Trio(retention=0.2).schedule_for(LLAVA, 32, PROMPT) == Trio(retention=0.2).schedule(576, 32)
    with pytest.raises(RetentionError, match=r"lowest possible is 0\.0330"):
        paying(0.01).schedule_for(LLAVA, 32, PROMPT)
