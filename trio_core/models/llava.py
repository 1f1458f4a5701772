"""The LLaVA line, for pictures and videos: a tower, a projector, and an ordinary decoder.

LLaVA-NeXT's span holds the base crop, the un-padded tiles and a newline embedding for each tile row; OneVision's
likewise, and its videos end with one newline. All of them stand behind placeholders, and all are visual tokens here.
"""

from dataclasses import replace
from typing import Any, ClassVar, cast

from torch import nn
from transformers import PreTrainedConfig

from trio_core.errors import UnsupportedModel
from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.encoder import ClipTower, PackedTower, Tower
from trio_core.rules.cost import LayerShape


class Clip(Adapter):
    """A family whose tower is CLIP's, with a CLS token, unless a model has another; its projector works by patches."""

    @property
    def has_clip(self) -> bool:
        """Whether the tower is CLIP's."""
        tower, kind = self.model.get_submodule("model.vision_tower"), self.model.config.vision_config.model_type
        return "clip" in str(kind) and hasattr(tower, "encoder")

    def tower(self) -> Tower:
        """The encoder layer that the projector reads. Raises UnsupportedModel where there is no such one layer."""
        if not self.has_clip:
            return super().tower()
        config, tower = self.model.config, self.model.get_submodule("model.vision_tower")
        layer, encoder = config.vision_feature_layer, cast(Any, tower).encoder
        # hidden_states[0] is the embedding, so that entry i is what layer i − 1 put out.
        if not isinstance(layer, int) or layer == 0 or config.vision_feature_select_strategy != "default":
            raise UnsupportedModel(
                f"{self.family} with vision_feature_layer {layer} and vision_feature_select_strategy "
                f"{config.vision_feature_select_strategy!r}: methods that look into the tower need the patches of one "
                "layer, 'default'"
            )
        projector = self.model.get_submodule("model.multi_modal_projector")
        return self.tower_of(encoder.layers[layer - 1 if layer > 0 else layer], encoder.layers[-1], projector)

    def tower_of(self, layer: nn.Module, last: nn.Module, project: nn.Module) -> ClipTower:
        """All patches stay, in order."""
        return ClipTower(layer, last, project)

    @property
    def layer_shape(self) -> LayerShape:
        """With the tower's widths."""
        if not self.has_clip:
            return super().layer_shape
        vision = self.model.config.vision_config
        return replace(
            super().layer_shape,
            vision_hidden=vision.hidden_size,
            vision_heads=vision.num_attention_heads,
            patches=(vision.image_size // vision.patch_size) ** 2,
        )


class Llava(Clip):
    """LLaVA-1.5: 576 visual tokens of CLIP ViT-L/14 at 336 pixels, a Llama decoder."""

    family: ClassVar[str] = "LLaVA-1.5"
    classes: ClassVar[tuple[str, ...]] = ("LlavaForConditionalGeneration",)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """As many keys as queries."""
        from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig

        text = LlamaConfig(**{**toy.TEXT, "num_key_value_heads": 4})
        return LlavaConfig(vision_config=CLIPVisionConfig(**toy.VISION), text_config=text, image_token_index=toy.IMAGE)


class LlavaNext(Clip):
    """LLaVA-NeXT (1.6): a base crop and up to four tiles of the picture."""

    family: ClassVar[str] = "LLaVA-NeXT"
    classes: ClassVar[tuple[str, ...]] = ("LlavaNextForConditionalGeneration",)

    def tower_of(self, layer: nn.Module, last: nn.Module, project: nn.Module) -> ClipTower:
        """Crops are packed into one picture."""
        return PackedTower(layer, last, project, self.model.get_submodule("model"))

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Grouped keys; tiles of 16 pixels."""
        from transformers import CLIPVisionConfig, LlamaConfig, LlavaNextConfig

        return LlavaNextConfig(
            vision_config=CLIPVisionConfig(**toy.VISION),
            text_config=LlamaConfig(**toy.TEXT),
            image_token_index=toy.IMAGE,
            image_grid_pinpoints=toy.PINPOINTS,
        )


class LlavaNextVideo(Adapter):
    """LLaVA-NeXT-Video: pictures as in LLaVA-NeXT, videos as pooled frames."""

    family: ClassVar[str] = "LLaVA-NeXT-Video"
    classes: ClassVar[tuple[str, ...]] = ("LlavaNextVideoForConditionalGeneration",)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Four tokens a frame."""
        from transformers import CLIPVisionConfig, LlamaConfig, LlavaNextVideoConfig

        return LlavaNextVideoConfig(
            vision_config=CLIPVisionConfig(**toy.VISION),
            text_config=LlamaConfig(**toy.TEXT),
            image_grid_pinpoints=toy.PINPOINTS,
            **toy.PLACEHOLDERS,
        )


class LlavaOnevision(Adapter):
    """LLaVA-OneVision: tiles of SigLIP for pictures, pooled frames for videos, a Qwen2 decoder with biases."""

    family: ClassVar[str] = "LLaVA-OneVision"
    classes: ClassVar[tuple[str, ...]] = ("LlavaOnevisionForConditionalGeneration",)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Four tokens a frame, and one for the video's end."""
        from transformers import LlavaOnevisionConfig, Qwen2Config, SiglipVisionConfig

        return LlavaOnevisionConfig(
            vision_config=SiglipVisionConfig(**toy.VISION, vision_use_head=False),  # pyright: ignore[reportCallIssue]
            text_config=Qwen2Config(**toy.TEXT),
            image_grid_pinpoints=toy.PINPOINTS,
            **toy.PLACEHOLDERS,
        )


class VideoLlava(Adapter):
    """Video-LLaVA: a tower for pictures and one for videos, whose eight frames keep their class tokens."""

    family: ClassVar[str] = "Video-LLaVA"
    classes: ClassVar[tuple[str, ...]] = ("VideoLlavaForConditionalGeneration",)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """17 tokens a frame."""
        from transformers import CLIPVisionConfig, LlamaConfig, VideoLlavaConfig

        return VideoLlavaConfig(
            vision_config=CLIPVisionConfig(**toy.VISION), text_config=LlamaConfig(**toy.TEXT), **toy.PLACEHOLDERS
        )
