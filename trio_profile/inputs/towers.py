"""The modules beside the decoder (vision tower and projector), and their work by configuration.

A module without a formula here is counted as it runs, and is reported as a term of its own.
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from trio_core.models.adapter import Adapter
from trio_profile.cost.formula import Terms, encoder_layer_macs, perceptron_macs
from trio_profile.inputs.builtin import Inputs

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
    vision, text, pixels = config.vision_config, config.get_text_config(), inputs["pixel_values"]
    if vision.model_type != "clip_vision_model" or not isinstance(config.vision_feature_layer, int):
        return {}
    crops = _crops(config, inputs) if pixels.ndim == 5 else len(pixels)
    patches, d = (vision.image_size // vision.patch_size) ** 2, vision.hidden_size
    layer = crops * encoder_layer_macs(patches + 1, d, vision.intermediate_size)
    read = config.vision_feature_layer % (vision.num_hidden_layers + 1)
    tower = {
        "patch embedding": crops * perceptron_macs(patches, (vision.num_channels * vision.patch_size**2, d)),
        "layers": (vision.num_hidden_layers - 1) * layer,
        DEAD_LAYER if read < vision.num_hidden_layers else "last layer": layer,
    }
    # The class token is dropped before the projector.
    projector = {"projector": crops * perceptron_macs(patches, (d, text.hidden_size, text.hidden_size))}
    # Crops do not attend to each other.
    return {"model.vision_tower": tower, "model.multi_modal_projector": projector}


def _crops(config: Any, inputs: Inputs) -> int:
    """The number of crops that LLaVA-NeXT runs. The model removes the empty crops that pad smaller pictures."""
    from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches

    sizes = inputs["image_sizes"].cpu()
    return sum(
        image_size_to_num_patches(size, config.image_grid_pinpoints, config.vision_config.image_size) for size in sizes
    )


def _qwen(config: Any, inputs: Inputs) -> dict[str, Terms]:
    """Qwen2-VL and Qwen2.5-VL: patches of any grid, attention within windows or a whole picture, and a merger."""
    vision = config.vision_config
    gated = vision.model_type == "qwen2_5_vl_vision"
    d = vision.hidden_size if gated else vision.embed_dim
    m = vision.intermediate_size if gated else int(d * vision.mlp_ratio)
    merge = vision.spatial_merge_size
    grids: list[list[int]] = [
        grid for name in ("image_grid_thw", "video_grid_thw") if name in inputs for grid in inputs[name].tolist()
    ]
    frames = [height * width for time, height, width in grids for _ in range(time)]
    patches = sum(frames)
    windows = (
        [size for time, height, width in grids for _ in range(time) for size in _windows(vision, height, width)]
        if gated
        else frames
    )
    layers = 0
    for index in range(vision.depth):
        within = windows if gated and index not in vision.fullatt_block_indexes else frames
        layers += encoder_layer_macs(patches, d, m, 3 if gated else 2, within)
    values = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    merged, wide = patches // merge**2, d * merge**2
    out = vision.out_hidden_size if gated else vision.hidden_size
    return {
        "model.visual": {
            "patch embedding": perceptron_macs(patches, (values, d)),
            "layers": layers,
            "merger": perceptron_macs(merged, (wide, wide, out)),
        }
    }


def _windows(vision: Any, height: int, width: int) -> list[int]:
    """The number of patches in each attention window of a frame. Windows at the edges are smaller."""
    side = vision.window_size // vision.patch_size
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
