"""TokenPacker (arXiv 2407.02392): LLaVA with a projector that packs each region of patches into one visual token.

It is trained, and no choice among tokens: a model of its own, whose work and time are those of any weights.
"""

from math import isqrt
from typing import Any, cast

from torch import Tensor, nn
from transformers import LlavaConfig, LlavaForConditionalGeneration

from trio_core.errors import OptionError

_HEAD = 128
"""Width of an attention head."""


class TokenPackerProjector(nn.Module):
    """A coarse point for each s × s region of patches, which then attends to the region's patches, at several depths.

    CircleRadon/TokenPacker at c38f140, restated from it without its lines. The point is the last of the features scaled
    down by bilinear interpolation, which in the middle of a region is the mean of its middle patches; keys and values
    are perceptrons over the features of all depths. s comes of `image_seq_length` = (side / s)²: 144, 64 or 36 of 24².

    Raises OptionError for an `image_seq_length` that no s makes, and for features of one depth alone.
    """

    def __init__(self, config: LlavaConfig):
        super().__init__()
        vision, text = cast(Any, config.vision_config), cast(Any, config.text_config)
        layers = config.vision_feature_layer
        side, points = vision.image_size // vision.patch_size, isqrt(config.image_seq_length)
        if not points or points**2 != config.image_seq_length or side % points:
            raise OptionError(
                f"image_seq_length {config.image_seq_length}: regions of {side} × {side} patches make the square of a "
                f"divisor of {side}"
            )
        if isinstance(layers, int):
            raise OptionError(f"vision_feature_layer {layers}: name the layers whose features are packed, as a list")
        width, hidden = vision.hidden_size, text.hidden_size
        self.side, self.points = side, points
        self.query = nn.Sequential(nn.Linear(width, width, bias=False), nn.LayerNorm(width, eps=1e-6))
        self.key, self.value = (
            nn.Sequential(
                nn.Linear(len(layers) * width, width), nn.GELU(), nn.Linear(width, width), nn.LayerNorm(width, eps=1e-6)
            )
            for _ in range(2)
        )
        self.attention = nn.MultiheadAttention(width, max(1, width // _HEAD), batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden))

    def forward(self, features: Tensor) -> Tensor:
        """[C, side², depths · E] → [C, points², D]: the depths side by side, that of the query last."""
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
    """LLaVA-1.5 with that projector. config.vision_feature_layer: the depths, the one of the query last."""

    def __init__(self, config: LlavaConfig):
        super().__init__(config)
        cast(Any, self.model).multi_modal_projector = TokenPackerProjector(config)
