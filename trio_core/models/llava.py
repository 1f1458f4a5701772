"""LLaVA-1.5 and LLaVA-NeXT.

LLaVA-NeXT's span holds the base crop, the un-padded tiles and a newline embedding for each tile row: all of them stand
behind image placeholders, and all are visual tokens here.
"""

from typing import ClassVar

from trio_core.models.adapter import Adapter


class Llava(Adapter):
    """LLaVA-1.5: 576 visual tokens of CLIP ViT-L/14 at 336 pixels, a Llama decoder."""

    family: ClassVar[str] = "LLaVA-1.5"
    classes: ClassVar[tuple[str, ...]] = ("LlavaForConditionalGeneration",)


class LlavaNext(Adapter):
    """LLaVA-NeXT (1.6): a base crop and up to four tiles of the picture."""

    family: ClassVar[str] = "LLaVA-NeXT"
    classes: ClassVar[tuple[str, ...]] = ("LlavaNextForConditionalGeneration",)
