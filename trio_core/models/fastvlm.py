"""FastVLM: a convolutional tower that makes few tokens, and a Qwen2 decoder."""

from typing import Any, ClassVar

from trio_core.models import toy
from trio_core.models.adapter import Adapter


class FastVlm(Adapter):
    """FastVLM. All defaults fit.

    The published tower, FastViTHD, needs the package timm. In the toy ConvNeXt stands in for it, because its output has
    the same axes. The projector and the decoder are FastVLM's own.
    """

    family: ClassVar[str] = "FastVLM"
    classes: ClassVar[tuple[str, ...]] = ("FastVlmForConditionalGeneration",)
    toy_image_size: ClassVar[int] = 32
    toy_vision: ClassVar[dict[str, Any]] = {
        "model_type": "convnext",
        "hidden_sizes": [16, 32],
        "depths": [1, 1],
        "num_stages": 2,
        "patch_size": 4,
        "hidden_size": 32,  # the projector reads it
    }
    toy_text: ClassVar[dict[str, Any]] = {**toy.TEXT, "model_type": "qwen2"}
