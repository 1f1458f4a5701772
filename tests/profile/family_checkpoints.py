"""A tiny checkpoint of every model family: random weights, the family's real processor class, a tokenizer of words.

The files look like those of the family's published checkpoints: the same classes, special tokens and chat template.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import Gemma4AudioFeatureExtractor, LlavaProcessor, PreTrainedTokenizerFast
from transformers.models.auto.image_processing_auto import (
    IMAGE_PROCESSOR_MAPPING_NAMES,
    get_image_processor_class_from_name,
)
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.models.smolvlm import processing_smolvlm as smolvlm

from trio_core.models import families
from trio_core.models.toy import IMAGE, PINPOINTS, VIDEO, VISION_END, VISION_START, VOCABULARY
from trio_profile.inputs.processors import VIDEO as VIDEO_PROCESSOR
from trio_profile.inputs.processors import NoVideos, without_videos

Saved = Callable[[str], Path]
"""Returns the directory of a family's checkpoint. The fixture `saved` is one."""

_TEXT = "user assistant User Assistant USER ASSISTANT What is this model in the picture Describe : . , ?"
"""The words of the tests' prompts. The other ids are `w0`, `w1`, …"""


@dataclass(frozen=True)
class Files:
    """What a family's checkpoint holds beside its weights.

    image: settings of the image processor, for pictures of the toy's size.
    template: the chat template; None if the family's checkpoints have none.
    special: special tokens by their ids.
    named: the tokenizer's names of special tokens, as `image_token`.
    processor: settings of the processor.
    video: the class of the video processor, which torchvision brings; empty if the family has none.
    frames: settings of the video processor, for frames of the toy's size. Empty: no test gives it a video.
    """

    image: dict[str, Any]
    template: str | None
    special: dict[int, str]
    named: dict[str, str] = field(default_factory=dict)
    processor: dict[str, Any] = field(default_factory=dict)
    video: str = ""
    frames: dict[str, Any] = field(default_factory=dict)


def _template(
    turn: str, picture: str, end: str, answer: str, *, begin: str = "", newline: str = "", video: str = ""
) -> str:
    """A chat template: `turn` with the role, the parts of the message, `end`; at last `answer`."""
    clip = f"{{% elif part['type'] == 'video' %}}{video}{newline}" if video else ""
    return (
        f"{begin}{{% for message in messages %}}{turn}"
        "{% for part in message['content'] %}"
        f"{{% if part['type'] == 'image' %}}{picture}{newline}{clip}"
        "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
        f"{end}{{% endfor %}}{{% if add_generation_prompt %}}{answer}{{% endif %}}"
    )


_VICUNA = ("{{ message['role'] | upper }}: ", "<image>", " ", "ASSISTANT:")
_CHATML = {
    "turn": "<|im_start|>{{ message['role'] }}\n",
    "end": "<|im_end|>\n",
    "answer": "<|im_start|>assistant\n",
}
_IM = {2: "<|im_start|>", 3: "<|im_end|>"}
_CLIP_SIZE = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}
_SQUARE = {"size": {"height": 16, "width": 16}}
_IMAGE_AND_VIDEO = {IMAGE: "<image>", VIDEO: "<video>"}
_CLS = {"patch_size": 4, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
_TILES = {
    "image": {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}},
    "template": _template(
        "<|im_start|>{{ message['role'] | capitalize }}:", "<image>", "<end_of_utterance>\n", "Assistant:"
    ),
    "special": {
        2: "<|im_start|>",
        3: "<end_of_utterance>",
        IMAGE: "<image>",
        VIDEO: "<video>",
        VISION_START: "<fake_token_around_image>",
        VISION_END: "<global-img>",
        **{80 + 2 * row + column: f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)},
    },
    "processor": {"image_seq_len": 16},
}


