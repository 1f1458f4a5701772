"""What the families' toy models share: sizes, token ids, and how their weights are drawn."""

from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

NUM_LAYERS = 6
VOCABULARY = 97
IMAGE, VISION_START, VISION_END, VIDEO = 96, 95, 94, 93

TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": NUM_LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}
"""A decoder with grouped keys."""

VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}
"""A tower that makes 4 × 4 patches of a picture or a tile."""

PINPOINTS = [[16, 32], [32, 16], [32, 32]]
"""Where pictures are cut into tiles: the sizes, (height, width), that they are brought to."""

MROPE: dict[str, Any] = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
"""Rotary positions with three axes, for heads of width 8."""

PLACEHOLDERS: dict[str, Any] = {"image_token_index": IMAGE, "video_token_index": VIDEO}
QWEN_IDS: dict[str, Any] = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": VISION_START,
    "vision_end_token_id": VISION_END,
}


def build(cls: type[PreTrainedModel], config: PreTrainedConfig, attention: str, seed: int) -> PreTrainedModel:
    """The class with random weights large enough that each token's hidden state is its own; they depend on the seed."""
    # Every tower knows eager attention, and so the picture is the same whatever the decoder's.
    model = cls._from_config(config, attn_implementation={"text_config": attention, "vision_config": "eager"}).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim < 2:
                weights.copy_(0.2 * torch.randn(weights.shape, generator=generator) + ("norm" in name))
            else:
                fan_in = 1 if "embed" in name else weights[0].numel()
                weights.copy_(torch.randn(weights.shape, generator=generator) / fan_in**0.5)
    assert model.generation_config is not None
    model.generation_config.eos_token_id = None
    return model
