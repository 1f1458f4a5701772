"""Molmo 2: crops whose patches an adapter pools, and a decoder like Qwen3's in which pictures see themselves whole."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trio_core.errors import UnsupportedModel
from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.grid_tower import Grid
from trio_core.rules.attention import AttentionLayer
from trio_core.tensors import HiddenBSD

_HEADS = {"hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
"""Sizes of the toy's tower, and of the attention that pools its patches."""
_SIDE = 6
"""Patches along the side of a toy's crop. 2 × 2 of them become one token."""


class Molmo2(Adapter):
    """Molmo 2. A frame of a video has the placeholder of pictures."""

    family: ClassVar[str] = "Molmo 2"
    classes: ClassVar[tuple[str, ...]] = ("Molmo2ForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("molmo2_text",)
    sizing: ClassVar[str] = "cuts a picture into crops (max_crops of its processor), beside a small crop of the whole"
    toy_vision: ClassVar[dict[str, Any]] = {**toy.VISION, **_HEADS, "image_size": [4 * _SIDE, 4 * _SIDE]}
    toy_text: ClassVar[dict[str, Any]] = {**toy.TEXT, "head_dim": 8, "additional_vocab_size": 0}
    toy_options: ClassVar[dict[str, Any]] = {
        "image_patch_id": toy.IMAGE,
        "adapter_config": {
            **_HEADS,
            "intermediate_size": 48,
            "text_hidden_size": toy.TEXT["hidden_size"],
            "vision_feature_layer": [1, 0],
        },
    }
    toy_is_framed: ClassVar[bool] = True

    def attention_layer(self, layer: nn.Module) -> AttentionLayer:
        """A decoder layer taken apart. Raises UnsupportedModel also for Molmo 2's layers after Olmo's."""
        config = self.model.config.get_text_config()
        if config.norm_after or config.qk_norm_type != "qwen3":
            raise UnsupportedModel(
                f"{self.family} with norms behind attention (norm_after, or qk_norm_type {config.qk_norm_type!r}) "
                "cannot be taken apart; use saliency 'autograd'"
            )
        return super().attention_layer(layer)

    def grids(self, inputs: dict[str, Any], tokens: Sequence[int]) -> list[Grid]:  # noqa: ARG002
        """Two grids of a picture: the whole one, and its crops side by side. The arguments are Adapter's."""
        if (videos := inputs.get("video_grids")) is not None:
            return [Grid(rows, columns) for frames, rows, columns in videos.tolist() for _ in range(frames)]
        sides = inputs["image_grids"].view(-1, 2).tolist()
        return [Grid(rows, columns) for rows, columns in sides if rows * columns]

    def rotary(self, hidden: HiddenBSD, position_ids: Tensor, index: int = 0) -> tuple[Tensor, Tensor]:
        """Cosines and sines, scaled in the layers that the configuration names. The arguments are Adapter's."""
        scaled = index in self.model.config.get_text_config().rope_scaling_layers
        return self.decoder.get_submodule("rotary_emb" if scaled else "rotary_emb_unscaled")(hidden, position_ids)

    @classmethod
    def toy_picture(cls, random: toy.Random, size: toy.Size) -> toy.ToyPicture:
        """A picture of 9 tokens, or one of 9 and 18 more, of two crops side by side."""
        crops = 3 if size == "large" else 1
        patches = torch.arange(crops * _SIDE**2).view(crops, _SIDE, _SIDE)
        views = [patches[:1].flatten(0, 1), *([torch.cat([*patches[1:]], dim=1)] if crops > 1 else [])]
        pools = [view.unfold(0, 2, 2).unfold(1, 2, 2).flatten(2) for view in views]
        grids = [side for pool in pools for side in pool.shape[:2]] + [0, 0] * (2 - len(pools))
        pooling = torch.cat([pool.flatten(0, 1) for pool in pools])
        inputs = {
            "pixel_values": random.pixels(crops, _SIDE**2, 3 * 4 * 4),
            "image_token_pooling": pooling,
            "image_grids": torch.tensor([grids]),
            "image_num_crops": torch.tensor([crops]),
        }
        return toy.ToyPicture(inputs, [toy.IMAGE] * len(pooling))

    @classmethod
    def toy_token_types(cls, ids: Tensor) -> dict[str, Tensor]:
        """1 for the tokens of pictures, which all see each other; 0 for words."""
        return {"mm_token_type_ids": torch.isin(ids, torch.tensor([toy.IMAGE, toy.VISION_START, toy.VISION_END])).int()}
