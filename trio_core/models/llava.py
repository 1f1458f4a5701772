"""The LLaVA families, for pictures and videos: a tower, a projector and an ordinary decoder.

LLaVA-NeXT and LLaVA-OneVision cut a picture into tiles. Its visual tokens are those of the whole picture, those of the
tiles without their padding, and a newline token at the end of each row of the tiles. OneVision puts one newline token
behind a video. Newline tokens have placeholders too, so they count as visual tokens here.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from typing import Any, ClassVar

import torch

from trio_core.errors import UnsupportedModel
from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.clip_tower import ClipTower, PackedTower, PooledTower, ResampledTower, tower_layers
from trio_core.models.encoder import WatchedTower
from trio_core.models.grid_tower import Grid
from trio_core.rules.cost import LayerShape


class Clip(Adapter):
    """A family with a tower like CLIP's. Its projector maps each patch on its own."""

    towers: ClassVar[dict[str, str]] = {".*siglip.*": "full", ".*clip.*|vit|dinov2(_with_registers)?": "default"}
    """The kinds of towers that are read, each with the `vision_feature_select_strategy` that passes its patches on."""
    tower_class: ClassVar[type[ClipTower]] = ClipTower
    """How the model makes visual tokens of the patches. By default each patch becomes one, in order."""

    @property
    def strategy(self) -> str | None:
        """The strategy of this model's tower in `towers`; None if its tower is not read."""
        kind = str(self.model.config.vision_config.model_type)
        strategies = (strategy for pattern, strategy in self.towers.items() if re.fullmatch(pattern, kind))
        return next(strategies, None) if tower_layers(self.model.get_submodule("model.vision_tower")) else None

    @property
    def has_cls(self) -> bool:
        """Whether the tower has a CLS token, which the strategy "default" leaves out."""
        return self.strategy == "default"

    def tower(self) -> WatchedTower:
        """The tower, read at the layer whose output goes to the projector.

        Raises UnsupportedModel where the projector reads several layers, or not all patches and nothing else.
        """
        if self.strategy is None:
            raise UnsupportedModel(
                f"{self.family} with a tower of the kind {self.model.config.vision_config.model_type!r}, which we do "
                "not know how to read: methods that look into it need one of CLIP, SigLIP, ViT or DINOv2"
            )
        config, layers = self.model.config, tower_layers(self.model.get_submodule("model.vision_tower"))
        layer = config.vision_feature_layer
        # hidden_states[0] is the embedding, so entry i is the output of layer i − 1.
        if not isinstance(layer, int) or layer == 0 or config.vision_feature_select_strategy != self.strategy:
            raise UnsupportedModel(
                f"{self.family} with vision_feature_layer {layer} and vision_feature_select_strategy "
                f"{config.vision_feature_select_strategy!r}: methods that look into the tower need the patches of one "
                f"layer, {self.strategy!r}"
            )
        owner, last = self.model.get_submodule("model"), layers[-1] if self.has_cls else None
        registers = getattr(config.vision_config, "num_register_tokens", 0)
        return self.tower_class(layers[layer - 1 if layer > 0 else layer], last, owner, registers)

    @property
    def layer_shape(self) -> LayerShape:
        """The widths of a decoder layer and of the tower."""
        if self.strategy is None:
            return super().layer_shape
        vision = self.model.config.vision_config
        return replace(
            super().layer_shape,
            vision_hidden=vision.hidden_size,
            vision_heads=vision.num_attention_heads,
            patches=(vision.image_size // vision.patch_size) ** 2,
            has_cls=self.has_cls,
        )


class Llava(Clip):
    """LLaVA-1.5: 576 visual tokens of CLIP ViT-L/14 at 336 pixels, a Llama decoder."""

    family: ClassVar[str] = "LLaVA-1.5"
    classes: ClassVar[tuple[str, ...]] = ("LlavaForConditionalGeneration",)

    toy_vision: ClassVar[dict[str, Any]] = toy.CLIP
    toy_text: ClassVar[dict[str, Any]] = {**Clip.toy_text, "num_key_value_heads": 4}  # as many keys as queries


class Tiled(Adapter):
    """A family that cuts a picture into tiles, beside a crop of the whole."""

    has_grids: ClassVar[bool] = False  # newline tokens stand between the rows
    sizing: ClassVar[str] = (
        "resizes a picture to one of the layouts of tiles that its processor lists (image_grid_pinpoints)"
    )
    toy_options: ClassVar[dict[str, Any]] = {"image_grid_pinpoints": toy.PINPOINTS, **toy.PLACEHOLDERS}

    @classmethod
    def toy_picture(cls, random: toy.Random, size: toy.Size) -> toy.ToyPicture:
        """A picture of 30 × 32 pixels in four tiles, or of 16 × 24 pixels in two. A tile has 4 × 4 patches.

        The model cuts the padding off the tiles: of the patches, 8 × 8 or 4 × 6 stay. Each row ends with a newline
        token.
        """
        shape, tiles, rows, columns = ([30, 32], 4, 8, 8) if size == "large" else ([16, 24], 2, 4, 6)
        inputs = {"pixel_values": random.pixels(1, 1 + tiles, 3, 16, 16), "image_sizes": torch.tensor([shape])}
        return toy.ToyPicture(inputs, [toy.IMAGE] * (16 + rows * (columns + 1)))


class LlavaNext(Tiled, Clip):
    """LLaVA-NeXT (1.6): a base crop and up to four tiles of the picture."""

    family: ClassVar[str] = "LLaVA-NeXT"
    classes: ClassVar[tuple[str, ...]] = ("LlavaNextForConditionalGeneration",)
    toy_vision: ClassVar[dict[str, Any]] = toy.CLIP
    toy_options: ClassVar[dict[str, Any]] = {"image_token_index": toy.IMAGE, "image_grid_pinpoints": toy.PINPOINTS}
    tower_class: ClassVar[type[ClipTower]] = PackedTower


class LlavaNextVideo(Tiled, Clip):
    """LLaVA-NeXT-Video: pictures as in LLaVA-NeXT, videos as pooled frames."""

    family: ClassVar[str] = "LLaVA-NeXT-Video"
    classes: ClassVar[tuple[str, ...]] = ("LlavaNextVideoForConditionalGeneration",)
    toy_vision: ClassVar[dict[str, Any]] = toy.CLIP
    toy_video_frames: ClassVar[int] = 2
    tower_class: ClassVar[type[ClipTower]] = ResampledTower

    def tower(self) -> WatchedTower:
        """The tower. Raises UnsupportedModel also where the model does not average the patches that it pools.

        A convolution or a maximum says nothing of attention.
        """
        if (mode := self.model.config.spatial_pool_mode) != "average":
            raise UnsupportedModel(
                f"{self.family} with spatial_pool_mode {mode!r}: methods that look into the tower need 'average'"
            )
        return super().tower()


class LlavaOnevision(Tiled, Clip):
    """LLaVA-OneVision: tiles of SigLIP for pictures, pooled frames for videos, a Qwen2 decoder with biases."""

    family: ClassVar[str] = "LLaVA-OneVision"
    classes: ClassVar[tuple[str, ...]] = ("LlavaOnevisionForConditionalGeneration",)
    toy_vision: ClassVar[dict[str, Any]] = toy.SIGLIP
    toy_text: ClassVar[dict[str, Any]] = {**toy.TEXT, "model_type": "qwen2"}
    toy_video_frames: ClassVar[int] = 2
    video_extra: ClassVar[int] = 1
    tower_class: ClassVar[type[ClipTower]] = PooledTower


class VideoLlava(Adapter):
    """Video-LLaVA: one tower for pictures and one for videos of eight frames. Each frame keeps its CLS token."""

    family: ClassVar[str] = "Video-LLaVA"
    classes: ClassVar[tuple[str, ...]] = ("VideoLlavaForConditionalGeneration",)
    toy_vision: ClassVar[dict[str, Any]] = toy.CLIP
    toy_options: ClassVar[dict[str, Any]] = toy.PLACEHOLDERS
    toy_video_frames: ClassVar[int] = 2
    toy_frame_tokens: ClassVar[int] = 17

    def grids(self, inputs: dict[str, Any], tokens: Sequence[int]) -> list[Grid]:  # noqa: ARG002
        """Squares, behind the CLS token in a frame of a video. The arguments are Adapter's."""
        return [Grid(isqrt(count), isqrt(count), count - isqrt(count) ** 2) for count in tokens]

    @classmethod
    def toy_picture(cls, random: toy.Random, size: toy.Size) -> toy.ToyPicture:  # noqa: ARG003
        """One picture."""
        return super().toy_picture(random, "small")
