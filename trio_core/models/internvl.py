"""InternVL: a picture in tiles, 2 × 2 patches in a token, and a Qwen2 decoder."""

from typing import ClassVar

from transformers import PreTrainedConfig

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class InternVL(Adapter):
    """InternVL 2.5, 3 and 3.5, as transformers has them (`…-hf` checkpoints)."""

    family: ClassVar[str] = "InternVL"
    classes: ClassVar[tuple[str, ...]] = ("InternVLForConditionalGeneration",)
    toy_image_size: ClassVar[int] = 32
    sizing: ClassVar[str] = "cuts a picture into tiles of one size (min_patches and max_patches of its processor)"

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Tiles of 32 × 32 pixels and patches of 4 × 4: 16 tokens a tile."""
        from transformers import InternVLConfig, Qwen2Config

        return InternVLConfig(
            vision_config={**toy.VISION, "image_size": [32, 32], "patch_size": [4, 4]},
            text_config=Qwen2Config(**toy.TEXT),
            image_token_id=toy.IMAGE,
            tie_word_embeddings=False,
        )
