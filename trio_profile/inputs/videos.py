"""Read videos without torchvision: frame by frame as pictures, or not at all.

Some families' video processors prepare each frame by itself. There a frame goes through transformers' PIL image
processor. The others join frames, or choose their size from all of them. There a video is refused.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers import AutoConfig
from transformers.image_processing_utils import BaseImageProcessor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from trio_profile.inputs.catalogue import NO_CODE
from trio_profile.optional import torchvision_fault

FRAME_BY_FRAME = {
    "llava_next_video": "LlavaNextVideoVideoProcessor",
    "llava_onevision": "LlavaOnevisionVideoProcessor",
    "video_llava": "VideoLlavaVideoProcessor",
}
"""Video processors that resize, cut and normalise each frame by itself, by the type of their model."""
_OF_A_FRAME = (
    *("do_convert_rgb", "do_resize", "size", "default_to_square", "resample", "do_center_crop", "crop_size"),
    *("do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std"),
)
"""The settings of such a processor."""


class NoVideos(BaseImageProcessor):
    """Stands where torchvision would read videos.

    num_frames, fps: how many frames to take from a video. SmolVLM's chat template asks for them.
    """

    model_input_names: list[str] = []  # noqa: RUF012 - as transformers declares it
    num_frames: int | None = None
    fps: float | None = None

    def __call__(self, *_: object, **__: object) -> Any:
        """Raises ValueError."""
        fault = torchvision_fault()
        why = f"cannot be imported here ({fault})" if fault else "is not installed"
        raise ValueError(
            f"a video needs torchvision, which {why}: give pictures, or install the build of torchvision that belongs "
            "to this torch"
        )

    def to_dict(self) -> dict[str, Any]:
        """Nothing to save."""
        return {}


class FrameByFrame(CLIPImageProcessorPil):
    """Stands where torchvision would read videos: each frame is prepared as a picture.

    Most of its pixels differ from torchvision's by at most one of 256 levels, because PIL rounds in another way. Where
    a frame is made wider and shorter at once, PIL also resizes in another order. In noise the pixels then differ by a
    third of a level on average and by 16 at most.
    """

    def __call__(self, videos: Sequence[Sequence[Image.Image]], **_: object) -> dict[str, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """`pixel_values_videos`, [videos, frames, 3, height, width]. Raises ValueError unless all have equal numbers.

        videos: the frames of each one. All are taken.
        """
        if len(counts := {len(video) for video in videos}) > 1:
            raise ValueError(f"videos of {min(counts)} and {max(counts)} frames in one batch; give --frames")
        pixels = [super(FrameByFrame, self).__call__(list(video), return_tensors="pt") for video in videos]
        return {"pixel_values_videos": torch.stack([frames["pixel_values"] for frames in pixels])}


def video_reader(checkpoint: str) -> BaseImageProcessor:
    """The reader of videos without torchvision, in place of a checkpoint's own processor for them."""
    kind = AutoConfig.from_pretrained(checkpoint, **NO_CODE).model_type
    if kind not in FRAME_BY_FRAME:
        return NoVideos()
    own: Any = getattr(import_module(f"transformers.models.{kind}.video_processing_{kind}"), FRAME_BY_FRAME[kind])
    settings, _ = own.get_video_processor_dict(checkpoint)
    return FrameByFrame(**{name: settings.get(name, getattr(own, name, None)) for name in _OF_A_FRAME})
