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


@cache
def known() -> dict[str, Any]:
    """The models that can be predicted without a checkpoint, by name: `data/sizes.yaml` with the built-in sizes."""
    sizes, builtin = (
        yaml.safe_load(SOURCE.with_name(name).read_text(encoding="utf-8")) for name in ("sizes.yaml", "models.yaml")
    )
    for name, facts in sizes.items():
        facts.setdefault("config", builtin.get(name.removesuffix("-photo")))
        facts.setdefault("visual_tokens", models()[name].visual_tokens if name in models() else None)
    return sizes


def sizes_of(model: str, visual_tokens: int | None, text_tokens: int, batch: int) -> tuple[Shape, Tower]:
    """The decoder of a model with its input, and the vision tower.

    visual_tokens: of one sample; None: those of the built-in picture.
    Raises StudyError for a model whose operators are not known here, or whose configuration does not say its sizes.
    """
    facts: dict[str, Any] = known().get(model, {})
    if not facts:
        if model in models():
            raise StudyError(f"model {model!r} cannot be predicted: choose {', '.join(known())}, or a checkpoint")
        require_model(model)
        facts = {"config": read_config(model)}
    config, tokens = facts["config"], visual_tokens or facts.get("visual_tokens")
    text = config.get("text_config", config)
    family = facts.get("family", config.get("model_type"))
    if family not in _TOWERS:
        raise StudyError(
            f"model {model!r}: the operators of {family!r} are not known; those of {', '.join(_TOWERS)} are"
        )
    if text.get("num_experts") or any("linear" in kind for kind in text.get("layer_types") or ()):
        raise StudyError(f"model {model!r}: experts and linear attention cannot be predicted, their tables are others")
    if not tokens:
        raise StudyError(f"model {model!r}: give --visual-tokens, because the number depends on the picture")
    try:
        shape = _decoder(text, visual_tokens=tokens, text_tokens=text_tokens, batch=batch)
        return shape, _TOWERS[family](config, shape, facts.get("crops"))
    except (KeyError, TypeError) as error:
        raise StudyError(
            f"model {model!r}: its config.json does not say {error}: choose {', '.join(known())}"
        ) from error


def _decoder(text: dict[str, Any], **tokens: Any) -> Shape:
    heads, hidden = text["num_attention_heads"], text["hidden_size"]
    head_size = text.get("head_dim") or hidden // heads
    return Shape(
        **tokens,
        num_layers=text["num_hidden_layers"],
        hidden=hidden,
        intermediate=text["intermediate_size"],
        query_width=heads * head_size,
        kv_width=(text.get("num_key_value_heads") or heads) * head_size,
        heads=heads,
        vocabulary=text["vocab_size"],
        ffn_matrices=3,
        itemsize=2,
    )


def _crops(config: dict[str, Any], shape: Shape, crops: int | None) -> Tower:
    """A tower that sees crops of one size: CLIP and SigLIP in LLaVA, InternViT in InternVL."""
    vision, h = config["vision_config"], shape.hidden
    image, patch = (
        side[0] if isinstance(side, list) else side for side in (vision["image_size"], vision["patch_size"])
    )
    patches, d = (image // patch) ** 2, vision["hidden_size"]
    merge = round(1 / config.get("downsample_ratio", 1)) ** 2
    number = shape.batch * (crops or max(1, round(shape.visual_tokens * merge / patches)))
    window = patches + (vision.get("model_type") != "siglip_vision_model")  # the CLS token
    sizes = d, vision["num_attention_heads"], vision["intermediate_size"]
    layers = TowerLayers(vision["num_hidden_layers"], number * window, window, *sizes)
    rows = number * patches
    return Tower((layers,), ((rows, d, 3 * patch**2), (rows // merge, h, d * merge), (rows // merge, h, h)))


def _grids(config: dict[str, Any], shape: Shape, _: int | None) -> Tower:
    """A tower that sees a picture of any size: Qwen's. With windows only some layers attend to the whole picture."""
    vision = config["vision_config"]
    d, merge, depth = vision["hidden_size"], vision["spatial_merge_size"] ** 2, vision["depth"]
    picture, gated = shape.visual_tokens * merge, "window_size" in vision
    whole = len(vision["fullatt_block_indexes"]) if gated else depth
    window = (vision["window_size"] // vision["patch_size"]) ** 2 if gated else picture
    rows, wide = shape.batch * picture, d * merge
    sizes = d, vision["num_heads"], vision["intermediate_size"], 3 if gated else 2
    layers = TowerLayers(depth - whole, rows, window, *sizes), TowerLayers(whole, rows, picture, *sizes)
    merger = (rows // merge, wide, wide), (rows // merge, vision["out_hidden_size"], wide)
    pixels = 3 * vision["temporal_patch_size"] * vision["patch_size"] ** 2
    return Tower(layers, ((rows, d, pixels), *merger * (1 + len(vision.get("deepstack_visual_indexes", ())))))


_TOWERS: dict[str, Callable[[dict[str, Any], Shape, int | None], Tower]] = {
    **dict.fromkeys(("llava", "llava_next", "llava_onevision", "internvl"), _crops),
    **dict.fromkeys(("qwen2_5_vl", "qwen3_vl"), _grids),
}
"""By the `model_type` of a configuration: the function that makes its tower."""
