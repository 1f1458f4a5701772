"""What the scores cost: tail saliency, and autograd through the whole layer, beside that layer's own forward.

One decoder layer of the true width with random weights, as the first stage sees it. The exact counts at the whole
model's size are in tests/profile/test_headline.py.
"""

from functools import partial
from typing import Any, Literal

import pytest
import torch
from transformers import LlamaConfig, Qwen2Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

from trio_core import equations
from trio_core.layer import LayerCall
from trio_core.models.llava import Llava
from trio_core.saliency import tail_saliency

LAYERS: dict[str, tuple[Any, Any, int]] = {
    "llava-1.5-7b": (
        LlamaDecoderLayer,
        LlamaConfig(hidden_size=4096, intermediate_size=11008, num_attention_heads=32, vocab_size=32064),
        576,
    ),
    "qwen2.5-vl-7b": (
        Qwen2DecoderLayer,
        Qwen2Config(
            hidden_size=3584,
            intermediate_size=18944,
            num_attention_heads=28,
            num_key_value_heads=4,
            vocab_size=32064,  # the head's four rows cost little time, and the rest of it much memory
        ),
        576,
    ),
}
TEXT, ROWS = 60, 4


@pytest.mark.benchmark(group="saliency beside one layer's forward")
@pytest.mark.parametrize("saliency", ["tail", "autograd"])
@pytest.mark.parametrize("name", LAYERS)
def test_saliency_over_layer(benchmark, interleaved, name: str, saliency: Literal["tail", "autograd"]):
    cls, config, visual = LAYERS[name]
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    layer, norm = cls(config, layer_idx=0).eval(), torch.nn.RMSNorm(config.hidden_size, eps=1e-6)
    head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
    tokens = visual + TEXT
    hidden = torch.randn(1, tokens, config.hidden_size)
    rotary = LlamaRotaryEmbedding(config)(hidden, torch.arange(tokens)[None])

    def run(probed: torch.Tensor) -> torch.Tensor:
        return layer(probed, position_embeddings=rotary, attention_mask=None)

    def readout(rows: torch.Tensor) -> Any:
        return head(norm(rows))

    call = LayerCall(hidden, run, partial(Llava.attention_layer, object.__new__(Llava), layer), rotary, None)
    supervised, valid = torch.arange(tokens - ROWS, tokens)[None], torch.ones(1, tokens, dtype=torch.bool)
    places = torch.arange(5, 5 + visual)[None]

    def score() -> object:
        if saliency == "tail":
            return tail_saliency(call, readout, supervised, valid, places)
        return equations.saliency(lambda probed: readout(run(probed)[:, -ROWS:]), hidden)

    with torch.no_grad():
        benchmark.extra_info.update(saliency_over_layer=interleaved(lambda: run(hidden), score, 7), tokens=tokens)
