"""The headline at full size, in exact counts: what TRIO's selection costs beside the model that it runs in."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trio_core.methods.trio import Trio
from trio_core.models import adapter_for
from trio_core.models.adapter import Adapter
from trio_core.rules.cost import PromptSizes
from trio_core.rules.schedule import Schedule, default_layers
from trio_profile.cost.formula import layer_macs
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.models import without_weights

TEXT = 60
AT_11 = (460, 270, 110)
"""LLaVA's published budgets five times over, for five crops: 11.1 % of 2880 on average."""


@pytest.fixture(scope="module")
def next_7b() -> Adapter:
    return adapter_for(without_weights(BUILTIN["llava-next-7b"]))


def dense_layer(adapter: Adapter, tokens: int) -> int:
    return layer_macs(tokens, adapter.layer_shape)


def selection_macs(adapter: Adapter, method: Trio, visual: int, budgets: tuple[int, ...]) -> int:
    """MACs of all stages together."""
    layers = default_layers(len(adapter.layers))
    schedule = Schedule(layers, budgets, visual, len(adapter.layers))
    return method.selection_macs(adapter.layer_shape, schedule, PromptSizes(visual, TEXT, TEXT // 2))


def share(adapter: Adapter, method: Trio, visual: int, budgets: tuple[int, ...]) -> float:
    """Of one dense layer's MACs."""
    return selection_macs(adapter, method, visual, budgets) / dense_layer(adapter, visual + TEXT)


def test_saliency_of_all_stages_costs_less_than_a_quarter_of_one_layer(next_7b: Adapter):
    tail = share(next_7b, Trio(retention=0.111, nms=False), 2880, AT_11)
    autograd = share(next_7b, Trio(retention=0.111, nms=False, saliency="autograd"), 2880, AT_11)
    assert tail == pytest.approx(0.2299, abs=5e-5)
    assert tail < 0.25 < 2 < autograd
    assert share(next_7b, Trio(retention=0.111), 2880, AT_11) - tail < 0.06, "the suppression, at a twentieth"


def test_grouped_keys_halve_the_cost_of_the_saliency():
    qwen = adapter_for(without_weights(BUILTIN["qwen2.5-vl-7b"]))
    budgets = Schedule.average(retention=0.111, visual_tokens=1296, num_layers=28).budgets
    assert share(qwen, Trio(retention=0.111, nms=False), 1296, budgets) < 0.15


def test_the_whole_prefill_with_its_tower_costs_what_random_pruning_costs(next_7b: Adapter):
    """Random pruning costs the layers, the tower, the projector and one row of the head. Its selection is free."""
    model = next_7b.model
    with FlopCounterMode(display=False) as counter, torch.device("meta"):
        crops = torch.empty(5, 3, 336, 336)
        features = model.get_submodule("model.vision_tower")(crops).last_hidden_state[:, 1:]
        model.get_submodule("model.multi_modal_projector")(features)
    vision = counter.get_total_flops() // 2
    assert vision > 5 * 576 * 1024 * 4096  # the projector alone
    schedule = Schedule((1, 10, 15), AT_11, 2880, 32)
    shape = next_7b.layer_shape
    random = vision + sum(dense_layer(next_7b, n + TEXT) for n in schedule.tokens_by_layer)
    random += shape.hidden * shape.vocabulary
    assert 1 < (random + selection_macs(next_7b, Trio(retention=0.111), 2880, AT_11)) / random < 1.06
