"""Qwen's vision-language models: grouped keys, and rotary positions with three axes (time, height, width).

The kept tokens retain their three-axis positions; `rope_deltas` stay as the model computed them.
"""

from dataclasses import replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from trio_core.errors import UnsupportedInput, UnsupportedModel
from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.encoder import Encoder, Tower
from trio_core.rules.attention import rotate
from trio_core.rules.cost import LayerShape

_ROWS = 256
"""Query rows whose weights `received` holds at once."""


class QwenTower(Tower):
    """A tower for pictures of any size, without a CLS token, that merges its patches into the visual tokens itself.

    A crop is a picture, or a frame of a video; a patch of its Encoder is a visual token, 2 × 2 of the tower's patches.
    In place of what a CLS token attends to stands what a patch receives from all of its picture, the rule of the
    methods' ports. All of it is in raster order, where the tower has it window by window: scores that stay so are then
    other tokens' scores, the known bug of a port.

    visual: the tower. block: the index of its last block that attends over whole pictures; keys and attention are its.
    window: the side of the other blocks' windows, in visual tokens; None without windows.
    """

    def __init__(self, visual: nn.Module, block: int, window: int | None):
        super().__init__()
        self.visual = cast(Any, visual)
        self.block = self.visual.blocks[block]
        self.window = window

    def listen(self) -> list[Any]:
        """Keep the latest pictures' sizes, the block's queries, keys and rotation, and what the merger puts out."""
        attention = self.block.attn
        return [
            self.visual.register_forward_pre_hook(self._keep_grids, with_kwargs=True),
            attention.register_forward_pre_hook(self._keep_rotary, with_kwargs=True),
            attention.qkv.register_forward_hook(self.keep("qkv")),
            self.visual.merger.register_forward_hook(self.keep("merged")),
        ]

    def _keep_grids(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.passing["grids"] = kwargs["grid_thw"] if "grid_thw" in kwargs else args[1]

    def _keep_rotary(self, _module: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        self.passing["rotary"] = kwargs["position_embeddings"]

    def encoder(self, passed: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """Pictures of several sizes are laid on a grid that holds each, at its upper left."""
        side, merged, qkv = self.visual.spatial_merge_size, passed["merged"], passed["qkv"]
        frames = [(h // side, w // side) for time, h, w in passed["grids"].tolist() for _ in range(time)]
        sizes = [height * width for height, width in frames]
        if sum(sizes) != sum(visual_tokens):
            raise UnsupportedInput(
                f"{sum(sizes)} tokens from the latest run of the tower, {sum(visual_tokens)} visual tokens in the "
                "prompt: methods that look into this tower take pictures or videos, not both in one batch"
            )
        rows, columns = (max(sides) for sides in zip(*frames, strict=True))
        raster = [
            ((crop * rows + torch.arange(height)[:, None]) * columns + torch.arange(width)).flatten()
            for crop, (height, width) in enumerate(frames)
        ]
        windows = [places[window_order(*frame, self.window)] for places, frame in zip(raster, frames, strict=True)]
        place = torch.cat(windows).to(merged.device)

        def laid_out(values: Tensor) -> Tensor:
            """[all visual tokens, …] as the tower has them → [C, M, …], zero where a smaller picture has none."""
            grid = values.new_zeros(len(frames) * rows * columns, *values.shape[1:])
            return grid.index_copy(0, place, values).unflatten(0, (len(frames), -1))

        query, key, _ = qkv.unflatten(-1, (3, self.block.attn.num_heads, -1)).unbind(dim=1)

        def attend() -> Tensor:
            cos, sin = (part[None].to(_wide(qkv)) for part in passed["rotary"])
            turned = (rotate(part[None].to(_wide(qkv)), cos, sin)[0].to(qkv.dtype) for part in (query, key))
            queries, keys = (part.split([size * side**2 for size in sizes]) for part in turned)
            weights = [received(q, k, self.block.attn.scaling) for q, k in zip(queries, keys, strict=True)]
            return laid_out(torch.cat(weights).unflatten(0, (-1, side**2)).mean(dim=1)).transpose(1, 2)

        return Encoder(
            hidden=laid_out(merged),
            cls=None,
            attend=attend,
            keys=laid_out(key.unflatten(0, (-1, side**2)).mean(dim=1)),
            grid=(rows, columns),
            places=torch.cat(raster).to(merged.device).split(visual_tokens),
            project=lambda features: features,
        )


def window_order(height: int, width: int, window: int | None) -> Tensor:
    """[height · width]: the raster places of a picture's tokens in the order in which a tower with windows has them.

    Window by window in raster order, and so within each; those at the right and lower edge may be smaller.
    """
    if window is None:
        return torch.arange(height * width)
    number = torch.arange(height)[:, None] // window * width + torch.arange(width) // window
    return number.flatten().argsort(stable=True)


def received(query_SHE: Tensor, key_SHE: Tensor, scaling: float) -> Tensor:
    """[S, H]: what each of S patches receives from all of them: the mean of the attention's rows, at least float32.

    Some rows at a time, so that no whole map is ever held.
    """
    key_HES = key_SHE.permute(1, 2, 0)
    total_HS = key_SHE.new_zeros(key_SHE.shape[1], len(key_SHE), dtype=_wide(key_SHE))
    for some_HRE in query_SHE.transpose(0, 1).split(_ROWS, dim=1):
        total_HS += (some_HRE @ key_HES * scaling).to(total_HS.dtype).softmax(dim=-1).sum(dim=1)
    return total_HS.T / len(key_SHE)


def _wide(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


class Merging(Adapter):
    """A family whose tower takes pictures of any size, merges their patches and projects them itself."""

    @property
    def visual(self) -> Any:
        """The tower."""
        return self.model.get_submodule("model.visual")

    def tower(self) -> Tower:
        """Every block attends over whole pictures."""
        return QwenTower(self.visual, block=-1, window=None)

    @property
    def layer_shape(self) -> LayerShape:
        """With the tower's widths; `patches` are 0, since a crop has as many as its picture is large."""
        attention = self.visual.blocks[0].attn
        return replace(
            super().layer_shape,
            vision_hidden=attention.dim,
            vision_heads=attention.num_heads,
            merged=self.visual.spatial_merge_size**2,
        )


class Qwen2VL(Merging):
    """Qwen2-VL: every layer of its tower sees the whole picture."""

    family: ClassVar[str] = "Qwen2-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen2VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen2_vl_text",)
    multi_axis_positions: ClassVar[bool] = True

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Patches of 4 pixels, merged two by two."""
        from transformers import Qwen2VLConfig

        vision = {"depth": 2, "embed_dim": 32, "hidden_size": toy.TEXT["hidden_size"], "num_heads": 2, "patch_size": 4}
        text = {**toy.TEXT, "rope_parameters": toy.MROPE}
        return Qwen2VLConfig(text_config=text, vision_config=vision, **toy.QWEN_IDS)


class Qwen25VL(Merging):
    """Qwen2.5-VL: a tower with windows."""

    family: ClassVar[str] = "Qwen2.5-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen2_5_VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen2_5_vl_text",)
    multi_axis_positions: ClassVar[bool] = True

    def tower(self) -> Tower:
        """Some blocks attend over whole pictures. Raises UnsupportedModel where none does."""
        visual = self.visual
        if not (whole := [index for index in range(len(visual.blocks)) if index in visual.fullatt_block_indexes]):
            raise UnsupportedModel(
                f"{self.family} with fullatt_block_indexes {visual.fullatt_block_indexes}: methods that look into its "
                "tower need a block that attends over whole pictures"
            )
        return QwenTower(visual, whole[-1], visual.window_size // visual.spatial_merge_size // visual.patch_size)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Patches of 4 pixels, merged two by two; windows of 16."""
        from transformers import Qwen2_5_VLConfig

        vision = {
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 4,
            "out_hidden_size": toy.TEXT["hidden_size"],
            "window_size": 16,
            "fullatt_block_indexes": [1],
        }
        text = {**toy.TEXT, "rope_parameters": toy.MROPE}
        return Qwen2_5_VLConfig(text_config=text, vision_config=vision, **toy.QWEN_IDS)


class Qwen3VL(Adapter):
    """Qwen3-VL: heads are normed, the axes' frequencies interleave, and the picture enters the first layers again.

    That last thing is DeepStack, which every adapter knows (`take_additions`).
    """

    family: ClassVar[str] = "Qwen3-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen3VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen3_vl_text",)
    multi_axis_positions: ClassVar[bool] = True

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Each of the tower's three layers has its features in DeepStack."""
        from transformers import Qwen3VLConfig

        vision = {
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 4,
            "out_hidden_size": toy.TEXT["hidden_size"],
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0, 1, 2],
        }
        text = {**toy.TEXT, "head_dim": 8, "rope_parameters": toy.MROPE}
        return Qwen3VLConfig(text_config=text, vision_config=vision, **toy.QWEN_IDS)
