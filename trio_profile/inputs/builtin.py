"""The table of built-in models: their configurations, their pictures, their processors.

One model is trained. The others have the sizes of published models, and their weights are drawn from a seed: work and
time depend on shapes, not on the values of weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from pathlib import Path
from typing import Any, cast

import torch
import yaml
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from torch import Tensor, nn
from transformers import (
    AutoProcessor,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaProcessor,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from trio_profile.inputs.pocket import clips
from trio_profile.inputs.pocket import video as pocket_video
from trio_profile.inputs.pocket.grammar import exam
from trio_profile.inputs.questions import Question
from trio_profile.inputs.smol import shapes
from trio_profile.inputs.trained import TRAINED

Inputs = dict[str, Tensor]
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "<image>")
"""The special tokens of both pocket models. Their ids are their places."""


@dataclass(frozen=True)
class Builtin:
    """A model that needs no download.

    description: one line for the list of models.
    cls: its transformers class.
    config: makes its configuration.
    picture: makes random inputs of the shape that the model's own processor gives to its standard picture, from a
        batch size and a generator.
    visual_tokens: number of tokens that the vision tower and the projector make of that picture.
    processor: makes its processor. None if the model has no tokenizer; real pictures then need a checkpoint.
    checkpoint: returns the directory of its trained weights, and may have to make it. None if the weights are random.
    converted: makes the model from that of the checkpoint, if the two have different classes.
    questions: returns the first n questions that a trained model can answer.
    """

    description: str
    cls: type[PreTrainedModel]
    config: Callable[[], PreTrainedConfig]
    picture: Callable[[int, torch.Generator], Inputs]
    visual_tokens: int
    processor: Callable[[], Any] | None = None
    checkpoint: Callable[[], Path] | None = None
    converted: Callable[[PreTrainedModel], PreTrainedModel] | None = None
    questions: Callable[[int], list[Question]] = exam


_TOKEN_PACKER_HEAD = 128
"""Width of an attention head."""


class TokenPackerProjector(nn.Module):
    """TokenPacker's projector (arXiv 2407.02392): one query for each s × s region of patches.

    A query attends to the region's patches, with features of several depths.

    The query comes from the last depth by bilinear downscaling, which gives the mean of the region's middle patches.
    Keys and values are perceptrons over the features of all depths. `image_seq_length` = (side / s)² determines s; of
    24² patches it leaves 144, 64 or 36. Rewritten after CircleRadon/TokenPacker at c38f140.
    """

    def __init__(self, config: LlavaConfig):
        super().__init__()
        vision, text = cast(Any, config.vision_config), cast(Any, config.text_config)
        layers = cast(list[int], config.vision_feature_layer)
        side, points = vision.image_size // vision.patch_size, isqrt(config.image_seq_length)
        width, hidden = vision.hidden_size, text.hidden_size
        self.side, self.points = side, points
        self.query = nn.Sequential(nn.Linear(width, width, bias=False), nn.LayerNorm(width, eps=1e-6))
        self.key, self.value = (
            nn.Sequential(
                nn.Linear(len(layers) * width, width), nn.GELU(), nn.Linear(width, width), nn.LayerNorm(width, eps=1e-6)
            )
            for _ in range(2)
        )
        self.attention = nn.MultiheadAttention(width, max(1, width // _TOKEN_PACKER_HEAD), batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden))

    def forward(self, features: Tensor) -> Tensor:
        """[C, side², depths · E] → [C, points², D]. The features of the depths are concatenated, the query's last."""
        width, size = self.attention.embed_dim, self.side // self.points
        middle = slice((size - 1) // 2, size // 2 + 1)
        coarse = self._by_region(features[..., -width:]).unflatten(1, (size, size))[:, middle, middle].mean(dim=(1, 2))
        key, value = (self._by_region(part(features)) for part in (self.key, self.value))
        packed, _ = self.attention(self.query(coarse)[:, None], key, value, need_weights=False)
        return self.mlp(packed.view(len(features), -1, width))

    def _by_region(self, patches: Tensor) -> Tensor:
        """[C, side², E] → [C · points², s², E]."""
        size = self.side // self.points
        rows = patches.unflatten(1, (self.points, size, self.points, size))
        return rows.transpose(2, 3).flatten(3, 4).flatten(0, 2)


class TokenPackerForConditionalGeneration(LlavaForConditionalGeneration):
    """LLaVA-1.5 with this projector. It selects no tokens: the projector is trained, so it is a model of its own.

    `config.vision_feature_layer` lists the depths, the query's last.
    """

    def __init__(self, config: LlavaConfig):
        super().__init__(config)
        cast(Any, self.model).multi_modal_projector = TokenPackerProjector(config)


# --- random pictures in the shapes that the processors make -------------------------------------------------------


def _llava_picture(side: int, batch: int, generator: torch.Generator) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, side, side, generator=generator)}


