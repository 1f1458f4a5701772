"""Qwen's vision tower, which has no CLS token and merges its own patches, as methods see it.

Shapes: S patches of a picture, R rows of them at a time, H heads, E head width.
"""

from copy import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from trio_core.errors import UnsupportedInput
from trio_core.models.encoder import ONE_KIND, Encoder, WatchedTower, places_in_grids, received_attention
from trio_core.rules.attention import rotate
from trio_core.tensors import wide_type


class QwenTower(WatchedTower):
    """A tower for pictures of any size, without a CLS token. It merges 2 × 2 patches into one visual token.

    A patch of its Encoder is a visual token. A crop of its Encoder is a picture or a frame of a video. The attention
    that a patch gets from its whole picture stands in for the CLS token's, as in the methods' public ports to Qwen.
    The tower stores patches window by window. We reorder them to raster order; a known port forgets this and scores
    the wrong tokens.

    visual: the tower's module.
    block: the index of the last block that attends over whole pictures. Keys and attention come from it.
    window: the side of the other blocks' windows in visual tokens; None without windows.
    """

    def __init__(self, visual: nn.Module, block: int, window: int | None):
        super().__init__()
        self.visual = cast(Any, visual)
        self.block = self.visual.blocks[block]
        self.window = window
        self.layout = self._layout()

    def _layout(self) -> dict[str, Any]:
        """The tower's own sizes. `block` and `window` follow from it."""
        names = ("window_size", "patch_size", "spatial_merge_size", "fullatt_block_indexes")
        return {name: copy(getattr(self.visual, name, None)) for name in names}

    def listen(self) -> list[Any]:
        """Record the sizes of the pictures, the block's queries, keys and rotation, and the merger's output."""
        attention = self.block.attn
        return [
            self.visual.register_forward_pre_hook(self._record_grids, with_kwargs=True),
            attention.register_forward_pre_hook(self._record_rotary, with_kwargs=True),
            attention.qkv.register_forward_hook(self.recorder("qkv")),
            self.visual.merger.register_forward_hook(self.recorder("merged")),
        ]

    def _record_grids(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.recorded["grids"] = kwargs["grid_thw"] if "grid_thw" in kwargs else args[1]

    def _record_rotary(self, _module: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        self.recorded["rotary"] = kwargs["position_embeddings"]

    def make_encoder(self, recorded: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """An Encoder of the record, in raster order.

        Raises UnsupportedInput where the prompt has more or fewer visual tokens than the tower made. That is so where
        a batch has pictures and videos: the tower runs once for each kind, and we record the latest run. Also where the
        tower's layout changed inside the context.
        """
        for name, value in self._layout().items():
            if value != self.layout[name]:
                raise UnsupportedInput(
                    f"{name} {value} of the vision tower: it was {self.layout[name]} when the context opened; set it "
                    "before prune()"
                )
        side, merged, qkv = self.visual.spatial_merge_size, recorded["merged"], recorded["qkv"]
        frames = [(h // side, w // side) for time, h, w in recorded["grids"].tolist() for _ in range(time)]
        sizes = [height * width for height, width in frames]
        if sum(sizes) != sum(visual_tokens):
            raise UnsupportedInput(
                f"{sum(sizes)} tokens from the latest run of the tower, {sum(visual_tokens)} visual tokens in the "
                f"prompt: {ONE_KIND}"
            )
        grid = max(height for height, _ in frames), max(width for _, width in frames)
        raster = places_in_grids(frames, grid)
        windows = [places[window_order(*frame, self.window)] for places, frame in zip(raster, frames, strict=True)]
        place = torch.cat(windows).to(merged.device)

        def to_raster(values: Tensor) -> Tensor:
            """By visual token in the tower's order → [C, M, …] in raster order, zero outside of a crop."""
            empty = values.new_zeros(len(frames) * grid[0] * grid[1], *values.shape[1:])
            return empty.index_copy(0, place, values).unflatten(0, (len(frames), -1))

        query, key, _ = qkv.unflatten(-1, (3, self.block.attn.num_heads, -1)).unbind(dim=1)

        def attend() -> Tensor:
            wide = wide_type(qkv)
            cos, sin = (part[None].to(wide) for part in recorded["rotary"])
            rotated = (rotate(part[None].to(wide), cos, sin)[0].to(qkv.dtype) for part in (query, key))
            queries, keys = (part.split([size * side**2 for size in sizes]) for part in rotated)
            weights = [received_attention(q, k, self.block.attn.scaling) for q, k in zip(queries, keys, strict=True)]
            return to_raster(torch.cat(weights).unflatten(0, (-1, side**2)).mean(dim=1)).transpose(1, 2)

        return Encoder(
            hidden=to_raster(merged),
            cls=None,
            attend=attend,
            keys=to_raster(key.unflatten(0, (-1, side**2)).mean(dim=1)),
            grid=grid,
            places=torch.cat(raster).to(merged.device).split(visual_tokens),
            project=lambda features: features,
        )


def window_order(height: int, width: int, window: int | None) -> Tensor:
    """[height · width]: the raster index of each visual token of a picture, in the order in which the tower stores it.

    The tower goes through the windows in raster order, and through each window in raster order. Windows at the right
    and lower edge may be smaller.

    window: the side of a window in visual tokens; None for a tower without windows.
    """
    if window is None:
        return torch.arange(height * width)
    window_of_token = torch.arange(height)[:, None] // window * width + torch.arange(width) // window
    return window_of_token.flatten().argsort(stable=True)
