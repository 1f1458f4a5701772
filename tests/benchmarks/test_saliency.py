"""What the scores cost: tail saliency, and autograd through the whole layer, beside that layer's own forward.

The real classes with one decoder layer of the true width and random weights, as the first stage sees it. The exact
counts at the whole model's size are in tests/profile/test_headline.py.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

import pytest
import torch
from transformers import PreTrainedConfig

from trio_core.rules import equations
from trio_core.rules.attention import LayerCall
from trio_core.rules.saliency import tail_saliency
from trio_profile.inputs import builtin
from trio_profile.inputs.workload import build
from trio_profile.records.schema import Study

VOCABULARY = 32064  # Qwen's own is five times as long; its four rows cost little time, and the rest much memory
ROWS = 4


def one_layer(name: str) -> PreTrainedConfig:
    """A built-in model's configuration with one layer to its decoder, and as little tower as can be."""
    config = builtin.BUILTIN[name].config()
    text, vision = (part for part in (config.get_text_config(), config.vision_config))
    text.num_hidden_layers, text.vocab_size = 1, VOCABULARY
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:1]
    for depth in ("num_hidden_layers", "depth"):
        if hasattr(vision, depth):
            setattr(vision, depth, 2)
    config.image_token_id = min(config.image_token_id, VOCABULARY - 1)
    return config


@pytest.mark.benchmark(group="saliency beside one layer's forward")
@pytest.mark.parametrize("saliency", ["tail", "autograd"])
@pytest.mark.parametrize("name", ["llava-1.5-7b", "qwen2.5-vl-7b"])
def test_saliency_over_layer(benchmark, interleaved, monkeypatch, name: str, saliency: Literal["tail", "autograd"]):
    monkeypatch.setitem(builtin.BUILTIN, "one", replace(builtin.BUILTIN[name], config=partial(one_layer, name)))
    workload = build(Study(model="one"))
    adapter, layer = workload.adapter, workload.adapter.layers[0]
    tokens = workload.shape.visual_tokens + workload.shape.text_tokens
    hidden = torch.randn(1, tokens, workload.shape.hidden)
    axes = (3,) if adapter.multi_axis_positions else ()
    rotary = adapter.rotary(hidden, torch.arange(tokens).expand(*axes, 1, tokens), 0)

    def run(probed: torch.Tensor) -> torch.Tensor:
        return layer(probed, position_embeddings=rotary, attention_mask=None)

    call = LayerCall(hidden, run, partial(adapter.attention_layer, layer), rotary, None)
    supervised, valid = slice(tokens - ROWS, tokens), torch.ones(1, tokens, dtype=torch.bool)
    places = slice(5, 5 + workload.shape.visual_tokens)

    def score() -> object:
        if saliency == "tail":
            return tail_saliency(call, adapter.readout, supervised, valid, places)
        return equations.saliency(lambda probed: adapter.readout(run(probed)[:, -ROWS:]), hidden)

    with torch.no_grad():
        benchmark.extra_info.update(saliency_over_layer=interleaved(lambda: run(hidden), score, 7), tokens=tokens)
