"""Qwen's vision-language models: grouped keys, and rotary positions with three axes (time, height, width).

The kept tokens retain their three-axis positions; `rope_deltas` stay as the model computed them.
"""

from typing import ClassVar

from transformers import PreTrainedConfig

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class Qwen2VL(Adapter):
    """Qwen2-VL: every layer of its tower sees the whole picture."""

    family: ClassVar[str] = "Qwen2-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen2VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen2_vl_text",)
    multi_axis_positions: ClassVar[bool] = True

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Patches of 4 pixels, merged two by two."""
        from transformers import Qwen2VLConfig

        vision = {"depth": 2, "embed_dim": 32, "hidden_size": toy.TEXT["hidden_size"], "num_heads": 2, "patch_size": 4}
        text = {**toy.TEXT, "rope_parameters": toy.MROPE}
        return Qwen2VLConfig(text_config=text, vision_config=vision, **toy.QWEN_IDS)


class Qwen25VL(Adapter):
    """Qwen2.5-VL: a tower with windows."""

    family: ClassVar[str] = "Qwen2.5-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen2_5_VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen2_5_vl_text",)
    multi_axis_positions: ClassVar[bool] = True

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Patches of 4 pixels, merged two by two; windows of 16."""
        from transformers import Qwen2_5_VLConfig

        vision = {
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 4,
            "out_hidden_size": toy.TEXT["hidden_size"],
            "window_size": 16,
            "fullatt_block_indexes": [1],
        }
        text = {**toy.TEXT, "rope_parameters": toy.MROPE}
        return Qwen2_5_VLConfig(text_config=text, vision_config=vision, **toy.QWEN_IDS)


class Qwen3VL(Adapter):
    """Qwen3-VL: heads are normed, the axes' frequencies interleave, and the picture enters the first layers again.

    That last thing is DeepStack, which every adapter knows (`take_additions`).
    """

    family: ClassVar[str] = "Qwen3-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen3VLForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("qwen3_vl_text",)
    multi_axis_positions: ClassVar[bool] = True

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Each of the tower's three layers has its features in DeepStack."""
        from transformers import Qwen3VLConfig

        vision = {
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 4,
            "out_hidden_size": toy.TEXT["hidden_size"],
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0, 1, 2],
        }
        text = {**toy.TEXT, "head_dim": 8, "rope_parameters": toy.MROPE}
        return Qwen3VLConfig(text_config=text, vision_config=vision, **toy.QWEN_IDS)
