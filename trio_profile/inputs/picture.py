"""The picture whose tokens a study keeps, and how its visual tokens lie on it.

A family is listed in `_LAYOUTS` once a test has shown the order of its tokens: tests/profile/inputs/test_picture.py.
"""

import io
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from trio_core.models.adapter import Adapter
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.workload import Workload, placed
from trio_profile.records.schema import Picture, TokenGrid

LONG_SIDE = 448
"""Pixels on the long side of the copy, at most."""
_QUALITY = 75
_LONGEST_PROMPT = 500
_SQUARE_TOWERS = ("clip_vision_model", "siglip_vision_model")

NOISE = "the input is random pixels, so there is nothing to see"
PRIVATE = "the study was measured with --no-picture"
UNPLACED = "it is not known where the tokens of this model lie on its picture"
UNKNOWN_PIXELS = "the processor does not say how it changes colours"


@dataclass(frozen=True)
class Layout:
    """How the visual tokens of the first sample lie on its picture.

    pixels: [P, 3, height, width], the part of the picture that the tokens cover, as the model gets it. P is 1, or for a
        clip its number of frames, with a grid for each.
    """

    grids: tuple[TokenGrid, ...]
    pixels: Tensor


def shown_inputs(workload: Workload) -> Inputs:
    """The inputs whose tokens a study keeps: its own, or those of its first question if its own picture is noise."""
    if workload.random_pixels and workload.questions:
        return placed(workload.inputs_of(0), workload.model)
    return workload.inputs


def picture_of(workload: Workload, *, keep: bool = True) -> Picture:
    """The record of the picture that a study shows, with a small copy.

    keep: False leaves out the copy and the prompt.
    Raises StudyError if the processor refuses the first question.
    """
    inputs = shown_inputs(workload)
    visual = count_visual(workload.adapter, inputs)
    layout = lay_out(workload.adapter, inputs)
    if layout is None:
        return Picture(visual_tokens=visual, reason=UNPLACED)
    if not keep:
        return Picture(visual_tokens=visual, grids=layout.grids, reason=PRIVATE)
    prompt = _prompt(workload, inputs)
    if workload.random_pixels and not workload.questions:
        return Picture(visual_tokens=visual, grids=layout.grids, reason=NOISE, prompt=prompt)
    images = [_image(pixels, getattr(workload.processor, "image_processor", None)) for pixels in layout.pixels]
    addresses = [encoded(image) for image in images if image is not None]
    if not addresses:
        return Picture(visual_tokens=visual, grids=layout.grids, reason=UNKNOWN_PIXELS, prompt=prompt)
    frames = tuple(addresses) if len(addresses) > 1 else ()
    return Picture(visual_tokens=visual, grids=layout.grids, image=addresses[0], frames=frames, prompt=prompt)


def count_visual(adapter: Adapter, inputs: Inputs) -> int:
    """The number of visual tokens of the first sample."""
    return int(adapter.visual_tokens(inputs["input_ids"][:1]).sum())


def lay_out(adapter: Adapter, inputs: Inputs) -> Layout | None:
    """How the visual tokens of the first sample lie on its picture. None if that is not known for the model.

    Each sample has one picture, or one clip.
    """
    of_clip = "pixel_values_videos" in inputs
    rule = (_CLIP_LAYOUTS if of_clip else _LAYOUTS).get(adapter.family)
    if rule is None or ("pixel_values" in inputs) == of_clip:
        return None
    layout = rule(adapter, inputs)
    placed_tokens = count_visual(adapter, inputs) - (adapter.video_extra if of_clip else 0)
    return layout if layout and sum(grid.tokens for grid in layout.grids) == placed_tokens else None


