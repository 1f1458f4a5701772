"""FastVLM: few tokens of a convolutional tower, and a Qwen2 decoder."""

from typing import ClassVar

from transformers import PreTrainedConfig

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class FastVlm(Adapter):
    """FastVLM."""

    family: ClassVar[str] = "FastVLM"
    classes: ClassVar[tuple[str, ...]] = ("FastVlmForConditionalGeneration",)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """16 tokens of a ConvNeXt.

        The published tower, FastViTHD, is timm's. ConvNeXt stands in for it, since its output has the same axes, and a
        toy must not need timm. Projector, merging and decoder are FastVLM's own.
        """
        from transformers import ConvNextConfig, FastVlmConfig, Qwen2Config

        tower = ConvNextConfig(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, patch_size=4)
        tower.hidden_size = 32  # what the projector asks for
        return FastVlmConfig(vision_config=tower, text_config=Qwen2Config(**toy.TEXT), image_token_index=toy.IMAGE)
