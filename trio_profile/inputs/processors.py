"""Load a checkpoint's processor, with or without torchvision, and set how many pixels its pictures have.

The processors of some families need torchvision for videos alone, and transformers then refuses the whole processor
[transformers 5.23, `Qwen2VLVideoProcessor requires the Torchvision library`]. Here such a processor loads: its pictures
go through transformers' PIL image processor. Some families' video processors prepare each frame by itself; there a
frame goes the same way. The others join frames, or choose their size from all of them; there a video is refused. With a
torchvision that works, nothing changes.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers import AutoConfig, AutoProcessor
from transformers.image_processing_utils import BaseImageProcessor
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.processing_utils import MODALITY_TO_AUTOPROCESSOR_MAPPING, ProcessorMixin
from transformers.utils.import_utils import is_torchvision_available

from trio_core.models import families
from trio_core.models.adapter import Adapter, adapters
from trio_profile.errors import StudyError
from trio_profile.inputs.catalogue import NO_CODE
from trio_profile.optional import torchvision_fault

VIDEO = "video_processor"
"""The name of the part that reads videos, in every processor of transformers."""
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


def load_processor(checkpoint: str) -> Any:
    """The processor of a checkpoint: a directory, or a repository of the hub.

    Raises OSError, ValueError or ImportError if a file is missing or cannot be read.
    """
    if is_torchvision_available():
        return AutoProcessor.from_pretrained(checkpoint, **NO_CODE)
    cls: Any = PROCESSOR_MAPPING.get(type(AutoConfig.from_pretrained(checkpoint, **NO_CODE)), None)
    if cls is None or VIDEO not in cls.get_attributes():
        return AutoProcessor.from_pretrained(checkpoint, **NO_CODE)
    return without_videos(cls).from_pretrained(checkpoint, **NO_CODE)


def load_with_pixels(checkpoint: str, pixels: tuple[int, int]) -> Any:
    """The processor of a checkpoint that makes pictures with a number of pixels between a least and a most one.

    A picture keeps its shape, and its sides become multiples of the side of a visual token. So a picture of a narrow
    range may have fewer pixels than the least number.
    Raises StudyError if the checkpoint's family has another rule, or if the most is less than one visual token has.
    Raises as `load_processor` does.
    """
    least, most = pixels
    option = f"pixels = {least},{most}"
    family = _family_of(checkpoint)
    if family is None or not family.takes_pixels:
        takers = ", ".join(sorted(name for name, cls in families.items() if cls.takes_pixels))
        fault = f"{family.family} {family.sizing}" if family else f"the family of model {checkpoint!r} is not known"
        raise StudyError(f"{option}: {fault}; leave pixels out, or take a model of {takers}")
    processor = load_processor(checkpoint)
    pictures = processor.image_processor
    side = pictures.patch_size * pictures.merge_size
    if most < side**2:
        raise StudyError(
            f"{option}: a visual token of this model has {side} × {side} pixels; the most must be at least {side**2}"
        )
    pictures.size = type(pictures.size)(**{**dict(pictures.size), "shortest_edge": least, "longest_edge": most})
    return processor


def _family_of(checkpoint: str) -> type[Adapter] | None:
    """The adapter of a checkpoint's model class. It is read from the configuration, without the weights."""
    config = AutoConfig.from_pretrained(checkpoint, **NO_CODE)
    cls: Any = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING.get(type(config), None)
    return None if cls is None else adapters.get(cls.__name__)


# --- without torchvision ----------------------------------------------------------------------------------------------


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


class _WithoutVideos(ProcessorMixin):
    """The changes in a processor class that has no video processor to load. It comes before that class."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
        """The class of an argument. transformers finds no class of video processors without torchvision."""
        if isinstance(argument, NoVideos | FrameByFrame):
            return type(argument)
        return super().check_argument_for_proper_class(argument_name, argument)

    @classmethod
    def _get_arguments_from_pretrained(cls, pretrained_model_name_or_path: Any, *_: Any, **options: Any) -> list[Any]:
        return [
            video_reader(pretrained_model_name_or_path)
            if name == VIDEO
            else MODALITY_TO_AUTOPROCESSOR_MAPPING[name].from_pretrained(pretrained_model_name_or_path, **options)
            for name in cls.get_attributes()
        ]


def without_videos(cls: type[ProcessorMixin]) -> type[ProcessorMixin]:
    """A processor class of the same name whose video processor refuses every video."""
    return type(cls.__name__, (_WithoutVideos, cls), {"__module__": cls.__module__})
