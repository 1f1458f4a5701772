"""A random picture for a model of a class that no file knows."""

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

Inputs = dict[str, Tensor]

LEAST = 8
"""Visual tokens of a picture that is worth a trial."""


def random_picture(model: PreTrainedModel, runs: Callable[[Inputs, int], Any], seed: int) -> tuple[Inputs, int] | None:
    """The model's arguments for one picture, and its number of visual tokens; None where we cannot make one.

    Classes take pictures in a few forms. The first form is returned on which the model runs.

    runs: runs the model on a prompt with the picture and as many placeholders. It may raise anything.
    """
    arguments = signature(model.forward).parameters
    for inputs in _forms(model.config, torch.Generator().manual_seed(seed)):
        if not inputs.keys() <= arguments.keys():
            continue
        inputs = {name: value.to(model.device) for name, value in inputs.items()}
        inputs["pixel_values"] = inputs["pixel_values"].to(model.dtype)
        try:
            tokens = _tokens(_features(model, inputs))
            if tokens >= LEAST:
                runs(inputs, tokens)
                return inputs, tokens
        except (torch.OutOfMemoryError, torch.AcceleratorError):  # after these nothing else could be tried either
            raise
        except Exception:  # a class we do not know may break in any way on a form that is not its own
            continue
    return None


def _features(model: PreTrainedModel, inputs: Inputs) -> Any:
    """The output of the model's `get_image_features`."""
    inner: Any = model.base_model if hasattr(model.base_model, "get_image_features") else model
    names = signature(inner.get_image_features).parameters
    with torch.no_grad():
        return inner.get_image_features(**{name: value for name, value in inputs.items() if name in names})


def _forms(config: Any, generator: torch.Generator) -> Iterator[Inputs]:
    """Pictures as whole images, as tiles of a size, and as rows of patches."""
    vision = getattr(config, "vision_config", config)

    def read(*names: str, default: int) -> int:
        values = (getattr(part, name, None) for name in names for part in (vision, config))
        value = next((value for value in values if value is not None), default)
        return value if isinstance(value, int) else value[0]

    def pixels(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    channels = read("num_channels", "in_channels", "in_chans", default=3)
    patch, merge = read("patch_size", default=14), read("spatial_merge_size", "merge_size", default=2)
    side = read("image_size", "img_size", default=4 * patch * merge)
    yield {"pixel_values": pixels(1, channels, side, side)}
    yield {"pixel_values": pixels(1, 1, channels, side, side)}
    small = 4 * patch * merge  # for towers that take any size
    yield {"pixel_values": pixels(1, channels, small, small), "image_sizes": torch.tensor([[small, small]])}
    for height, width in getattr(config, "image_grid_pinpoints", None) or ():
        tiles = 1 + (height // side) * (width // side)
        yield {"pixel_values": pixels(1, tiles, channels, side, side), "image_sizes": torch.tensor([[height, width]])}
    values = channels * patch**2
    for frames in dict.fromkeys((1, read("temporal_patch_size", default=2))):
        rows, grid = pixels(16 * merge**2, values * frames), torch.tensor([[1, 4 * merge, 4 * merge]])
        yield {"pixel_values": rows, "image_grid_thw": grid}
        yield {"pixel_values": rows.view(-1, channels, patch, patch * frames), "image_grid_thw": grid}
        yield {"pixel_values": rows, "image_grid_thw": grid, "image_merge_sizes": torch.tensor([merge])}


def _tokens(features: Any) -> int:
    """How many visual tokens the output of `get_image_features` has."""
    made = getattr(features, "pooler_output", None)
    if made is None:
        made = features.deepstack_features[0][1]
    parts = [made] if isinstance(made, Tensor) else made
    return sum(part.numel() // part.shape[-1] for part in parts)