def _clip(frames: int, side: int, batch: int, generator: torch.Generator) -> Inputs:
    return {"pixel_values_videos": torch.randn(batch, frames, 3, side, side, generator=generator)}


def _llava_next_picture(height: int, width: int, batch: int, generator: torch.Generator) -> Inputs:
    """A base crop and 2 × 2 tiles. The model drops the parts of the tiles that the picture does not cover.

    A picture of 672 × 672 gives 2880 patch tokens and 48 newline tokens. A photograph of 448 × 640 gives 2208 and 34.
    """
    return {
        "pixel_values": torch.randn(batch, 5, 3, 336, 336, generator=generator),
        "image_sizes": torch.tensor([[height, width]] * batch),
    }


def _qwen_picture(batch: int, generator: torch.Generator) -> Inputs:
    """1008 × 1008, as TRIO's loaders fix it: 72 × 72 patches of 2 · 3 · 14 · 14 values, 1296 visual tokens."""
    return {
        "pixel_values": torch.randn(batch * 72 * 72, 2 * 3 * 14 * 14, generator=generator),
        "image_grid_thw": torch.tensor([[1, 72, 72]] * batch),
    }


# --- configurations and processors ------------------------------------------------------------------------------

_POCKET = TRAINED["pocket"]
_SIZES = _POCKET.parent / "models.yaml"


def _config(cls: type[PreTrainedConfig], name: str) -> Callable[[], PreTrainedConfig]:
    """Makes a configuration of this class, with the fields that `data/models.yaml` has under this name."""
    return lambda: cls(**yaml.safe_load(_SIZES.read_text(encoding="utf-8"))[name])


def _pocket_deep_processor() -> LlavaProcessor:
    """CLIP's preprocessing at 192 pixels, and a tokenizer of single bytes. Nothing is downloaded."""
    vocabulary = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(tokenizer_models.BPE(vocab={text: i for i, text in enumerate(vocabulary)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    return llava_processor(tokenizer, 192, 8)


def llava_processor(tokenizer: Tokenizer, side: int, patch: int) -> LlavaProcessor:
    """LLaVA's processor with CLIP's preprocessing.

    tokenizer: must know `SPECIALS`.
    side: of the pictures, in pixels.
    patch: side of a patch, in pixels.
    """
    return LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side}),
        tokenizer=PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token="<pad>",
            bos_token="<s>",
            eos_token="</s>",
            unk_token="<unk>",
            additional_special_tokens=["<image>"],
        ),
        patch_size=patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
    )


def _smol_checkpoint() -> Path:
    from trio_profile.inputs.smol.assembly import checkpoint

    return checkpoint()


def _smol_processor() -> LlavaProcessor:
    from trio_profile.inputs.smol.assembly import processor

    return processor()


