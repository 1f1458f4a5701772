"""Real model classes at toy size, and inputs for them: the bench on which pruning is tried.

The weights are random and large enough that every token's hidden state is its own; the decoders differ on purpose:
LLaVA-1.5 with as many keys as queries, LLaVA-NeXT and Qwen2.5-VL with grouped keys.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    PreTrainedModel,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from trio_core.layer import AttentionLayer, LayerCall, RmsNorm
from trio_core.view import Picture, View

FAMILIES = ("llava", "llava_next", "qwen2_5_vl")
ATTENTION = ("eager", "sdpa")

NUM_LAYERS = 6
VOCABULARY = 97
IMAGE, VISION_START, VISION_END, VIDEO = 96, 95, 94, 93
WORDS = 90
"""Text tokens are 1 … WORDS - 1; 0 is padding."""

_TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": NUM_LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}
_TILE = {"image_size": 16, "patch_size": 4}  # 4 × 4 = 16 tokens a picture or a tile
_PINPOINTS = [[16, 32], [32, 16], [32, 32]]


@cache
def model(family: str, attention: str = "sdpa") -> PreTrainedModel:
    """The family's toy model, the same weights whatever the attention. Built once a session: leave it as it is."""
    built = _untrained(family, attention).eval()
    generator = torch.Generator().manual_seed(len(family))
    with torch.no_grad():
        for name, weights in built.named_parameters():
            if weights.ndim < 2:
                weights.copy_(0.2 * torch.randn(weights.shape, generator=generator) + ("norm" in name))
            else:
                fan_in = 1 if "embed" in name else weights[0].numel()
                weights.copy_(torch.randn(weights.shape, generator=generator) / fan_in**0.5)
    built.generation_config.eos_token_id = None
    return built


def _untrained(family: str, attention: str) -> PreTrainedModel:
    implementation = {"text_config": attention, "vision_config": attention if attention in ATTENTION else "sdpa"}
    if family == "qwen2_5_vl":
        rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
        config = Qwen2_5_VLConfig(
            text_config={**_TEXT, "num_key_value_heads": 2, "rope_parameters": rope},
            vision_config={
                "depth": 2,
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_heads": 2,
                "patch_size": 4,
                "out_hidden_size": _TEXT["hidden_size"],
                "window_size": 16,
                "fullatt_block_indexes": [1],
            },
            image_token_id=IMAGE,
            video_token_id=VIDEO,
            vision_start_token_id=VISION_START,
            vision_end_token_id=VISION_END,
        )
        return Qwen2_5_VLForConditionalGeneration._from_config(config, attn_implementation=implementation)
    vision = CLIPVisionConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, **_TILE)
    if family == "llava":
        text = LlamaConfig(**_TEXT, num_key_value_heads=4)
        config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE)
        return LlavaForConditionalGeneration._from_config(config, attn_implementation=implementation)
    text = LlamaConfig(**_TEXT, num_key_value_heads=2)
    config = LlavaNextConfig(
        vision_config=vision, text_config=text, image_token_index=IMAGE, image_grid_pinpoints=_PINPOINTS
    )
    return LlavaNextForConditionalGeneration._from_config(config, attn_implementation=implementation)


# --- inputs ----------------------------------------------------------------------------------------------------------


def sample(family: str, size: str = "large", before: int = 3, after: int = 9, seed: int = 0) -> dict[str, Tensor]:
    """One unpadded sample: `before` words, a picture, `after` words.

    size: `small` or `large`, so that spans differ. LLaVA-1.5 has one span for every picture: its large one is two
    pictures with a word between them.
    """
    generator = torch.Generator().manual_seed(seed)

    def words(count: int) -> list[int]:
        return torch.randint(1, WORDS, (count,), generator=generator).tolist()

    if family == "qwen2_5_vl":
        grid = (6, 8) if size == "large" else (4, 6)  # patches; merged two by two
        tokens = grid[0] * grid[1] // 4
        pictures = {
            "pixel_values": torch.randn(grid[0] * grid[1], 3 * 2 * 4 * 4, generator=generator),
            "image_grid_thw": torch.tensor([[1, *grid]]),
        }
        middle = [VISION_START, *[IMAGE] * tokens, VISION_END] if before else [IMAGE] * tokens
    elif family == "llava_next":
        height, width = (30, 32) if size == "large" else (16, 24)
        tiles, rows, columns = (4, 8, 8) if size == "large" else (2, 4, 6)  # what is left of the tiles un-padded
        pictures = {
            "pixel_values": torch.randn(1, 1 + tiles, 3, 16, 16, generator=generator),
            "image_sizes": torch.tensor([[height, width]]),
        }
        middle = [IMAGE] * (16 + rows * (columns + 1))
    else:
        count = 2 if size == "large" else 1
        pictures = {"pixel_values": torch.randn(count, 3, 16, 16, generator=generator)}
        middle = [IMAGE] * 16 if count == 1 else [IMAGE] * 16 + words(1) + [IMAGE] * 16
    input_ids = torch.tensor([words(before) + middle + words(after)])
    made = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids), **pictures}
    if family == "qwen2_5_vl":
        made["mm_token_type_ids"] = (input_ids == IMAGE).int()
    return made


