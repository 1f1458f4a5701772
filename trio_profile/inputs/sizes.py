"""The sizes of a model from its config.json and `data/sizes.yaml`, and the operators of its vision tower and projector.

A prediction takes the times of the operators, and a reconciliation their MACs. Nothing here imports torch.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from trio_profile.cost.prediction import Operator
from trio_profile.errors import StudyError
from trio_profile.inputs.catalogue import read_config, require_model
from trio_profile.records.decoders import known, widths
from trio_profile.records.facts import models
from trio_profile.records.schema import Shape

Operators = dict[str, list[Operator]]
"""The operators of a vision tower and its projector, by part."""
# The `model_type` of the configurations whose operators are known.
FAMILIES = ("llava", "llava_next", "llava_onevision", "internvl", "qwen2_5_vl", "qwen3_vl")


def sizes_of(model: str, visual_tokens: int | None, text_tokens: int, batch: int) -> tuple[Shape, list[Operator]]:
    """The decoder of a model with its input, and the operators of its vision tower and projector.

    visual_tokens: of one sample; None: those of the built-in picture.
    Raises StudyError for a model whose operators are not known here, or whose configuration does not say its sizes.
    """
    facts: dict[str, Any] = known().get(model, {})
    if not facts:
        require_model(model, known())
        facts = {"config": {} if model in models() else read_config(model)}
    config, tokens = facts["config"], visual_tokens or facts.get("visual_tokens")
    text, family = config.get("text_config", config), facts.get("family", config.get("model_type"))
    of_other_kind = text.get("num_experts") or any("linear" in kind for kind in text.get("layer_types") or ())
    if family not in FAMILIES or of_other_kind:
        raise StudyError(f"the operators of model {model!r} are not known: choose {', '.join(known())}")
    if not tokens:
        raise StudyError(f"model {model!r}: give --visual-tokens, because the number depends on the picture")
    try:
        sizes = {"itemsize": 2, "visual_tokens": tokens, "text_tokens": text_tokens, "batch": batch}
        shape = Shape(**widths(config), **sizes)
        parts = _of_model(config, shape, facts.get("crops")).values()
        return shape, [operator for part in parts for operator in part]
    except (KeyError, TypeError) as error:
        choice = ", ".join(known())
        raise StudyError(f"model {model!r}: its config.json does not say {error}: choose {choice}") from error


def _of_model(config: dict[str, Any], shape: Shape, crops: int | None) -> Operators:
    """The operators beside the decoder for a picture or video of so many visual tokens. crops: None if not known."""
    vision = config["vision_config"]
    if "spatial_merge_size" in vision:
        picture = shape.visual_tokens * vision["spatial_merge_size"] ** 2
        window = (vision.get("window_size", 0) // vision["patch_size"]) ** 2 or picture
        return grid_operators(vision, {picture: shape.batch}, {window: max(1, shape.batch * picture // window)})
    merge = round(1 / config.get("downsample_ratio", 1)) ** 2
    crops = crops or max(1, round(shape.visual_tokens * merge / _sides(vision)[1] ** 2))
    return crop_operators(vision, shape.hidden, shape.batch * crops, merge)


def crop_operators(vision: dict[str, Any], text_width: int, crops: int, merge: int = 1) -> Operators:
    """A tower that sees crops of one size, and its projector: CLIP and SigLIP in LLaVA, InternViT in InternVL.

    text_width: hidden width of the decoder.
    merge: how many patches become one token before the projector.
    """
    (patch, side), d = _sides(vision), vision["hidden_size"]
    patches = side**2
    window = patches + (vision.get("model_type") != "siglip_vision_model")  # the CLS token
    sizes = d, vision["num_attention_heads"], vision["intermediate_size"]
    rows, tokens = crops * patches, crops * patches // merge
    return {
        "layers": [*_layers(vision["num_hidden_layers"], crops * window, {window: crops}, *sizes)],
        "patch embedding": [(1, "gemm", (rows, d, _channels(vision) * patch**2))],
        "projector": [(1, "gemm", (tokens, text_width, into)) for into in (d * merge, text_width)],
    }


def grid_operators(vision: dict[str, Any], frames: Mapping[int, int], windows: Mapping[int, int]) -> Operators:
    """A tower that sees pictures of any size, and its merger: Qwen's. With windows few layers attend to all patches.

    frames, windows: how many there are of each number of patches.
    """
    d, merge, gated = vision["hidden_size"], vision["spatial_merge_size"] ** 2, "window_size" in vision
    rows, wide = sum(patches * count for patches, count in frames.items()), d * merge
    whole = sum(index < vision["depth"] for index in vision["fullatt_block_indexes"]) if gated else vision["depth"]
    sizes = d, vision["num_heads"], vision["intermediate_size"], 3 if gated else 2
    mergers = 1 + len(vision.get("deepstack_visual_indexes", ()))
    values = _channels(vision) * vision["temporal_patch_size"] * vision["patch_size"] ** 2
    return {
        "layers": [*_layers(vision["depth"] - whole, rows, windows, *sizes), *_layers(whole, rows, frames, *sizes)],
        "patch embedding": [(1, "gemm", (rows, d, values))],
        "merger": [(mergers, "gemm", (rows // merge, out, wide)) for out in (wide, vision["out_hidden_size"])],
    }


def _channels(vision: dict[str, Any]) -> int:
    """The values of a pixel: 3 unless the configuration says otherwise."""
    return vision.get("num_channels", vision.get("in_channels", 3))


def _sides(vision: dict[str, Any]) -> tuple[int, int]:
    """The side of a patch in pixels, and the side of a crop in patches."""
    image, patch = (np.ravel(vision[side])[0].item() for side in ("image_size", "patch_size"))
    return patch, image // patch


def _layers(
    number: int, rows: int, windows: Mapping[int, int], d: int, heads: int, ffn: int, matrices: int = 2
) -> Iterator[Operator]:
    """The operators of layers of a tower. rows: their tokens. windows: as of `grid_operators`."""
    for tokens, count in windows.items():
        yield number, "encoder", (tokens, heads, d // heads, count)
    yield number, "bytes", (24 * rows * d,)
    for out, into in ((3 * d, d), (d, d), (ffn * (matrices - 1), d), (d, ffn)):
        yield number, "gemm", (rows, out, into)


def macs_of(operators: Operators) -> dict[str, int]:
    """The MACs of each part."""
    return {name: sum(times * _MACS[kind](*sizes) for times, kind, sizes in part) for name, part in operators.items()}


_MACS: dict[str, Callable[..., int]] = {
    "gemm": lambda rows, out, into: rows * out * into,
    "encoder": lambda tokens, heads, head_size, windows: 2 * windows * tokens**2 * heads * head_size,
    "bytes": lambda _: 0,
}
