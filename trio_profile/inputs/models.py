"""The models that can be named: a small trained one, true sizes with random weights, and any checkpoint.

A true size is a configuration; its weights are drawn from a seed, because work and time depend on shapes and not on
weights. Nothing here reaches a hub unless the user names a hub repository.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaProcessor,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.utils import logging as transformers_logging

from trio_profile import units
from trio_profile.errors import StudyError
from trio_profile.inputs.pocket.checkpoint import SPECIALS, llava_processor
from trio_profile.inputs.pocket.exam import RECIPE, exam
from trio_profile.inputs.questions import Question
from trio_profile.inputs.token_packer import TokenPackerForConditionalGeneration
from trio_profile.records.schema import Study

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Builtin:
    """A model that needs no download.

    picture: what the model's own processor would make of its standard picture, for a batch, from a generator.
    visual_tokens: how many tokens the vision tower and projector make of that picture.
    processor: made in code where the model has a tokenizer of its own; None where real pictures need a checkpoint.
    checkpoint: where its trained weights are; None where they are drawn.
    """

    description: str
    cls: type[PreTrainedModel]
    config: Callable[[], PreTrainedConfig]
    picture: Callable[[int, torch.Generator], Inputs]
    visual_tokens: int
    processor: Callable[[], Any] | None = None
    checkpoint: Path | None = None


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode on its device, with its processor if it has one."""

    model: PreTrainedModel
    processor: Any | None
    builtin: Builtin | None


def load(study: Study, *, weights: bool = True) -> Loaded:
    """The model that a study names, with its weights; a built-in one also without them, on the meta device.

    Raises StudyError for a name that is neither built in nor a checkpoint, for a checkpoint that cannot be loaded, and
    for a device or an amount of memory that is not there.
    """
    if study.model in BUILTIN and not weights:
        builtin = BUILTIN[study.model]
        return Loaded(without_weights(builtin, study.attention), builtin.processor and builtin.processor(), builtin)
    device = device_of(study.device)
    builtin = BUILTIN.get(study.model)
    if builtin is not None and builtin.checkpoint is None:
        return Loaded(_random_weights(builtin, study, device), builtin.processor and builtin.processor(), builtin)
    if builtin is not None:
        model, processor = _trained(str(builtin.checkpoint), study, device)
        return Loaded(model, processor, builtin)
    _check_name(study.model)
    model, processor = _trained(study.model, study, device)
    return Loaded(model, processor, None)


def _trained(checkpoint: str, study: Study, device: torch.device) -> tuple[PreTrainedModel, Any]:
    """A checkpoint's model and processor."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        processor = AutoProcessor.from_pretrained(checkpoint)
        model = AutoModelForImageTextToText.from_pretrained(
            checkpoint, dtype=getattr(torch, study.dtype), attn_implementation=study.attention
        )
    # Whatever a foreign checkpoint breaks in the loading code, the user's way out is the same.
    except Exception as error:
        if "attn_implementation" in str(error):
            raise StudyError(f"attention {study.attention!r} cannot be used here: {_first_line(error)}") from error
        raise StudyError(f"model {study.model!r} cannot be loaded: {_first_line(error)}") from error
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
    return model.eval().to(device), processor  # pyright: ignore[reportArgumentType]


def _check_name(name: str) -> None:
    if not Path(name).is_dir() and not _is_hub_name(name):
        raise StudyError(
            f"unknown model {name!r}: built in are {', '.join(sorted(BUILTIN))}; "
            "otherwise name a checkpoint directory or a hub repository (owner/name)"
        )


def num_layers(name: str) -> int:
    """How many decoder layers a model has, from its configuration alone. Raises StudyError for one that is none."""
    if name in BUILTIN:
        return BUILTIN[name].config().get_text_config().num_hidden_layers
    _check_name(name)
    try:
        return AutoConfig.from_pretrained(name).get_text_config().num_hidden_layers
    except Exception as error:
        raise StudyError(f"model {name!r} cannot be loaded: {_first_line(error)}") from error


def own_questions(study: Study) -> Callable[[int], list[Question]] | None:
    """What gives the first so many questions that a model was trained to answer, with their answers.

    Only pocket models have some: the built-in one, and what scripts/train_pocket made, which leaves its recipe. None
    also where the study names another picture or prompt.
    """
    builtin = BUILTIN.get(study.model)
    directory = builtin.checkpoint if builtin is not None else Path(study.model)
    known = directory is not None and (directory / RECIPE).exists()
    return exam if known and study.image is None and study.prompt is None else None


def without_weights(builtin: Builtin, attention: str = "sdpa") -> PreTrainedModel:
    """The model on the meta device: all shapes, no memory."""
    with torch.device("meta"):
        return builtin.cls._from_config(builtin.config(), attn_implementation=attention).eval()


def _random_weights(builtin: Builtin, study: Study, device: torch.device) -> PreTrainedModel:
    config = builtin.config()
    dtype = getattr(torch, study.dtype)
    _require_memory(builtin, dtype, device, study.model)
    config._attn_implementation = study.attention
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        # Forking leaves the user's own random state as it was.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), device:
            torch.manual_seed(study.seed)
            model = builtin.cls._from_config(config, attn_implementation=study.attention)
    except (ValueError, ImportError) as error:
        raise StudyError(f"attention {study.attention!r} cannot be used here: {_first_line(error)}") from error
    finally:
        torch.set_default_dtype(before)
    return model.eval()


def _require_memory(builtin: Builtin, dtype: torch.dtype, device: torch.device, name: str) -> None:
    parameters = sum(p.numel() for p in without_weights(builtin).parameters())
    needed = parameters * dtype.itemsize
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _free_host_memory()
    if free is not None and needed > free:
        raise StudyError(
            f"model {name!r} needs {units.size(needed)} for its weights in {str(dtype).removeprefix('torch.')}, and "
            f"{device} has {units.size(free)} free; choose a smaller --dtype or another --device"
        )


def _free_host_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def device_of(name: str) -> torch.device:
    """A device that is here and has a clock, by its torch name. Raises StudyError for any other."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise StudyError(f"device {name!r} is none that torch knows; choose cpu or cuda") from error
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise StudyError(
            f"device {name!r}: this machine has {torch.cuda.device_count()} CUDA devices; choose --device cpu"
        )
    if device.type not in ("cpu", "cuda"):
        raise StudyError(f"device {name!r} has no clock that we know how to read; choose cpu or cuda")
    return device