def encoded(image: Image.Image) -> str:
    """A picture as a `data:` address of a small copy."""
    small, file = image.copy(), io.BytesIO()
    small.thumbnail((LONG_SIDE, LONG_SIDE), Image.Resampling.LANCZOS)
    small.save(file, format="JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{b64encode(file.getvalue()).decode()}"


def _image(pixels: Tensor, processor: Any) -> Image.Image | None:
    """Pixels with the colours that they had before the image processor. None if it does not say what it does."""
    mean, std = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
    if mean is None or std is None or not getattr(processor, "do_rescale", True):
        return None
    colours = pixels.float().cpu()
    if getattr(processor, "do_normalize", True):
        colours = colours * torch.tensor(std)[:, None, None] + torch.tensor(mean)[:, None, None]
    levels = (colours.clamp(0, 1) * 255).round().permute(1, 2, 0).numpy().astype(np.uint8)
    return Image.fromarray(levels)


def _prompt(workload: Workload, inputs: Inputs) -> str:
    """The text that the first sample has, without its picture. Empty for a model without a tokenizer."""
    tokenizer = getattr(workload.processor, "tokenizer", None)
    if tokenizer is None or "input_ids" not in inputs:
        return ""
    ids = inputs["input_ids"][0]
    words = ids[~workload.adapter.visual_tokens(ids[None])[0]]
    text = " ".join(tokenizer.decode(words, skip_special_tokens=True).split())
    return text if len(text) <= _LONGEST_PROMPT else f"{text[: _LONGEST_PROMPT - 1]}…"


# --- the families ----------------------------------------------------------------------------------------------------


def _square(adapter: Adapter, inputs: Inputs) -> Layout | None:
    """One square picture whose tokens are a square in raster order: LLaVA-1.5 and its like."""
    pixels, tokens = inputs["pixel_values"], count_visual(adapter, inputs)
    kind = getattr(adapter.model.config.vision_config, "model_type", "")
    one_a_sample = pixels.ndim == 4 and len(pixels) == len(inputs["input_ids"])
    side = isqrt(tokens)
    if kind not in _SQUARE_TOWERS or not one_a_sample or side**2 != tokens or pixels.shape[-1] != pixels.shape[-2]:
        return None
    return Layout((TokenGrid(rows=side, columns=side),), pixels[:1])


def _tiled(adapter: Adapter, inputs: Inputs) -> Layout | None:
    """The whole picture, then its tiles without their padding, with a newline token after each row: LLaVA-NeXT.

    The model's own function packs the numbers of the patches, so that its order is this order.
    """
    from transformers.models.llava_next.modeling_llava_next import get_anyres_image_grid_shape

    model: Any = adapter.model.get_submodule("model")
    pixels, sizes = inputs["pixel_values"], inputs["image_sizes"]
    if pixels.ndim != 5 or len(pixels) != len(inputs["input_ids"]) or not hasattr(model, "pack_image_features"):
        return None
    vision = model.config.vision_config
    side, patch = vision.image_size // vision.patch_size, vision.patch_size
    down, across = get_anyres_image_grid_shape(sizes[0], model.config.image_grid_pinpoints, vision.image_size)
    crops, patches = 1 + down * across, side * side
    numbers = torch.arange(crops * patches, dtype=torch.float64).view(crops, patches, 1)
    packed, _ = model.pack_image_features(
        [numbers], sizes[:1], vision_feature_select_strategy="default", image_newline=torch.tensor([-1.0])
    )
    rest = packed[0].squeeze(-1).long()[patches:]
    rows = int((rest < 0).sum())
    places = rest.view(rows, -1)[:, :-1]
    crop_pixels = pixels[0, :crops, :, : side * patch, : side * patch]
    # [crops, 3, side, patch, side, patch] → one block for each patch, in raster order of its crop.
    blocks = crop_pixels.unflatten(-1, (side, patch)).unflatten(-3, (side, patch)).permute(0, 2, 4, 1, 3, 5)
    blocks = blocks.flatten(0, 2)[places.to(pixels.device)]
    picture = blocks.permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)
    whole = TokenGrid(name="whole picture", rows=side, columns=side)
    tiles = TokenGrid(name="tiles", rows=rows, columns=places.shape[1], first=patches, newline=True)
    return Layout((whole, tiles), picture[None])


def _merged(adapter: Adapter, inputs: Inputs) -> Layout | None:
    """A picture of any size, of which squares of patches are one token, in raster order of the squares: Qwen.

    The processor stores the patches square by square.
    """
    grids = inputs.get("image_grid_thw")
    if grids is None or len(grids) != len(inputs["input_ids"]):
        return None
    frames, height, width = grids[0].tolist()
    vision = adapter.model.config.vision_config
    side, patch = vision.spatial_merge_size, vision.patch_size
    if frames != 1:
        return None
    rows, columns = height // side, width // side
    stored = inputs["pixel_values"][: height * width].view(rows, columns, side, side, 3, -1, patch, patch)
    # A picture is stored as frames that are equal. [rows, columns, side, side, 3, patch, patch]
    picture = stored[:, :, :, :, :, 0].permute(4, 0, 2, 5, 1, 3, 6).reshape(3, height * patch, width * patch)
    return Layout((TokenGrid(rows=rows, columns=columns),), picture[None])


def _frames(adapter: Adapter, inputs: Inputs) -> Layout | None:
    """A clip whose frames are squares of tokens in raster order, one frame after the other: LLaVA-OneVision."""
    pixels = inputs["pixel_values_videos"]
    if pixels.ndim != 5 or len(pixels) != len(inputs["input_ids"]):
        return None
    frames = len(pixels[0])
    side = isqrt((count_visual(adapter, inputs) - adapter.video_extra) // frames)
    names = (f"frame {number + 1} of {frames}" for number in range(frames))
    grids = (TokenGrid(name=name, rows=side, columns=side, first=n * side**2) for n, name in enumerate(names))
    return Layout(tuple(grids), pixels[0])


_LAYOUTS: dict[str, Callable[[Adapter, Inputs], Layout | None]] = {
    "LLaVA-1.5": _square,
    "LLaVA-NeXT": _tiled,
    "Qwen2-VL": _merged,
    "Qwen2.5-VL": _merged,
    "Qwen3-VL": _merged,
}
"""The families whose tokens can be placed on a picture, by the names of their adapters."""
_CLIP_LAYOUTS: dict[str, Callable[[Adapter, Inputs], Layout | None]] = {"LLaVA-OneVision": _frames}
"""The same for clips."""
