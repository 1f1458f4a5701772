"""Qwen's vision-language models: grouped keys, and rotary positions with three axes (time, height, width).

Kept tokens retain their three-axis positions. `rope_deltas` stay as the model computed them.
"""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from trio_core.errors import UnsupportedModel
from trio_core.models import toy
from trio_core.models.adapter import Adapter, VideoShape
from trio_core.models.encoder import KeepPixels, Tower, WatchedTower
from trio_core.models.qwen_tower import QwenTower, ThinTower
from trio_core.rules.cost import LayerShape

TOWER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "patch_size": 4,
    "out_hidden_size": toy.TEXT["hidden_size"],
}
"""A toy's tower with patches of 4 × 4 pixels, of which 2 × 2 become one token."""


class Qwen(Adapter):
    """A family of Qwen's: three-axis positions, and pictures of any size."""

    multi_axis_positions: ClassVar[bool] = True
    takes_pixels: ClassVar[bool] = True
    toy_text: ClassVar[dict[str, Any]] = {**toy.TEXT, "rope_parameters": toy.MROPE}
    toy_options: ClassVar[dict[str, Any]] = toy.FRAMED_PLACEHOLDERS
    toy_types_name: ClassVar[str] = "mm_token_type_ids"
    toy_is_framed: ClassVar[bool] = True
    toy_video_frames: ClassVar[int] = 1
    frames_apart: ClassVar[bool] = False
    """Whether the prompt has text between the frames of a video."""

    @property
    def visual(self) -> Any:
        """The vision tower's module."""
        return self.model.get_submodule("model.visual")

    def thin_tower(self, keep: KeepPixels) -> Tower:
        """The vision tower that runs on a part of its patches. keep: the method's rule."""
        return ThinTower(self.visual, keep)

    def videos(self, inputs: dict[str, Any], tokens: int) -> tuple[VideoShape, ...]:
        """The videos of a forward in their order. Two pictures are one frame. The arguments are Adapter's."""
        merged = self.model.config.vision_config.spatial_merge_size**2
        grids = inputs.get("video_grid_thw")
        rows = grids.tolist() if isinstance(grids, Tensor) else ()  # the host waits
        shapes = tuple(VideoShape(frames, height * width // merged) for frames, height, width in rows)
        return shapes if sum(shape.tokens for shape in shapes) == tokens else ()

    @classmethod
    def toy_picture(cls, random: toy.Random, size: toy.Size) -> toy.ToyPicture:
        """A picture of 6 × 8 patches, or of 4 × 6."""
        return picture(random, size)

    @classmethod
    def toy_video(cls, random: toy.Random, frames: int) -> toy.ToyPicture:
        """A video of frames of 4 × 4 patches between a start and an end id, with a word before it."""
        pixels, grid = random.pixels(frames * 4 * 4, _PATCH_PIXELS), torch.tensor([[frames, 4, 4]])
        runs = [cls.toy_frame_tokens] * frames if cls.frames_apart else [cls.toy_frame_tokens * frames]
        ids: list[int] = []
        for run in runs:
            ids += [*random.words(1), toy.VISION_START, *[toy.VIDEO] * run, toy.VISION_END]
        return toy.ToyPicture({"pixel_values_videos": pixels, "video_grid_thw": grid}, ids)


class QwenWithTower(Qwen):
    """A Qwen family whose tower methods can look into."""

    def tower(self) -> WatchedTower:
        """The tower, read at its last block. Here every block attends over whole pictures."""
        return QwenTower(self.visual, block=-1, window=None)

    @property
    def layer_shape(self) -> LayerShape:
        """The widths of a decoder layer and of the tower. `patches` is 0, because a crop is as large as its picture."""
        attention = self.visual.blocks[0].attn
        return replace(
            super().layer_shape,
            vision_hidden=attention.dim,
            vision_heads=attention.num_heads,
            merged=self.visual.spatial_merge_size**2,
            has_cls=False,
        )


class Qwen2VL(QwenWithTower):
    """Qwen2-VL: every block of its tower attends over the whole picture."""

    family: ClassVar[str] = "Qwen2-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen2VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen2_vl_text",)
    # Patches of 4 × 4 pixels, of which 2 × 2 become one token.
    toy_vision: ClassVar[dict[str, Any]] = {
        "depth": 2,
        "embed_dim": 32,
        "hidden_size": toy.TEXT["hidden_size"],
        "num_heads": 2,
        "patch_size": 4,
    }


class Qwen25VL(QwenWithTower):
    """Qwen2.5-VL: most blocks of its tower attend within windows."""

    family: ClassVar[str] = "Qwen2.5-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen2_5_VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen2_5_vl_text",)
    # Windows of 16 × 16 pixels in the first block.
    toy_vision: ClassVar[dict[str, Any]] = {**TOWER, "depth": 2, "window_size": 16, "fullatt_block_indexes": [1]}
    toy_video_frames: ClassVar[int] = 0  # methods that look into the tower take one kind in a batch

    def tower(self) -> WatchedTower:
        """The tower, read at its last block that attends over whole pictures. Raises UnsupportedModel without one."""
        visual = self.visual
        if not (whole := [index for index in range(len(visual.blocks)) if index in visual.fullatt_block_indexes]):
            raise UnsupportedModel(
                f"{self.family} with fullatt_block_indexes {visual.fullatt_block_indexes}: methods that look into its "
                "tower need a block that attends over whole pictures"
            )
        return QwenTower(visual, whole[-1], visual.window_size // visual.spatial_merge_size // visual.patch_size)


class Qwen3VL(Qwen):
    """Qwen3-VL: heads have norms, the axes' frequencies interleave, and visual features enter the first layers again.

    The last of these is DeepStack. Every adapter handles it (`Adapter.take_additions`).
    """

    family: ClassVar[str] = "Qwen3-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen3VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen3_vl_text",)
    # Each of the tower's three layers gives features to DeepStack.
    toy_vision: ClassVar[dict[str, Any]] = {
        **TOWER,
        "depth": 3,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0, 1, 2],
    }
    toy_text: ClassVar[dict[str, Any]] = {**Qwen.toy_text, "head_dim": 8}
    frames_apart: ClassVar[bool] = True


_PATCH_PIXELS = 3 * 2 * 4 * 4
"""Values of one patch: 3 channels, 2 frames (a picture is repeated), 4 × 4 pixels."""


def picture(random: toy.Random, size: toy.Size) -> toy.ToyPicture:
    """A picture of 6 × 8 patches, or of 4 × 6."""
    height, width = (6, 8) if size == "large" else (4, 6)
    pixels, grid = random.pixels(height * width, _PATCH_PIXELS), torch.tensor([[1, height, width]])
    return toy.ToyPicture({"pixel_values": pixels, "image_grid_thw": grid}, [toy.IMAGE] * (height * width // 4))
