"""The sizes of a model for a prediction, from its config.json and `data/sizes.yaml`. Nothing here imports torch."""

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from trio_profile.cost.prediction import Operator
from trio_profile.errors import StudyError
from trio_profile.inputs.catalogue import read_config, require_model
from trio_profile.records.decoders import known, widths
from trio_profile.records.facts import models
from trio_profile.records.schema import Shape

if TYPE_CHECKING:
    from trio_core.rules.cost import LayerShape

# The `model_type` of the configurations whose operators are known.
FAMILIES = ("llava", "llava_next", "llava_onevision", "internvl", "qwen2_5_vl", "qwen3_vl")


def layer_shape(shape: Shape) -> "LayerShape":
    """Return the widths of a decoder layer and of the vision tower."""
    from trio_core.rules.cost import LayerShape

    return LayerShape(**{field.name: getattr(shape, field.name) for field in fields(LayerShape)})


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
        of_grids = "spatial_merge_size" in config["vision_config"]
        return shape, _of_grids(config, shape) if of_grids else _of_crops(config, shape, facts.get("crops"))
    except (KeyError, TypeError) as error:
        choice = ", ".join(known())
        raise StudyError(f"model {model!r}: its config.json does not say {error}: choose {choice}") from error


def _of_crops(config: dict[str, Any], shape: Shape, crops: int | None) -> list[Operator]:
    """A tower that sees crops of one size: CLIP and SigLIP in LLaVA, InternViT in InternVL."""
    vision, h = config["vision_config"], shape.hidden
    image, patch = (np.ravel(vision[side])[0].item() for side in ("image_size", "patch_size"))
    patches, d = (image // patch) ** 2, vision["hidden_size"]
    merge = round(1 / config.get("downsample_ratio", 1)) ** 2
    rows = patches * shape.batch * (crops or max(1, round(shape.visual_tokens * merge / patches)))
    window = patches + (vision.get("model_type") != "siglip_vision_model")  # the CLS token
    sizes = rows // patches * window, window, d, vision["num_attention_heads"], vision["intermediate_size"]
    linears = (rows, d, 3 * patch**2), (rows // merge, h, d * merge), (rows // merge, h, h)
    return [*_layers(vision["num_hidden_layers"], *sizes), *((1, "gemm", linear) for linear in linears)]


def _of_grids(config: dict[str, Any], shape: Shape) -> list[Operator]:
    """A tower that sees a picture of any size: Qwen's. With windows only some layers attend to the whole picture."""
    vision = config["vision_config"]
    d, merge, patch = vision["hidden_size"], vision["spatial_merge_size"] ** 2, vision["patch_size"]
    picture, gated = shape.visual_tokens * merge, "window_size" in vision
    whole = len(vision["fullatt_block_indexes"]) if gated else vision["depth"]
    window = (vision["window_size"] // patch) ** 2 if gated else picture
    rows, wide, sizes = shape.batch * picture, d * merge, (d, vision["num_heads"], vision["intermediate_size"])
    sizes = (*sizes, 3 if gated else 2)
    layers = [*_layers(vision["depth"] - whole, rows, window, *sizes), *_layers(whole, rows, picture, *sizes)]
    merger = (rows // merge, wide, wide), (rows // merge, vision["out_hidden_size"], wide)
    mergers = 1 + len(vision.get("deepstack_visual_indexes", ()))
    embedding = rows, d, 3 * vision["temporal_patch_size"] * patch**2
    return [*layers, (1, "gemm", embedding), *((mergers, "gemm", linear) for linear in merger)]


def _layers(number: int, rows: int, window: int, d: int, heads: int, ffn: int, matrices: int = 2) -> Iterator[Operator]:
    """The operators of layers of a tower. rows: their tokens. window: how many of them attend to each other."""
    yield number, "encoder", (window, heads, d // heads, max(1, rows // window))
    yield number, "bytes", (24 * rows * d,)
    for out, into in ((3 * d, d), (d, d), (ffn * (matrices - 1), d), (d, ffn)):
        yield number, "gemm", (rows, out, into)
