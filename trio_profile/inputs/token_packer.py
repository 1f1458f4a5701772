"""TokenPacker (arXiv 2407.02392): LLaVA with a projector that packs each region of patches into one visual token.

It selects no tokens. Its projector is trained, so it is a model of its own. Its work and time do not depend on weights.
"""

from math import isqrt
from typing import Any, cast

from torch import Tensor, nn
from transformers import LlavaConfig, LlavaForConditionalGeneration

from trio_core.errors import OptionError

_HEAD = 128
"""Width of an attention head."""


class TokenPackerProjector(nn.Module):
    """One query for each s × s region of patches. It attends to the region's patches, with features of several depths.

    The query comes from the last depth by bilinear downscaling, which gives the mean of the region's middle patches.
    Keys and values are perceptrons over the features of all depths. `image_seq_length` = (side / s)² determines s; of
    24² patches it leaves 144, 64 or 36. Rewritten after CircleRadon/TokenPacker at c38f140.

    Raises OptionError if no s gives `image_seq_length`, or if only one depth is named.
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
    """LLaVA-1.5 with this projector. `config.vision_feature_layer` lists the depths, the query's last."""

    def __init__(self, config: LlavaConfig):
        super().__init__(config)
        cast(Any, self.model).multi_modal_projector = TokenPackerProjector(config)