def _qwen(video: str) -> Files:
    picture = "<|vision_start|><|image_pad|><|vision_end|>"
    pixels = {"size": {"shortest_edge": 16 * 16, "longest_edge": 48 * 48}}
    settings = {**pixels, "patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
    return Files(
        image=settings,
        template=_template(picture=picture, video=picture.replace("image", "video"), **_CHATML),
        special={
            **_IM,
            IMAGE: "<|image_pad|>",
            VIDEO: "<|video_pad|>",
            VISION_START: "<|vision_start|>",
            VISION_END: "<|vision_end|>",
        },
        video=video,
        frames=settings,
    )


def _llava(video: str = "", **image: Any) -> Files:
    """LLaVA with CLIP's pictures. image: further settings of the image processor."""
    return Files(
        image={**_CLIP_SIZE, **image},
        template=_template(*_VICUNA, newline="\n", video="<video>" if video else ""),
        special=_IMAGE_AND_VIDEO if video else {IMAGE: "<image>"},
        processor=_CLS,
        video=video,
        frames=_CLIP_SIZE if video else {},
    )


_PALIGEMMA = Files(
    image={**_SQUARE, "image_seq_length": 16},
    template=None,
    special={IMAGE: "<image>"},
    named={"image_token": "<image>"},
)

FILES: dict[str, Files] = {
    "FastVLM": Files(
        image={"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}},
        template=_template(picture="<image>", **_CHATML),
        special={**_IM, IMAGE: "<image>"},
        processor={"patch_size": 8, "vision_feature_select_strategy": "full", "num_additional_image_tokens": 0},
    ),
    "Gemma 3": Files(
        image=_SQUARE,
        template=_template(
            "<start_of_turn>{{ message['role'] }}\n",
            "<start_of_image>",
            "<end_of_turn>\n",
            "<start_of_turn>model\n",
            begin="{{ bos_token }}",
        ),
        special={
            2: "<start_of_turn>",
            3: "<end_of_turn>",
            IMAGE: "<image_soft_token>",
            VISION_START: "<start_of_image>",
            VISION_END: "<end_of_image>",
        },
        named={"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"},
        processor={"image_seq_length": 16},
    ),
    "Gemma 4": Files(
        image={"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70},
        template=_template("<|turn>{{ message['role'] }}\n", "<|image|>", "<turn|>\n", "<|turn>model\n"),
        special={
            2: "<|turn>",
            3: "<turn|>",
            IMAGE: "<|image|>",
            VIDEO: "<|video|>",
            VISION_START: "<|image>",
            VISION_END: "<image|>",
            80: "<|audio|>",
            81: "<|audio>",
            82: "<audio|>",
        },
        named={
            "image_token": "<|image|>",
            "boi_token": "<|image>",
            "eoi_token": "<image|>",
            "audio_token": "<|audio|>",
            "boa_token": "<|audio>",
            "eoa_token": "<audio|>",
        },
        video="Gemma4VideoProcessor",
    ),
    "GLM-4.6V": Files(
        image={  # its pixels are those of both frames of a picture
            "size": {"shortest_edge": 2 * 16 * 16, "longest_edge": 2 * 48 * 48},
            "patch_size": 4,
            "merge_size": 2,
            "temporal_patch_size": 2,
        },
        template=_template(
            "<|{{ message['role'] }}|>\n",
            "<|begin_of_image|><|image|><|end_of_image|>",
            "",
            "<|assistant|>\n",
            begin="[gMASK]<sop>",
            video="<|begin_of_video|><|video|><|end_of_video|>",
        ),
        special={
            2: "[gMASK]",
            3: "<sop>",
            80: "<|user|>",
            81: "<|assistant|>",
            IMAGE: "<|image|>",
            VIDEO: "<|video|>",
            VISION_START: "<|begin_of_image|>",
            VISION_END: "<|end_of_image|>",
            82: "<|begin_of_video|>",
            83: "<|end_of_video|>",
        },
        video="Glm46VVideoProcessor",
    ),
    "PaliGemma": _PALIGEMMA,
    "PaliGemma 2": _PALIGEMMA,
    "Idefics3": Files(**_TILES),
    "SmolVLM": Files(**_TILES, video="SmolVLMVideoProcessor"),
    "InternVL": Files(
        image={"size": {"height": 32, "width": 32}, "min_patches": 1, "max_patches": 4},
        template=_template(picture="<IMG_CONTEXT>", newline="\n", **_CHATML),
        special={
            **_IM,
            IMAGE: "<IMG_CONTEXT>",
            VIDEO: "<video>",
            VISION_START: "<img>",
            VISION_END: "</img>",
        },
        named={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        processor={"image_seq_length": 16},
        video="InternVLVideoProcessor",
    ),
    "LLaVA-1.5": _llava(),
    "LLaVA-NeXT": _llava(image_grid_pinpoints=PINPOINTS),
    "LLaVA-NeXT-Video": _llava("LlavaNextVideoVideoProcessor", image_grid_pinpoints=PINPOINTS),
    "LLaVA-OneVision": Files(
        image={**_SQUARE, "image_grid_pinpoints": PINPOINTS},
        template=_template(picture="<image>", newline="\n", video="<video>", **_CHATML),
        special={**_IM, **_IMAGE_AND_VIDEO},
        processor={"num_image_tokens": 16, "vision_feature_select_strategy": "full"},
        video="LlavaOnevisionVideoProcessor",
        frames=_SQUARE,
    ),
    "Video-LLaVA": _llava("VideoLlavaVideoProcessor"),
    "Qwen2-VL": _qwen("Qwen2VLVideoProcessor"),
    "Qwen2.5-VL": _qwen("Qwen2VLVideoProcessor"),
    "Qwen3-VL": _qwen("Qwen3VLVideoProcessor"),
}


WITH_TORCHVISION = {"Molmo 2"}
"""Families whose pictures only torchvision prepares. They have no checkpoint here."""


def save_family(name: str, directory: Path) -> Path:
    """Save a family's toy model with its processor and its tokenizer, as a published checkpoint has them.

    Whether torchvision is installed makes no difference to the files.
    """
    files, model = FILES[name], families[name].toy(families[name].toy_attention[-1])
    model.save_pretrained(directory)
    cls = PROCESSOR_MAPPING.get(type(model.config), LlavaProcessor)
    assert cls is not None
    parts = {"image_processor": _image_processor(model.config.model_type, files.image), "tokenizer": _tokenizer(files)}
    if "feature_extractor" in cls.get_attributes():  # of sounds
        parts["feature_extractor"] = Gemma4AudioFeatureExtractor()
    if VIDEO_PROCESSOR in cls.get_attributes():
        cls, parts[VIDEO_PROCESSOR] = without_videos(cls), NoVideos()
    smolvlm.num2words = smolvlm.num2words or str  # a package that only its videos need
    cls(**parts, **files.processor, chat_template=files.template).save_pretrained(directory)
    _name_classes(directory / "processor_config.json", files)
    return directory


def _image_processor(model_type: str, settings: dict[str, Any]) -> Any:
    """The family's image processor without torchvision. FastVLM has CLIP's."""
    name = (IMAGE_PROCESSOR_MAPPING_NAMES.get(model_type) or IMAGE_PROCESSOR_MAPPING_NAMES["clip"])["pil"]
    cls: Any = get_image_processor_class_from_name(str(name))
    return cls(**settings)


def _tokenizer(files: Files) -> PreTrainedTokenizerFast:
    """Every id of the toy's vocabulary is a word or a special token."""
    special = {0: "<pad>", 1: "<s>", **files.special, 92: "<unk>"}
    rest = iter([*_TEXT.split(), *(f"w{number}" for number in range(VOCABULARY))])
    ids = {special.get(number) or next(rest): number for number in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.add_special_tokens([word for number, word in sorted(special.items())])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        unk_token="<unk>",
        padding_side="left",
        extra_special_tokens=files.named,
    )


def _name_classes(file: Path, files: Files) -> None:
    """Name the classes as published checkpoints do: the image processor's without `Pil`, and the video processor's."""
    content = json.loads(file.read_text(encoding="utf-8"))
    image = content["image_processor"]
    image["image_processor_type"] = image["image_processor_type"].removesuffix("Pil")
    if files.video:
        content[VIDEO_PROCESSOR] = {"video_processor_type": files.video, **files.frames}
    file.write_text(json.dumps(content, indent=2), encoding="utf-8")