def batch(samples: Sequence[dict[str, Tensor]], side: str = "left") -> dict[str, Tensor]:
    """Samples side by side, the shorter ones padded on the `left` or `right`."""
    width = max(one["input_ids"].shape[1] for one in samples)

    def padded(row: Tensor) -> Tensor:
        missing = width - row.shape[1]
        return torch.nn.functional.pad(row, (missing, 0) if side == "left" else (0, missing))

    together: dict[str, Tensor] = {}
    for name in samples[0]:
        parts = [one[name] for one in samples]
        if name in ("input_ids", "attention_mask", "mm_token_type_ids"):
            parts = [padded(part) for part in parts]
        elif name == "pixel_values" and parts[0].ndim == 5:  # LLaVA-NeXT pads pictures to the most tiles
            tiles = max(part.shape[1] for part in parts)
            parts = [torch.cat([p, p.new_zeros(1, tiles - p.shape[1], *p.shape[2:])], dim=1) for p in parts]
        together[name] = torch.cat(parts)
    return together


def unequal_spans(family: str, before: int = 3) -> list[dict[str, Tensor]]:
    """Two samples of one length, the one with less picture and more words: no padding, and yet unequal when pruned."""
    small, large = sample(family, "small", before), sample(family, "large", before)
    longer = large["input_ids"].shape[1] - small["input_ids"].shape[1]
    return [sample(family, "small", before, after=9 + longer), large]


def visual_rows(one: dict[str, Tensor]) -> Tensor:
    """[V0] where an unpadded sample's visual tokens stand."""
    return (one["input_ids"][0] == IMAGE).nonzero().squeeze(1)


# --- a stage without a model ------------------------------------------------------------------------------------------


class NoNorm(RmsNorm):
    """A norm that does nothing, forwards or back."""

    def __init__(self):
        super().__init__(lambda rows: rows, torch.ones(1), 0.0)

    def backward(self, values: Tensor, slope: Tensor) -> Tensor:  # noqa: ARG002
        return slope


class ToyLayer(torch.nn.Module):
    """Causal attention with one head and a residual. `forward` takes [B, S, D] and [B, S], which keys are valid."""

    def __init__(self, width: int, seed: int, dtype: torch.dtype):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        made = torch.randn(3, width, width, generator=generator, dtype=torch.float64) / width**0.5
        self.query, self.key, self.value = (torch.nn.Parameter(part.to(dtype)) for part in made)

    def forward(self, hidden: Tensor, valid: Tensor) -> Tensor:
        scores = (hidden @ self.query) @ (hidden @ self.key).transpose(1, 2)
        hidden_from = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1) | ~valid[:, None, :]
        itself = torch.eye(scores.shape[1], dtype=torch.bool)
        return hidden + scores.masked_fill(hidden_from & ~itself, -torch.inf).softmax(-1) @ (hidden @ self.value)

    def taken_apart(self) -> AttentionLayer:
        """The same layer in pieces."""
        return AttentionLayer(
            norm=NoNorm(),
            query=lambda rows: (rows @ self.query).unsqueeze(2),
            key_weight=self.key.T,
            key_bias=None,
            key_norm=None,
            value_weight=self.value.T,
            value_bias=None,
            output=lambda rows: rows,
            finish=lambda residual, attended: residual + attended,
            key_heads=1,
            scaling=1.0,
        )


def toy_view(
    spans: Sequence[int] = (12, 9, 12),
    budgets: Sequence[int] = (5, 4, 12),
    samples: Sequence[int] | None = None,
    side: str = "left",
    dtype: torch.dtype = torch.float64,
    text: int = 7,
) -> View:
    """A stage after layer 3 on a batch of toy samples: 2 words, a picture, `text` words and up, padded on one side.

    samples: which of them are in the batch; a sample's own contents are the same in any.
    """
    chosen = range(len(spans)) if samples is None else samples
    width, lengths = 6, {b: 2 + spans[b] + text + b for b in chosen}
    longest = max(lengths.values())
    streams = {name: torch.zeros(len(lengths), longest, width, dtype=dtype) for name in ("next", "current")}
    valid = torch.zeros(len(lengths), longest, dtype=torch.bool)
    pictures = []
    for place, (b, length) in enumerate(lengths.items()):
        start = longest - length if side == "left" else 0
        generator = torch.Generator().manual_seed(b)
        for stream in streams.values():
            made = torch.randn(length, width, generator=generator, dtype=torch.float64)
            stream[place, start : start + length] = made.to(dtype)
        valid[place, start : start + length] = True
        rows = torch.arange(start + 2, start + 2 + spans[b])
        pictures.append(Picture(rows, torch.arange(spans[b]), budgets[b]))
    head = torch.randn(width, 11, generator=torch.Generator().manual_seed(99), dtype=torch.float64).to(dtype)
    # No rotation: cosine 1, sine 0.
    rotary = torch.ones(1, longest, width, dtype=dtype), torch.zeros(1, longest, width, dtype=dtype)
    calls = {}
    for seed, (name, stream) in enumerate(streams.items()):
        layer = ToyLayer(width, seed, dtype)
        calls[name] = LayerCall(stream, partial(layer, valid=valid), layer.taken_apart, rotary, None)
    return View(3, streams["next"], valid, tuple(pictures), lambda hidden: hidden @ head, calls)
