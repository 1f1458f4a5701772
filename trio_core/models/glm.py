"""GLM's vision-language models: Qwen's kind of pictures and positions, and a decoder with norms behind each part.

The rotary embedding turns a part of each head, neighbours against each other.
"""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.qwen import TOWER, picture
from trio_core.rules.attention import AttentionLayer


class Glm46V(Adapter):
    """GLM-4.1V and GLM-4.6V with a dense decoder. A video is shown as a row of pictures."""

    family: ClassVar[str] = "GLM-4.6V"
    classes: ClassVar[tuple[str, ...]] = ("Glm46VForConditionalGeneration", "Glm4vForConditionalGeneration")
    decoders: ClassVar[tuple[str, ...]] = ("glm4v_text",)
    multi_axis_positions: ClassVar[bool] = True
    norms = ("post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm")
    sizing: ClassVar[str] = "keeps a picture's shape, between the sizes that its processor names"
    toy_vision: ClassVar[dict[str, Any]] = {**TOWER, "depth": 2, "image_size": 16}
    # Heads are 16 wide, and 8 of it are turned.
    toy_text: ClassVar[dict[str, Any]] = {
        **toy.TEXT,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "rope_parameters": {**toy.MROPE, "partial_rotary_factor": 0.5},
    }
    toy_options: ClassVar[dict[str, Any]] = {"image_token_id": toy.IMAGE, "video_token_id": toy.VIDEO}
    toy_types_name: ClassVar[str] = "mm_token_type_ids"

    @property
    def video_ids(self) -> tuple[int, ...]:
        """None: the frames of a video have the placeholder of pictures."""
        return ()

    def attention_layer(self, layer: nn.Module) -> AttentionLayer:
        """A decoder layer taken apart into callables. The errors are Adapter's."""
        parts = super().attention_layer(layer)
        query, key = parts.query, parts.key
        return replace(
            parts, query=lambda rows: self.in_halves(query(rows)), key=lambda rows: self.in_halves(key(rows))
        )

    def in_halves(self, turned: Tensor) -> Tensor:
        """The order of Llama: of the part that is turned, first the even places and then the odd ones."""
        config = self.model.config.get_text_config()
        share = config.rope_parameters.get("partial_rotary_factor", 1.0)
        part, rest = turned.tensor_split([int(config.hidden_size // config.num_attention_heads * share)], dim=-1)
        return torch.cat([part[..., 0::2], part[..., 1::2], rest], dim=-1)

    @classmethod
    def toy_picture(cls, random: toy.Random, size: toy.Size) -> toy.ToyPicture:
        """One picture of 4 × 6 patches, or one of 6 × 8 and another of 4 × 6."""
        small = picture(random, "small")
        if size == "small":
            return small
        large, word = picture(random, "large"), random.words(1)
        inputs = {name: torch.cat([large.inputs[name], value]) for name, value in small.inputs.items()}
        return toy.ToyPicture(inputs, large.ids + word + small.ids)
