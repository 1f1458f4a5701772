"""A family's toy: its real class at toy size, with random weights, and inputs for it.

`ToyFamily` is the part of an adapter that makes both. The constants are sizes and token ids that the toys share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal

import torch
import transformers
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedConfig, PreTrainedModel

Size = Literal["small", "large"]
"""How much picture a toy sample has. The two differ, so that a batch of both has unequal pictures."""

NUM_LAYERS = 6
"""Layers of a toy decoder."""
VOCABULARY = 97
"""Token ids are 0 … VOCABULARY - 1."""
WORDS = 90
"""Text tokens are 1 … WORDS - 1; 0 is padding."""
IMAGE, VISION_START, VISION_END, VIDEO = 96, 95, 94, 93
"""The ids with a meaning of their own."""

TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": NUM_LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}
"""A decoder in which two query heads read one key head."""

VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}
"""A tower that makes 4 × 4 patches of a picture or a tile."""

CLIP: dict[str, Any] = {**VISION, "model_type": "clip_vision_model"}
SIGLIP: dict[str, Any] = {**VISION, "model_type": "siglip_vision_model", "vision_use_head": False}

PINPOINTS = [[16, 32], [32, 16], [32, 32]]
"""The sizes, height and width in pixels, to which a picture is resized before it is cut into tiles."""

MROPE: dict[str, Any] = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
"""Rotary positions with three axes, for heads of width 8."""

PLACEHOLDERS: dict[str, Any] = {"image_token_index": IMAGE, "video_token_index": VIDEO}
"""The placeholder ids, as most configurations name them."""

FRAMED_PLACEHOLDERS: dict[str, Any] = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": VISION_START,
    "vision_end_token_id": VISION_END,
}
"""The placeholder ids and the ids before and behind them, as other configurations name them."""


PER_TOKEN = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
"""The inputs of a toy that have an entry for each token."""


class ToyFamily:
    """The maker of a family's toy model and toy inputs. A family overrides what is special about its own."""

    classes: ClassVar[tuple[str, ...]] = ()
    """The family's model classes, by their names in transformers. The toy is of the first one."""
    toy_attention: ClassVar[tuple[str, ...]] = ("eager", "sdpa")
    """The attention implementations that the family's decoder has on any machine."""
    toy_vision: ClassVar[dict[str, Any]] = VISION
    """The configuration of the toy's tower."""
    toy_text: ClassVar[dict[str, Any]] = {**TEXT, "model_type": "llama"}
    """The configuration of the toy's decoder."""
    toy_options: ClassVar[dict[str, Any]] = {"image_token_index": IMAGE}
    """The rest of the toy's configuration."""
    toy_image_size: ClassVar[int] = 16
    """Pixels along the side of a picture of which the toy's tower makes 16 visual tokens."""
    toy_video_frames: ClassVar[int] = 0
    """Frames of the video that the large sample has behind its picture; 0 without one."""
    toy_frame_tokens: ClassVar[int] = 4
    """Visual tokens of a frame of a toy's video."""
    toy_types_name: ClassVar[str] = ""
    """The model's argument that names the kind of each token; empty where it takes none."""
    toy_is_framed: ClassVar[bool] = False
    """Whether the picture stands between a start and an end id, unless the prompt begins with it."""
    video_extra: ClassVar[int] = 0
    """Visual tokens behind the last frame of a video, such as a newline."""

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """The smallest configuration of the family's class that shows what is special about it."""
        config: Any = getattr(transformers, cls.classes[0]).config_class
        return config(vision_config={**cls.toy_vision}, text_config={**cls.toy_text}, **cls.toy_options)

    @classmethod
    def toy(cls, attention: str = "sdpa", seed: int = 0) -> PreTrainedModel:
        """The family's class at toy size. The weights depend on the seed and not on the attention."""
        return build(getattr(transformers, cls.classes[0]), cls.toy_config(), attention, seed)

    @classmethod
    def toy_sample(cls, size: Size = "large", before: int = 3, after: int = 9, seed: int = 0) -> dict[str, Tensor]:
        """One unpadded sample for the toy, as keyword arguments of its forward.

        size: how much picture it has.
        before: words before the picture.
        after: words after the picture.
        seed: words and pixels depend on it.
        """
        random = Random(seed)
        picture = cls.toy_picture(random, size)
        if cls.toy_video_frames and size == "large":
            picture += cls.toy_video(random, cls.toy_video_frames)
        ids = torch.tensor([cls.toy_prompt(random.words(before), picture.ids, random.words(after))])
        mask = torch.ones_like(ids)
        return {"input_ids": ids, "attention_mask": mask, **picture.inputs, **cls.toy_token_types(ids)}

    @classmethod
    def toy_picture(cls, random: "Random", size: Size) -> "ToyPicture":
        """One picture of 16 tokens. The large one is two such pictures with a word between them."""
        count = 2 if size == "large" else 1
        pixels = random.pixels(count, 3, cls.toy_image_size, cls.toy_image_size)
        between = [] if count == 1 else [*random.words(1), *[IMAGE] * 16]
        return ToyPicture({"pixel_values": pixels}, [IMAGE] * 16 + between)

    @classmethod
    def toy_video(cls, random: "Random", frames: int) -> "ToyPicture":
        """A word, and a video of so many frames."""
        pixels = random.pixels(1, frames, 3, 16, 16)
        ids = [*random.words(1), *[VIDEO] * (frames * cls.toy_frame_tokens + cls.video_extra)]
        return ToyPicture({"pixel_values_videos": pixels}, ids)

    @classmethod
    def toy_prompt(cls, before: list[int], picture: list[int], after: list[int]) -> list[int]:
        """The ids of the prompt in their order, from the ids of its three parts. A video follows the picture."""
        if cls.toy_is_framed and before:
            count = picture.count(IMAGE)
            picture = [VISION_START, *picture[:count], VISION_END, *picture[count:]]
        return before + picture + after

    @classmethod
    def toy_token_types(cls, ids: Tensor) -> dict[str, Tensor]:
        """The kind of each token of `ids` [1, S], by the argument's name: 0 for words, 1 for pictures, 2 for videos.

        A family whose model counts otherwise overrides it.
        """
        kinds = (ids == IMAGE).int() + 2 * (ids == VIDEO).int()
        return {cls.toy_types_name: kinds} if cls.toy_types_name else {}


