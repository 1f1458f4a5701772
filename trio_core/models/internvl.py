"""InternVL: tiles of InternViT shuffled two by two, and a Qwen2 decoder."""

from typing import ClassVar

from transformers import PreTrainedConfig

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class InternVL(Adapter):
    """InternVL 2.5, 3 and 3.5 in transformers' own format."""

    family: ClassVar[str] = "InternVL"
    classes: ClassVar[tuple[str, ...]] = ("InternVLForConditionalGeneration",)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """16 tokens a tile: tiles of 32 pixels, patches of 4."""
        from transformers import InternVLConfig, Qwen2Config

        return InternVLConfig(
            vision_config={**toy.VISION, "image_size": [32, 32], "patch_size": [4, 4]},
            text_config=Qwen2Config(**toy.TEXT),
            image_token_id=toy.IMAGE,
            tie_word_embeddings=False,
        )
