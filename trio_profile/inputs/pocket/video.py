"""`pocket-video`: the weights of `pocket` in LLaVA-OneVision's form, which reads clips.

Tower and projector see each frame as `pocket` sees a picture. The means of 2 × 2 of its tokens enter the decoder, 144 a
frame. Nothing was trained on clips.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from transformers import (
    AutoProcessor,
    LlavaConfig,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaProcessor,
    PreTrainedModel,
)

from trio_profile.inputs.pocket.clips import FRAMES
from trio_profile.inputs.trained import TRAINED

VISUAL_TOKENS = FRAMES * 144 + 1
"""Those of the frames, and the newline behind the last one."""
POSITIONS = 2048
"""The decoder was trained on 1,024 positions. It answers beyond them, because its rotary base is 10⁸."""
_UNUSED = -1
"""The id of a picture, which no token has. The placeholder of `pocket` stands for a clip."""


def config() -> LlavaOnevisionConfig:
    """The configuration: that of `pocket`, with videos."""
    pocket = cast(Any, LlavaConfig.from_pretrained(TRAINED["pocket"]))
    pocket.text_config.max_position_embeddings = POSITIONS
    return LlavaOnevisionConfig(
        vision_config=pocket.vision_config,
        text_config=pocket.text_config,
        image_token_index=_UNUSED,
        video_token_index=pocket.image_token_index,
        projector_hidden_act=pocket.projector_hidden_act,
        vision_feature_select_strategy=pocket.vision_feature_select_strategy,
        vision_feature_layer=pocket.vision_feature_layer,
        tie_word_embeddings=False,
    )


def from_pocket(pocket: PreTrainedModel) -> LlavaOnevisionForConditionalGeneration:
    """`pocket-video`, with the weights of `pocket`. Its newline is zero."""
    model = LlavaOnevisionForConditionalGeneration._from_config(
        config(), dtype=pocket.dtype, attn_implementation=pocket.config._attn_implementation
    )
    newline = torch.zeros(pocket.config.get_text_config().hidden_size)
    model.load_state_dict({**pocket.state_dict(), "model.image_newline": newline})
    model.generation_config = pocket.generation_config
    return model.eval()


def processor() -> "ClipProcessor":
    """The processor of `pocket`, whose template writes the placeholder for a video."""
    pictures = cast(LlavaProcessor, AutoProcessor.from_pretrained(TRAINED["pocket"]))
    pictures.chat_template = str(pictures.chat_template).replace("'image'", "'video'")
    return ClipProcessor(pictures)


@dataclass(frozen=True)
class ClipProcessor:
    """Prepares clips and prompts as `pocket` prepares pictures and prompts."""

    pictures: LlavaProcessor

    @property
    def video_token(self) -> str:
        """The text that marks a clip in a prompt."""
        return self.pictures.image_token

    def __getattr__(self, name: str) -> Any:
        """Everything else is that of `pocket`: its tokenizer, its template."""
        if name == "pictures":  # a copy asks for it before it is there
            raise AttributeError(name)
        return getattr(self.pictures, name)

    def __call__(
        self, text: Sequence[str], return_tensors: str, videos: Sequence[Any] = (), images: Any = None, **options: Any
    ) -> dict[str, Tensor]:
        """Input ids, attention mask and `pixel_values_videos`, [clips, FRAMES, 3, side, side].

        videos: for each prompt a clip, a list of FRAMES pictures.
        images: refused.
        options: those of the tokenizer.

        Raises ValueError for pictures, for clips of another length, and unless each prompt has a clip.
        """
        if images:
            raise ValueError("pocket-video takes no pictures, only clips; give --video")
        if other := [len(clip) for clip in videos if len(clip) != FRAMES]:
            raise ValueError(f"pocket-video takes clips of {FRAMES} frames, not {other[0]}; give --frames {FRAMES}")
        if len(videos) != len(text):
            raise ValueError(f"prompts: {len(text)}, clips: {len(videos)}; give each prompt one clip")
        mark = self.pictures.image_token
        prompts = [prompt.replace(mark, mark * VISUAL_TOKENS) for prompt in text]
        for name in ("do_sample_frames", "video_metadata"):  # all are taken, and times have no effect
            options.pop(name, None)
        encoded = self.pictures.tokenizer(prompts, return_tensors=return_tensors, padding=True, **options)
        pixels = [
            self.pictures.image_processor(frames, return_tensors=return_tensors)["pixel_values"] for frames in videos
        ]
        return {**encoded, "pixel_values_videos": torch.stack(pixels)}