@dataclass(frozen=True)
class ToyPicture:
    """The pictures and videos of one toy sample.

    inputs: the model's arguments for them, such as `pixel_values`.
    ids: their placeholders in the prompt, with the words that stand between them.
    """

    inputs: dict[str, Tensor]
    ids: list[int]

    def __add__(self, later: "ToyPicture") -> "ToyPicture":
        """Both in one prompt, `later` behind."""
        return ToyPicture({**self.inputs, **later.inputs}, self.ids + later.ids)


class Random:
    """Words and pixels drawn one after the other from a seed."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)

    def words(self, count: int) -> list[int]:
        """The ids of `count` words."""
        return torch.randint(1, WORDS, (count,), generator=self.generator).tolist()

    def pixels(self, *shape: int) -> Tensor:
        """Pixel values of any shape, normally distributed."""
        return torch.randn(*shape, generator=self.generator, dtype=torch.float32)


def batch(samples: Sequence[dict[str, Tensor]], side: str = "left") -> dict[str, Tensor]:
    """Samples side by side, the shorter ones padded on the `left` or `right`."""
    width = max(sample["input_ids"].shape[1] for sample in samples)

    def padded(row: Tensor) -> Tensor:
        missing = width - row.shape[1]
        return pad(row, (missing, 0) if side == "left" else (0, missing))

    together: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for sample in samples for name in sample):
        parts = [sample[name] for sample in samples if name in sample]
        if name in PER_TOKEN:
            parts = [padded(part) for part in parts]
        elif name == "pixel_values" and parts[0].ndim == 5:  # tiles are padded to the most that a sample has
            tiles = max(part.shape[1] for part in parts)
            parts = [torch.cat([p, p.new_zeros(len(p), tiles - p.shape[1], *p.shape[2:])], dim=1) for p in parts]
        elif name == "image_token_pooling":  # it counts the patches of all samples
            before = [0, *accumulate(sample["pixel_values"][..., 0].numel() for sample in samples if name in sample)]
            parts = [part + count for part, count in zip(parts, before, strict=False)]
        together[name] = torch.cat(parts)
    return together


def generated(model: Any, inputs: dict[str, Tensor], steps: int, without: Sequence[int]) -> Any:
    """The output of a greedy `generate` of exactly `steps` tokens, with their logits.

    without: tokens that it must not write. A placeholder would count as a part of the picture.
    """
    return model.generate(
        **inputs,
        max_new_tokens=steps,
        min_new_tokens=steps,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
        suppress_tokens=[*without],
    )


def build(cls: type[PreTrainedModel], config: PreTrainedConfig, attention: str, seed: int) -> PreTrainedModel:
    """A model of class `cls` with random weights, large enough that each token's hidden state is its own.

    config: the configuration; its sizes should be small.
    attention: the decoder's attention implementation. The tower's is always eager.
    seed: the weights depend on it and on nothing else.
    """
    # Every tower knows eager attention, and so the visual features are the same whatever the decoder's attention is.
    kernels = {"text_config": attention, "vision_config": "eager"}
    model = cls._from_config(config, attn_implementation=kernels, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim < 2:
                weights.copy_(0.2 * torch.randn(weights.shape, generator=generator) + ("norm" in name))
            else:
                fan_in = 1 if "embed" in name else weights[0].numel()
                weights.copy_(torch.randn(weights.shape, generator=generator) / fan_in**0.5)
    assert model.generation_config is not None
    model.generation_config.eos_token_id = None
    return model
