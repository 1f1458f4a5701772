"""Qwen2.5-VL: grouped keys, and rotary positions with three axes (time, height, width)."""

from typing import ClassVar

from trio_core.models.adapter import Adapter


class Qwen25VL(Adapter):
    """Qwen2.5-VL. The kept tokens retain their three-axis positions; `rope_deltas` stay as the model computed them."""

    family: ClassVar[str] = "Qwen2.5-VL"
    classes: ClassVar[tuple[str, ...]] = ("Qwen2_5_VLForConditionalGeneration",)
    multi_axis_positions: ClassVar[bool] = True
