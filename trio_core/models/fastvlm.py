"""FastVLM: a convolutional tower that makes few tokens, and a Qwen2 decoder."""

from typing import ClassVar

from transformers import PreTrainedConfig

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class FastVlm(Adapter):
    """FastVLM. All defaults fit."""

    family: ClassVar[str] = "FastVLM"
    classes: ClassVar[tuple[str, ...]] = ("FastVlmForConditionalGeneration",)
    toy_image_size: ClassVar[int] = 32

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """A ConvNeXt tower that makes 16 tokens.

        The published tower, FastViTHD, needs the package timm. ConvNeXt stands in for it, because its output has the
        same axes. The projector and the decoder are FastVLM's own.
        """
        from transformers import ConvNextConfig, FastVlmConfig, Qwen2Config

        tower = ConvNextConfig(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, patch_size=4)
        tower.hidden_size = 32  # the projector reads it
        return FastVlmConfig(vision_config=tower, text_config=Qwen2Config(**toy.TEXT), image_token_index=toy.IMAGE)