def _is_hub_name(name: str) -> bool:
    owner, slash, repository = name.partition("/")
    return bool(slash and owner and repository) and "/" not in repository and owner not in (".", "..", "~")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


# --- pictures as the processors make them ----------------------------------------------------------------------


def _llava_picture(side: int) -> Callable[[int, torch.Generator], Inputs]:
    def picture(batch: int, generator: torch.Generator) -> Inputs:
        return {"pixel_values": torch.randn(batch, 3, side, side, generator=generator)}

    return picture


def _llava_next_picture(height: int, width: int) -> Callable[[int, torch.Generator], Inputs]:
    """A base crop and 2 × 2 tiles, of which what the picture does not cover is left out.

    672 × 672: 2880 patch tokens and 48 newlines enter the decoder. 448 × 640, a photograph: 2208 and 34.
    """

    def picture(batch: int, generator: torch.Generator) -> Inputs:
        return {
            "pixel_values": torch.randn(batch, 5, 3, 336, 336, generator=generator),
            "image_sizes": torch.tensor([[height, width]] * batch),
        }

    return picture


def _qwen_picture(batch: int, generator: torch.Generator) -> Inputs:
    """1008 × 1008, as TRIO's loaders fix it: 72 × 72 patches of 2 · 3 · 14 · 14 values, 1296 visual tokens."""
    return {
        "pixel_values": torch.randn(batch * 72 * 72, 2 * 3 * 14 * 14, generator=generator),
        "image_grid_thw": torch.tensor([[1, 72, 72]] * batch),
    }


# --- configurations ---------------------------------------------------------------------------------------------

_POCKET = Path(__file__).parent.parent / "data" / "pocket"
"""The trained pocket model: `scripts/train_pocket` made it, its README.md is the model card."""
_IMAGE_TOKEN = 4
"""The deep pocket model's placeholder: the fifth of its special tokens."""


def _pocket_deep_config() -> LlavaConfig:
    """576 visual tokens and 32 decoder layers, so that the paper's schedule applies, at a width that a laptop runs."""
    return LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            image_size=192,
            patch_size=8,
            projection_dim=64,
        ),
        text_config=LlamaConfig(
            hidden_size=256,
            intermediate_size=688,
            num_hidden_layers=32,
            num_attention_heads=4,
            num_key_value_heads=4,
            vocab_size=512,
            max_position_embeddings=4096,
            # 1/√d: at the library's 0.02 a network of this width says the same of every picture.
            initializer_range=0.0625,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        ),
        image_token_index=_IMAGE_TOKEN,
        image_seq_length=576,
    )


