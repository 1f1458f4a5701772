"""The sizes of a model for a prediction, from its config.json and `data/sizes.yaml`. Nothing here imports torch."""

from collections.abc import Callable
from functools import cache
from typing import Any

import yaml

from trio_profile.cost.prediction import Tower, TowerLayers
from trio_profile.errors import StudyError
from trio_profile.inputs.catalogue import read_config, require_model
from trio_profile.records.facts import SOURCE, models
from trio_profile.records.schema import Shape

_SIZES = SOURCE.with_name("sizes.yaml")
_BUILTIN = SOURCE.with_name("models.yaml")


@cache
def known() -> dict[str, Any]:
    """The models that can be predicted without a checkpoint, by name: the contents of `data/sizes.yaml`."""
    return yaml.safe_load(_SIZES.read_text(encoding="utf-8"))


def sizes_of(model: str, *, visual_tokens: int | None, text_tokens: int, batch: int) -> tuple[Shape, Tower]:
    """The decoder of a model with its input, and the vision tower.

    visual_tokens: of one sample; None: those of the built-in picture.
    Raises StudyError for a model whose operators are not known here, or whose configuration does not say its sizes.
    """
    facts = dict(known().get(model, {}))
    if not facts and model in models():
        raise StudyError(f"model {model!r} cannot be predicted: choose {', '.join(known())}, or name a checkpoint")
    if not facts:
        require_model(model)
        facts["config"] = read_config(model)
    config = facts.get("config") or _builtin_config(model)
    family = facts.get("family", config.get("model_type"))
    tokens = visual_tokens or facts.get("visual_tokens") or (models()[model].visual_tokens if model in models() else 0)
    if family not in _TOWERS:
        raise StudyError(f"model {model!r}: the operators of {family!r} are not known; {', '.join(_TOWERS)} are")
    if not tokens:
        raise StudyError(f"model {model!r}: give --visual-tokens, because the number depends on the picture")
    try:
        shape = _decoder(config.get("text_config", config), tokens, text_tokens, batch)
        tower = _TOWERS[family](config, shape, facts.get("crops"))
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise StudyError(f"model {model!r}: its config.json does not say {error}: choose {', '.join(known())}") from error
    return shape, tower


def _builtin_config(model: str) -> dict[str, Any]:
    """The configuration of a built-in model. A name that ends in `-photo` is another picture of the same model."""
    return yaml.safe_load(_BUILTIN.read_text(encoding="utf-8"))[model.removesuffix("-photo")]


def _decoder(text: dict[str, Any], visual_tokens: int, text_tokens: int, batch: int) -> Shape:
    if experts := text.get("num_experts") or text.get("num_local_experts"):
        raise StudyError(f"a decoder with {experts} experts cannot be predicted: its tables are of another kind")
    if any("linear" in kind for kind in text.get("layer_types") or ()):
        raise StudyError("a decoder with linear attention cannot be predicted: its tables are of another kind")
    heads, hidden = text["num_attention_heads"], text["hidden_size"]
    head_size = text.get("head_dim") or hidden // heads
    return Shape(
        num_layers=text["num_hidden_layers"],
        hidden=hidden,
        intermediate=text["intermediate_size"],
        query_width=heads * head_size,
        kv_width=(text.get("num_key_value_heads") or heads) * head_size,
        heads=heads,
        vocabulary=text["vocab_size"],
        ffn_matrices=3,
        itemsize=2,
        batch=batch,
        visual_tokens=visual_tokens,
        text_tokens=text_tokens,
    )


def _crops(config: dict[str, Any], shape: Shape, crops: int | None) -> Tower:
    """A tower that sees crops of one size: CLIP and SigLIP in LLaVA, InternViT in InternVL."""
    vision, h = config["vision_config"], shape.hidden
    image, patch = (side[0] if isinstance(side, list) else side for side in (vision["image_size"], vision["patch_size"]))
    patches, d = (image // patch) ** 2, vision["hidden_size"]
    merge = round(1 / config["downsample_ratio"]) ** 2 if "downsample_ratio" in config else 1
    number = shape.batch * (crops or max(1, round(shape.visual_tokens * merge / patches)))
    window = patches + (vision.get("model_type") != "siglip_vision_model")  # the CLS token
    layers = TowerLayers(
        vision["num_hidden_layers"],
        number * window,
        window,
        d,
        vision["num_attention_heads"],
        vision["intermediate_size"],
    )
    rows = number * patches // merge
    return Tower((layers,), ((number * patches, d, 3 * patch**2), (rows, h, d * merge), (rows, h, h)))


def _grids(config: dict[str, Any], shape: Shape, crops: int | None) -> Tower:  # noqa: ARG001
    """A tower that sees a picture of any size: Qwen's. With windows only some layers attend to the whole picture."""
    vision = config["vision_config"]
    d, merge, depth = vision["hidden_size"], vision["spatial_merge_size"] ** 2, vision["depth"]
    rows = shape.batch * shape.visual_tokens * merge
    picture = shape.visual_tokens * merge
    gated = "window_size" in vision
    whole = len(vision["fullatt_block_indexes"]) if gated else depth
    window = (vision["window_size"] // vision["patch_size"]) ** 2 if gated else picture
    sizes = d, vision["num_heads"], vision["intermediate_size"], 3 if gated else 2
    parts = TowerLayers(depth - whole, rows, window, *sizes), TowerLayers(whole, rows, picture, *sizes)
    mergers = 1 + len(vision.get("deepstack_visual_indexes", ()))
    wide = d * merge
    merged = ((rows // merge, wide, wide), (rows // merge, vision["out_hidden_size"], wide)) * mergers
    pixels = 3 * vision["temporal_patch_size"] * vision["patch_size"] ** 2
    return Tower(tuple(part for part in parts if part.number), ((rows, d, pixels), *merged))


_TOWERS: dict[str, Callable[[dict[str, Any], Shape, int | None], Tower]] = {
    **dict.fromkeys(("llava", "llava_next", "llava_onevision", "internvl"), _crops),
    **dict.fromkeys(("qwen2_5_vl", "qwen3_vl"), _grids),
}
"""By the `model_type` of a configuration: the function that makes its tower."""
