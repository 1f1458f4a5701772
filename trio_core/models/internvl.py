"""InternVL: a picture in tiles, 2 × 2 patches in a token, and a Qwen2 decoder."""

from typing import Any, ClassVar

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class InternVL(Adapter):
    """InternVL 2.5, 3 and 3.5, as transformers has them (`…-hf` checkpoints)."""

    family: ClassVar[str] = "InternVL"
    classes: ClassVar[tuple[str, ...]] = ("InternVLForConditionalGeneration",)
    sizing: ClassVar[str] = "cuts a picture into tiles of one size (min_patches and max_patches of its processor)"
    # Tiles of 32 × 32 pixels and patches of 4 × 4: 16 tokens a tile.
    toy_image_size: ClassVar[int] = 32
    toy_vision: ClassVar[dict[str, Any]] = {**toy.VISION, "image_size": [32, 32], "patch_size": [4, 4]}
    toy_text: ClassVar[dict[str, Any]] = {**toy.TEXT, "model_type": "qwen2"}
    toy_options: ClassVar[dict[str, Any]] = {"image_token_id": toy.IMAGE, "tie_word_embeddings": False}
