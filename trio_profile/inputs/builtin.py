"""The table of built-in models: their configurations, their pictures, their processors.

One model is trained. The others have the sizes of published models, and their weights are drawn from a seed: work and
time depend on shapes, not on the values of weights.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
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
    LlavaNextForConditionalGeneration,
    LlavaOnevisionForConditionalGeneration,
    LlavaProcessor,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from trio_profile.inputs.pocket import clips
from trio_profile.inputs.pocket import video as pocket_video
from trio_profile.inputs.pocket.grammar import exam
from trio_profile.inputs.questions import Question
from trio_profile.inputs.smol import assembly, shapes
from trio_profile.inputs.trained import TRAINED
from trio_profile.records.facts import SOURCE

Inputs = dict[str, Tensor]
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "<image>")
"""The special tokens of both pocket models. Their ids are their places."""


@dataclass(frozen=True)
class Builtin:
    """A model that needs no download.

    description: one line for the list of models.
    cls: its transformers class.
    visual_tokens: number of tokens that the vision tower and the projector make of its standard picture.
    pixels: the shapes in which its processor gives this picture to the model, by the names of the inputs.
    sizes: the inputs that say the size of this picture.
    config: makes its configuration.
    processor: makes its processor. None if the model has no tokenizer; real pictures then need a checkpoint.
    checkpoint: returns the directory of its trained weights, and may have to make it. None if the weights are random.
    converted: makes the model from that of the checkpoint, if the two have different classes.
    questions: returns the first n questions that a trained model can answer.
    """

    description: str
    cls: type[PreTrainedModel]
    visual_tokens: int
    pixels: dict[str, list[int]]
    config: Callable[[], PreTrainedConfig]
    sizes: dict[str, list[int]] = field(default_factory=dict)
    processor: Callable[[], Any] | None = None
    checkpoint: Callable[[], Path] | None = None
    converted: Callable[[PreTrainedModel], PreTrainedModel] | None = None
    questions: Callable[[int], list[Question]] = exam

    def picture(self, batch: int, generator: torch.Generator) -> Inputs:
        """Random pixels in the shapes of the standard picture."""
        noise = {
            name: torch.randn(batch * first, *rest, generator=generator) for name, (first, *rest) in self.pixels.items()
        }
        return noise | {name: torch.tensor([size] * batch) for name, size in self.sizes.items()}


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


# --- processors, and the table -------------------------------------------------------------------------------------


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


_POCKET = TRAINED["pocket"]
_CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        LlavaForConditionalGeneration,
        LlavaNextForConditionalGeneration,
        LlavaOnevisionForConditionalGeneration,
        Qwen2_5_VLForConditionalGeneration,
        TokenPackerForConditionalGeneration,
    )
}
_CODE: dict[str, dict[str, Any]] = {
    "pocket": {
        "config": partial(LlavaConfig.from_pretrained, _POCKET),
        "processor": partial(AutoProcessor.from_pretrained, _POCKET),
        "checkpoint": lambda: _POCKET,
    },
    "pocket-video": {
        "config": pocket_video.config,
        "processor": pocket_video.processor,
        "checkpoint": lambda: _POCKET,
        "converted": pocket_video.from_pocket,
        "questions": clips.exam,
    },
    "smol": {"processor": assembly.processor, "checkpoint": assembly.checkpoint, "questions": shapes.exam},
    "pocket-deep": {"processor": _pocket_deep_processor},
}
"""The fields of a Builtin that are code. `data/models.yaml` has the others."""


def _builtin(name: str, entry: dict[str, Any]) -> Builtin:
    """A model from its entry in `data/models.yaml` and its code."""
    cls = _CLASSES[entry.pop("cls")]
    sizes = entry.pop("config", {})
    # A configuration changes the dictionaries that it gets.
    code: dict[str, Any] = {"config": lambda: cls.config_class(**deepcopy(sizes))} | _CODE.get(name, {})
    return Builtin(cls=cls, **entry, **code)


BUILTIN: dict[str, Builtin] = {
    name: _builtin(name, entry)
    for name, entry in yaml.safe_load(SOURCE.with_name("models.yaml").read_text(encoding="utf-8")).items()
}
"""The built-in models by name. Those of TRAINED have trained weights, the others random ones."""