def _pocket_deep_processor() -> LlavaProcessor:
    """CLIP's preprocessing at 192 pixels, and a tokenizer of single bytes: nothing to download."""
    vocabulary = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(tokenizer_models.BPE(vocab={text: i for i, text in enumerate(vocabulary)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    return llava_processor(tokenizer, 192, 8)


def _clip_l_336() -> CLIPVisionConfig:
    return CLIPVisionConfig(
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        image_size=336,
        patch_size=14,
        projection_dim=768,
    )


def _vicuna_7b() -> LlamaConfig:
    return LlamaConfig(
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=32,
        vocab_size=32064,
        max_position_embeddings=4096,
        pad_token_id=0,
    )


def _llava_15_config() -> LlavaConfig:
    return LlavaConfig(
        vision_config=_clip_l_336(), text_config=_vicuna_7b(), image_token_index=32000, image_seq_length=576
    )


def _token_packer_config() -> LlavaConfig:
    """The released depths; the last is LLaVA's own, hidden_states[-2]."""
    return LlavaConfig(
        vision_config=_clip_l_336(),
        text_config=_vicuna_7b(),
        image_token_index=32000,
        image_seq_length=144,
        vision_feature_layer=[12, 16, 22, 23],
    )


def _yi_34b() -> LlamaConfig:
    return LlamaConfig(
        hidden_size=7168,
        intermediate_size=20480,
        num_hidden_layers=60,
        num_attention_heads=56,
        num_key_value_heads=8,
        vocab_size=64064,
        max_position_embeddings=4096,
        pad_token_id=0,
    )


def _llava_next_config(text: Callable[[], LlamaConfig], image_token: int) -> LlavaNextConfig:
    return LlavaNextConfig(
        vision_config=_clip_l_336(),
        text_config=text(),
        image_token_index=image_token,
        image_grid_pinpoints=[[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
    )


def _qwen_config(hidden: int, intermediate: int, layers: int, heads: int, key_heads: int) -> Qwen2_5_VLConfig:
    return Qwen2_5_VLConfig(
        text_config={
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": key_heads,
            "vocab_size": 152064,
            "max_position_embeddings": 128000,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": [16, 24, 24]},
        },
        vision_config={
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420 if hidden < 8192 else 3456,
            "num_heads": 16,
            "out_hidden_size": hidden,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
        image_token_id=151655,
        video_token_id=151656,
        vision_start_token_id=151652,
        vision_end_token_id=151653,
        tie_word_embeddings=False,
    )


BUILTIN: dict[str, Builtin] = {
    "pocket": Builtin(
        "LLaVA in small, trained: 576 visual tokens, questions with known answers; the embedded default",
        LlavaForConditionalGeneration,
        partial(LlavaConfig.from_pretrained, _POCKET),
        _llava_picture(192),
        576,
        partial(AutoProcessor.from_pretrained, _POCKET),
        _POCKET,
    ),
    "pocket-deep": Builtin(
        "the same picture in 32 decoder layers of width 256, untrained: the paper's schedule at a laptop's size",
        LlavaForConditionalGeneration,
        _pocket_deep_config,
        _llava_picture(192),
        576,
        _pocket_deep_processor,
    ),
    "llava-1.5-7b": Builtin(
        "LLaVA-1.5-7B at its true size: 576 visual tokens",
        LlavaForConditionalGeneration,
        _llava_15_config,
        _llava_picture(336),
        576,
    ),
    "tokenpacker-7b": Builtin(
        "TokenPacker in LLaVA-1.5-7B: 144 visual tokens of a projector that packs 2 × 2 patches into each",
        TokenPackerForConditionalGeneration,
        _token_packer_config,
        _llava_picture(336),
        144,
    ),
    "llava-next-7b": Builtin(
        "LLaVA-NeXT-7B at its true size: a 672 × 672 picture, 2928 visual tokens with its row ends",
        LlavaNextForConditionalGeneration,
        partial(_llava_next_config, _vicuna_7b, 32000),
        _llava_next_picture(672, 672),
        2928,
    ),
    "llava-next-7b-photo": Builtin(
        "LLaVA-NeXT-7B with a photograph of 640 × 448: 2242 visual tokens, near POPE's average of 2250",
        LlavaNextForConditionalGeneration,
        partial(_llava_next_config, _vicuna_7b, 32000),
        _llava_next_picture(448, 640),
        2242,
    ),
    "llava-next-34b": Builtin(
        "LLaVA-NeXT-34B at its true size, the same picture, grouped keys",
        LlavaNextForConditionalGeneration,
        partial(_llava_next_config, _yi_34b, 64000),
        _llava_next_picture(672, 672),
        2928,
    ),
    "qwen2.5-vl-7b": Builtin(
        "Qwen2.5-VL-7B at its true size: a 1008 × 1008 picture, 1296 visual tokens, grouped keys",
        Qwen2_5_VLForConditionalGeneration,
        partial(_qwen_config, 3584, 18944, 28, 28, 4),
        _qwen_picture,
        1296,
    ),
    "qwen2.5-vl-72b": Builtin(
        "Qwen2.5-VL-72B at its true size, the same picture",
        Qwen2_5_VLForConditionalGeneration,
        partial(_qwen_config, 8192, 29568, 80, 64, 8),
        _qwen_picture,
        1296,
    ),
}
"""The built-in models by name. But for `pocket`, their weights are random."""
