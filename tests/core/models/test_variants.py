"""Checkpoints of a family that differ from its toy in parts that decide the result."""

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from tests.core import tiny, unknown
from tests.core.engine.test_hidden_keys import check
from trio_core import Trio, UnsupportedModel, prune
from trio_core.engine.checking import self_check
from trio_core.methods.divprune import DivPrune
from trio_core.methods.fastv import FastV
from trio_core.methods.grid import Grid
from trio_core.models import adapter_for


def right(make: Callable[[str], PreTrainedModel], family: str) -> None:
    """The self-check passes, and a padded batch is as if dropped tokens were hidden.

    make: returns the model with an attention kernel.
    """
    model, dense = make("sdpa"), make("eager")
    assert adapter_for(model).known and self_check(model, prune).faults == ()
    both = tiny.batch([tiny.sample(family, "small", seed=1), tiny.sample(family, after=12)])
    for method in (Trio(retention=0.5), FastV(retention=0.5), DivPrune(retention=0.5)):
        check(method, both, model, dense, compact=False)


def with_numbers_of_its_layers(model: PreTrainedModel) -> PreTrainedModel:
    with torch.no_grad():
        for number, layer in enumerate(adapter_for(model).layers):
            layer.get_buffer("layer_scalar").fill_(0.5 + 0.2 * number)
    return model


GEMMA_4 = {
    "wider heads and values of keys without a window": {
        "global_head_dim": 16,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
    },
    "experts": {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16},
    "pictures that look back only": {"use_bidirectional_attention": None, "final_logit_softcapping": None},
    "past its window": {"sliding_window": 12},
}


@pytest.mark.parametrize("checkpoint", tiny.fast_first(GEMMA_4, "experts"))
def test_gemma4(checkpoint):
    right(lambda kernel: with_numbers_of_its_layers(unknown.gemma4(kernel, **GEMMA_4[checkpoint])), "gemma4")


def test_gemma4_with_inputs_of_each_layer_is_refused():
    with tiny.refused(UnsupportedModel, "hidden_size_per_layer_input.* choose Gemma 4 31B or 26B-A4B"):
        adapter_for(unknown.gemma4(hidden_size_per_layer_input=8))


@pytest.mark.slow
def test_the_older_class_of_glm():
    right(unknown.glm_4_1v, "glm_4_6v")


def test_molmo_with_norms_behind_attention_is_pruned_without_its_layers_parts():
    model = unknown.molmo2(norm_after=True, qk_norm_type="olmo")
    dense = unknown.molmo2("eager", norm_after=True, qk_norm_type="olmo")
    both = tiny.batch([tiny.sample("molmo2", "small", seed=1), tiny.sample("molmo2", after=12)])
    for method in (Trio(retention=0.5, saliency="autograd"), Grid(retention=0.5)):
        check(method, both, model, dense, compact=False)
    with tiny.refused(UnsupportedModel, "norm_after, or qk_norm_type 'olmo'.* use saliency 'autograd'"):
        tiny.run(model, both, FastV(retention=0.5))


def test_molmo_with_layers_that_are_not_scaled():
    rope = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
    models = [unknown.molmo2(kernel, rope_parameters=rope, rope_scaling_layers=[1, 4]) for kernel in ("sdpa", "eager")]
    method = DivPrune(retention=0.5, positions="compact")
    check(method, tiny.sample("molmo2"), *models, compact=True)
