"""Idefics3 and SmolVLM: a picture in tiles, few tokens a tile, and a decoder that is called `text_model`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.grid_tower import Grid


class Idefics3(Adapter):
    """Idefics3. Its decoder is Llama's."""

    family: ClassVar[str] = "Idefics3"
    classes: ClassVar[tuple[str, ...]] = ("Idefics3ForConditionalGeneration",)
    toy_image_size: ClassVar[int] = 32
    decoder_path: ClassVar[str] = "model.text_model"
    sizing: ClassVar[str] = "resizes a picture to the longest edge that its processor names, and cuts it into tiles"
    # Tiles of 32 × 32 pixels and patches of 4 × 4, of which 2 × 2 become one of a tile's 16 tokens.
    toy_vision: ClassVar[dict[str, Any]] = {**toy.VISION, "image_size": 32}
    toy_options: ClassVar[dict[str, Any]] = {"image_token_id": toy.IMAGE, "scale_factor": 2}

    def grids(self, inputs: dict[str, Any], tokens: Sequence[int]) -> list[Grid]:  # noqa: ARG002
        """A square for each tile. The model tells the tokens of all tiles of a sample. The arguments are Adapter's."""
        vision = self.model.config.vision_config
        side = vision.image_size // vision.patch_size // self.model.config.scale_factor
        return [Grid(side, side)] * (sum(tokens) // side**2)

    @classmethod
    def toy_picture(cls, random: toy.Random, size: toy.Size) -> toy.ToyPicture:
        """The default pictures, as [batch, pictures of a sample, …]."""
        picture = super().toy_picture(random, size)
        return replace(picture, inputs={"pixel_values": picture.inputs["pixel_values"][None]})


class SmolVlm(Idefics3):
    """SmolVLM: a smaller Idefics3 with its own classes."""

    family: ClassVar[str] = "SmolVLM"
    classes: ClassVar[tuple[str, ...]] = ("SmolVLMForConditionalGeneration",)
