"""TokenPacker's projector against a loop over regions, and in the model that is profiled."""

import math

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig

from trio_core import UnsupportedModel, prune
from trio_core.models import toy
from trio_profile.inputs.builtin import TokenPackerForConditionalGeneration, TokenPackerProjector

LAYERS = [1, 3, 2]
"""Of a tower of three; the query's last."""


def config(side: int = 4, tokens: int = 4, width: int = 256, layers: list[int] | int = LAYERS) -> LlavaConfig:
    vision = {**toy.VISION, "image_size": 4 * side, "num_hidden_layers": 3, "hidden_size": width}
    return LlavaConfig(
        vision_config=CLIPVisionConfig(**vision),
        text_config=LlamaConfig(**{**toy.TEXT, "num_key_value_heads": 4}),
        image_token_index=toy.IMAGE,
        image_seq_length=tokens,
        vision_feature_layer=layers,
    )


def by_loop(projector: TokenPackerProjector, features: Tensor, size: int) -> Tensor:
    """[points², D] from [side², depths · E], a region at a time."""
    side, width, heads = projector.side, projector.attention.embed_dim, projector.attention.num_heads
    last = features[None, :, -width:].transpose(1, 2).unflatten(2, (side, side))
    points = torch.nn.functional.interpolate(last, scale_factor=1 / size, mode="bilinear")[0]
    attention, packed = projector.attention, []
    weights, biases = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
    for top in range(0, side, size):
        for left in range(0, side, size):
            region = [(top + r) * side + left + c for r in range(size) for c in range(size)]
            point = projector.query(points[:, top // size, left // size])
            keys = torch.stack([projector.key(features[patch]) for patch in region])
            values = torch.stack([projector.value(features[patch]) for patch in region])
            query, keys, values = (
                x @ weight.T + bias for x, weight, bias in zip((point, keys, values), weights, biases, strict=True)
            )
            parts = []
            for head in range(heads):
                its = slice(head * width // heads, (head + 1) * width // heads)
                shares = (keys[:, its] @ query[its] / math.sqrt(width / heads)).softmax(dim=0)
                parts.append(shares @ values[:, its])
            packed.append(projector.mlp(attention.out_proj(torch.cat(parts))))
    return torch.stack(packed)


@pytest.mark.parametrize(("side", "tokens", "size"), [(4, 4, 2), (6, 4, 3), (8, 4, 4), (6, 9, 2), (4, 16, 1)])
@torch.no_grad()
def test_each_region_is_packed_into_its_point(side, tokens, size):
    projector = TokenPackerProjector(config(side, tokens)).double()
    for weights in projector.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    assert projector.attention.num_heads == 2
    features = torch.randn(2, side**2, 3 * 256, dtype=torch.float64)
    packed = projector(features)
    assert packed.shape == (2, tokens, 32)
    for crop in range(2):
        assert torch.allclose(packed[crop], by_loop(projector, features[crop], size), rtol=1e-4, atol=1e-5)


def prompt(tokens: int) -> dict[str, Tensor]:
    ids = torch.tensor([[5, 6, *[toy.IMAGE] * tokens, *range(7, 14)]])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": torch.randn(1, 3, 16, 16)}


@torch.no_grad()
def test_in_the_model_it_reads_its_depths_and_other_methods_go_on_pruning():
    """Methods that look into the tower are refused: no one layer is read."""
    model = toy.build(TokenPackerForConditionalGeneration, config(width=32), "sdpa", seed=0)
    one, entered = prompt(4), []
    states = model.model.vision_tower(one["pixel_values"], output_hidden_states=True).hidden_states
    expected = model.model.multi_modal_projector(torch.cat([states[layer][:, 1:] for layer in LAYERS], dim=-1))
    layer = model.model.language_model.layers[0]
    handle = layer.register_forward_pre_hook(
        lambda _layer, args, kwargs: entered.append(args[0] if args else kwargs["hidden_states"]), with_kwargs=True
    )
    try:
        model(**one)
    finally:
        handle.remove()
    assert torch.allclose(entered[0][0, 2:6], expected[0], rtol=1e-5, atol=1e-6)
    with prune(model, "fastv", retention=0.7) as trace:
        model.generate(**one, max_new_tokens=2, do_sample=False)
    assert len(trace.stages[0].kept[0]) < 4
    with pytest.raises(UnsupportedModel, match="vision_feature_layer"), prune(model, "visionzip", retention=0.5):
        pass


def macs(points: int, patches: int, width: int, depths: int, hidden: int) -> int:
    """Of the projector, by its matrices: query, keys and values, attention in and out, the perceptron."""
    perceptrons = 2 * patches * (depths * width * width + width * width)
    attention = 2 * patches * width * width + 2 * points * width * width + 2 * patches * width
    return points * width * width + perceptrons + attention + points * (width * hidden + hidden * hidden)


@torch.no_grad()
def test_the_cost_is_the_arithmetic_of_its_layers():
    projector, counter = TokenPackerProjector(config()), FlopCounterMode(display=False)
    torch.nn.init.ones_(projector.query[0].weight)
    with counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        projector(torch.randn(1, 16, 3 * 256))
    assert counter.get_total_flops() == 2 * macs(4, 16, 256, 3, 32)
