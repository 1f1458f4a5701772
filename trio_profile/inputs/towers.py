"""The modules beside the decoder (vision tower and projector), and their work by configuration.

A module without a formula here is counted as it runs, and is reported as a term of its own.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from trio_core.models.adapter import Adapter
from trio_profile.cost.formula import Terms
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.sizes import crop_operators, grid_operators, macs_of

DEAD_LAYER = "last layer, whose output nobody reads"
"""The last layer of a CLIP tower that is read one layer before its end. It runs, but a tracer leaves it out."""


def beside_the_decoder(adapter: Adapter) -> Iterator[tuple[str, nn.Module]]:
    """The path and module of everything beside the decoder and the head: the vision tower, the projector."""
    *above, _ = adapter.decoder_path.split(".")
    for depth in range(len(above) + 1):
        parent = adapter.model.get_submodule(".".join(above[:depth]))
        for name, module in parent.named_children():
            path = ".".join([*above[:depth], name])
            if not f"{adapter.decoder_path}.".startswith(f"{path}.") and path != "lm_head":
                yield path, module


def is_projector(path: str) -> bool:
    """Whether a module beside the decoder is the projector, by its name."""
    return any(part in path.rpartition(".")[2] for part in ("projector", "connector", "merger", "aligner"))


def vision_terms(model: PreTrainedModel, inputs: Inputs) -> dict[str, Terms]:
    """MACs by part of each module with a formula, by the module's path.

    inputs: of the model's forward.
    """
    find = _KNOWN.get(type(model).__name__)
    return {} if find is None else find(model.config, inputs)


def _clip(config: Any, inputs: Inputs) -> dict[str, Terms]:
    """LLaVA-1.5 and LLaVA-NeXT: crops through CLIP, read at `vision_feature_layer`, and a projector of two linears."""
    vision, pixels = config.vision_config, inputs["pixel_values"]
    if vision.model_type != "clip_vision_model" or not isinstance(config.vision_feature_layer, int):
        return {}
    crops = _crops(config, inputs) if pixels.ndim == 5 else len(pixels)
    macs = macs_of(crop_operators(vision.to_dict(), config.get_text_config().hidden_size, crops))
    layer = macs["layers"] // vision.num_hidden_layers
    read = config.vision_feature_layer % (vision.num_hidden_layers + 1)
    last = DEAD_LAYER if read < vision.num_hidden_layers else "last layer"
    tower = {"patch embedding": macs["patch embedding"], "layers": macs["layers"] - layer, last: layer}
    return {"model.vision_tower": tower, "model.multi_modal_projector": {"projector": macs["projector"]}}


def _crops(config: Any, inputs: Inputs) -> int:
    """The number of crops that LLaVA-NeXT runs. The model removes the empty crops that pad smaller pictures."""
    from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches

    sizes = inputs["image_sizes"].cpu()
    return sum(
        image_size_to_num_patches(size, config.image_grid_pinpoints, config.vision_config.image_size) for size in sizes
    )


def _qwen(config: Any, inputs: Inputs) -> dict[str, Terms]:
    """Qwen2-VL and Qwen2.5-VL: patches of any grid, attention within windows or a whole picture, and a merger."""
    vision = config.vision_config.to_dict()
    if "embed_dim" in vision:  # Qwen2-VL has other names for its widths
        d, out = vision["embed_dim"], vision["hidden_size"]
        vision |= {"hidden_size": d, "intermediate_size": int(d * vision["mlp_ratio"]), "out_hidden_size": out}
    frames, windows = Counter[int](), Counter[int]()
    for name in {"image_grid_thw", "video_grid_thw"} & inputs.keys():
        for time, height, width in inputs[name].tolist():
            frames[height * width] += time
            windows.update(_windows(vision, height, width) * time)
    macs = macs_of(grid_operators(vision, frames, windows))
    return {"model.visual": {part: macs[part] for part in ("patch embedding", "layers", "merger")}}


def _windows(vision: dict[str, Any], height: int, width: int) -> list[int]:
    """The number of patches in each attention window of a frame. Windows at the edges are smaller."""
    side = vision.get("window_size", 0) // vision["patch_size"] or max(height, width)
    return [
        min(side, height - top) * min(side, width - left)
        for top in range(0, height, side)
        for left in range(0, width, side)
    ]


_KNOWN: dict[str, Callable[[Any, dict[str, Tensor]], dict[str, Terms]]] = {
    "LlavaForConditionalGeneration": _clip,
    "LlavaNextForConditionalGeneration": _clip,
    "Qwen2VLForConditionalGeneration": _qwen,
    "Qwen2_5_VLForConditionalGeneration": _qwen,
}