BUILTIN: dict[str, Builtin] = {
    "pocket": Builtin(
        "a small trained LLaVA: 576 visual tokens, questions with known answers; the embedded default",
        LlavaForConditionalGeneration,
        partial(LlavaConfig.from_pretrained, _POCKET),
        partial(_llava_picture, 192),
        576,
        partial(AutoProcessor.from_pretrained, _POCKET),
        lambda: _POCKET,
    ),
    "pocket-video": Builtin(
        "pocket's weights in LLaVA-OneVision's form: clips of 8 frames, 1153 visual tokens",
        LlavaOnevisionForConditionalGeneration,
        pocket_video.config,
        partial(_clip, clips.FRAMES, 192),
        pocket_video.VISUAL_TOKENS,
        pocket_video.processor,
        lambda: _POCKET,
        pocket_video.from_pocket,
        clips.exam,
    ),
    "smol": Builtin(
        "SmolLM2-135M and DINOv2-S, both pretrained, joined by us: 576 visual tokens; of packages that it names",
        LlavaForConditionalGeneration,
        _config(LlavaConfig, "smol"),
        partial(_llava_picture, 336),
        576,
        _smol_processor,
        _smol_checkpoint,
        questions=shapes.exam,
    ),
    "pocket-deep": Builtin(
        "the same picture in 32 decoder layers of width 256, untrained: the paper's schedule on a laptop",
        LlavaForConditionalGeneration,
        _config(LlavaConfig, "pocket-deep"),
        partial(_llava_picture, 192),
        576,
        _pocket_deep_processor,
    ),
    "llava-1.5-7b": Builtin(
        "LLaVA-1.5-7B at its true size: 576 visual tokens",
        LlavaForConditionalGeneration,
        _config(LlavaConfig, "llava-1.5-7b"),
        partial(_llava_picture, 336),
        576,
    ),
    "tokenpacker-7b": Builtin(
        "TokenPacker in LLaVA-1.5-7B: 144 visual tokens, its projector packs 2 × 2 patches into each",
        TokenPackerForConditionalGeneration,
        _config(LlavaConfig, "tokenpacker-7b"),
        partial(_llava_picture, 336),
        144,
    ),
    "llava-next-7b": Builtin(
        "LLaVA-NeXT-7B at its true size: a 672 × 672 picture, 2928 visual tokens, newline tokens included",
        LlavaNextForConditionalGeneration,
        _config(LlavaNextConfig, "llava-next-7b"),
        partial(_llava_next_picture, 672, 672),
        2928,
    ),
    "llava-next-7b-photo": Builtin(
        "LLaVA-NeXT-7B with a photograph of 640 × 448: 2242 visual tokens, near POPE's average of 2250",
        LlavaNextForConditionalGeneration,
        _config(LlavaNextConfig, "llava-next-7b"),
        partial(_llava_next_picture, 448, 640),
        2242,
    ),
    "llava-next-34b": Builtin(
        "LLaVA-NeXT-34B at its true size, the same picture, grouped keys",
        LlavaNextForConditionalGeneration,
        _config(LlavaNextConfig, "llava-next-34b"),
        partial(_llava_next_picture, 672, 672),
        2928,
    ),
    "llava-onevision-7b": Builtin(
        "LLaVA-OneVision-7B at its true size: a video of 32 frames, 6273 visual tokens, its newline included",
        LlavaOnevisionForConditionalGeneration,
        _config(LlavaOnevisionConfig, "llava-onevision-7b"),
        partial(_clip, 32, 384),
        32 * 196 + 1,
    ),
    "qwen2.5-vl-7b": Builtin(
        "Qwen2.5-VL-7B at its true size: a 1008 × 1008 picture, 1296 visual tokens, grouped keys",
        Qwen2_5_VLForConditionalGeneration,
        _config(Qwen2_5_VLConfig, "qwen2.5-vl-7b"),
        _qwen_picture,
        1296,
    ),
    "qwen2.5-vl-72b": Builtin(
        "Qwen2.5-VL-72B at its true size, the same picture",
        Qwen2_5_VLForConditionalGeneration,
        _config(Qwen2_5_VLConfig, "qwen2.5-vl-72b"),
        _qwen_picture,
        1296,
    ),
}
"""The built-in models by name. Those of TRAINED have trained weights, the others random ones."""
