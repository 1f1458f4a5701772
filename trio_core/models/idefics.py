"""Idefics3 and SmolVLM: the picture's tiles shuffled into few tokens, and a decoder that is called `text_model`."""

from typing import ClassVar

from transformers import PreTrainedConfig

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class Idefics3(Adapter):
    """Idefics3: a Llama decoder."""

    family: ClassVar[str] = "Idefics3"
    classes: ClassVar[tuple[str, ...]] = ("Idefics3ForConditionalGeneration",)
    decoder_path: ClassVar[str] = "model.text_model"

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """16 tokens a tile: tiles of 32 pixels, patches of 4 shuffled two by two."""
        from transformers import Idefics3Config, LlamaConfig

        return Idefics3Config(
            vision_config={**toy.VISION, "image_size": 32},
            text_config=LlamaConfig(**toy.TEXT),
            image_token_id=toy.IMAGE,
            scale_factor=2,
        )


class SmolVlm(Idefics3):
    """SmolVLM: Idefics3 in small, with classes of its own."""

    family: ClassVar[str] = "SmolVLM"
    classes: ClassVar[tuple[str, ...]] = ("SmolVLMForConditionalGeneration",)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """As Idefics3's."""
        from transformers import LlamaConfig, SmolVLMConfig

        return SmolVLMConfig(
            vision_config={**toy.VISION, "image_size": 32},
            text_config=LlamaConfig(**toy.TEXT),
            image_token_id=toy.IMAGE,
            scale_factor=2,
        )
