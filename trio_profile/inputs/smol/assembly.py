"""Assemble `smol` from its parts and from what `scripts/train_smol` learned.

It is an unmodified LlavaForConditionalGeneration, assembled once, into the user's cache. Hidden states are
[B, T, 576], features of the tower [B, P, 384].
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import (
    AddedToken,
    AutoModelForCausalLM,
    AutoTokenizer,
    Dinov2Config,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.utils import logging as transformers_logging

from trio_profile.errors import StudyError, is_out_of_memory
from trio_profile.inputs.smol import parts
from trio_profile.inputs.smol.shapes import SIDE
from trio_profile.inputs.trained import TRAINED
from trio_profile.installation import missing_extra
from trio_profile.text import first_line

WEIGHTS = TRAINED["smol"] / "trained.safetensors"
"""The projector's weights, and A [16, I] and B [O, 16] of each linear layer of the decoder, whose weight gets B · A."""
FORMAT = 1
"""Of the assembled checkpoint. Another number makes the assembly again."""
PATCH = 14
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of a pixel's red, green and blue, as DINOv2 expects them."""
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""SmolLM2's own template without its system prompt, with a place for a picture."""
_STALE = 24 * 3600
_TOWER_GRID = 37
"""The tower's position embeddings are a grid of this many patches a side, for pictures of 518 pixels."""
_ONNX_POSITIONS = ("onnx::Concat_1957", "onnx::Reshape_1962")
_TOWER_NAMES = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
}


def checkpoint() -> Path:
    """Return the directory of the assembled model, which `from_pretrained` loads. The first call assembles it.

    Raises StudyError if a part is missing or another one, if this transformers cannot read it, or if the cache cannot
    be written.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "trio-profile"
    try:
        known = sha256(f"{FORMAT} {made_of()}".encode() + WEIGHTS.read_bytes())
        directory = cache / f"smol-{known.hexdigest()[:16]}"
        if directory.is_dir():
            return directory
        cache.mkdir(parents=True, exist_ok=True)
        _remove_stale(cache)
        with tempfile.TemporaryDirectory(prefix=".smol-", dir=cache) as made:
            save(Path(made) / "model", learned())
            try:
                (Path(made) / "model").rename(directory)
            except OSError:
                if not directory.is_dir():  # otherwise another process was faster
                    raise
    except OSError as error:
        raise StudyError(f"model 'smol' cannot be assembled in {cache}: {error}; set XDG_CACHE_HOME") from error
    return directory


def made_of() -> dict[str, str]:
    """Return the hash of each part, by its file."""
    return {part.file: part.sha256 for part in parts.ALL}


def _remove_stale(cache: Path) -> None:
    """Remove what killed processes left."""
    for left in cache.glob(".smol-*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _STALE:
                shutil.rmtree(left, ignore_errors=True)


def learned() -> dict[str, Tensor]:
    """Return the trained weights that ship with the project, in float32."""
    from safetensors.torch import load_file

    return {name: weight.float() for name, weight in load_file(WEIGHTS).items()}


def save(directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Write the checkpoint of the model with these trained weights, and its processor."""
    model = untrained()
    add(model, weights)
    model.save_pretrained(directory)
    processor().save_pretrained(directory)


@torch.no_grad()
def add(model: LlavaForConditionalGeneration, weights: Mapping[str, Tensor]) -> None:
    """Put trained weights into a model: the projector's in the place of its own, B · A on top of the decoder's."""
    inner = cast(Any, model.model)
    prefix = "projector."
    inner.multi_modal_projector.load_state_dict(
        {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}
    )
    for name in [name.removesuffix(".A") for name in weights if name.endswith(".A")]:
        linear = inner.language_model.get_submodule(name)
        linear.weight.add_(weights[f"{name}.B"] @ weights[f"{name}.A"])


def untrained() -> LlavaForConditionalGeneration:
    """Return the two pretrained models with a random projector between them, in float32.

    Raises StudyError if a part is missing, or if the packages that read it are.
    """
    language, tower = parts.path_of(parts.LANGUAGE), parts.path_of(parts.TOWER)
    with _readable():
        decoder = AutoModelForCausalLM.from_pretrained(language.parent, gguf_file=language.name, dtype=torch.float32)
        weights = _tower_weights(tower)
    tokens = processor().tokenizer
    text = decoder.config.to_dict()
    text.pop("quantization_config", None)
    config = LlavaConfig(
        vision_config=Dinov2Config(
            hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=SIDE, patch_size=PATCH
        ),
        text_config=text,
        image_token_index=tokens.convert_tokens_to_ids("<image>"),
        image_seq_length=(SIDE // PATCH) ** 2,
        tie_word_embeddings=True,
    )
    model = LlavaForConditionalGeneration(config).eval()
    model.resize_token_embeddings(len(tokens), mean_resizing=False)
    inner, pretrained = cast(Any, model.model), decoder.model.state_dict()
    with torch.no_grad():
        embeddings = pretrained.pop("embed_tokens.weight")
        inner.language_model.embed_tokens.weight.zero_()[: len(embeddings)] = embeddings
    missing = inner.language_model.load_state_dict(pretrained, strict=False)
    if missing.missing_keys != ["embed_tokens.weight"] or missing.unexpected_keys:
        raise StudyError(f"model 'smol': {language} does not fit this transformers: {missing}")
    inner.vision_tower.load_state_dict(_named(inner.vision_tower.state_dict(), weights, tower))
    model.tie_weights()
    model.generation_config.eos_token_id = tokens.convert_tokens_to_ids("<|im_end|>")
    model.generation_config.pad_token_id = tokens.pad_token_id
    return model


@contextmanager
def _readable() -> Iterator[None]:
    """Raise StudyError for a part that cannot be read here. The bars of transformers are not shown."""
    had_bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    except ImportError as error:
        raise StudyError(missing_extra("model 'smol'", "smol", error)) from error
    except Exception as error:  # of a foreign reader
        if is_out_of_memory(error):
            raise
        raise StudyError(
            f"model 'smol': a part cannot be read: {first_line(error)}; {parts.how_to_install()}"
        ) from error
    finally:
        if had_bar:
            transformers_logging.enable_progress_bar()


def _tower_weights(path: Path) -> dict[str, Tensor]:
    """Return the tower's weights from ONNX, by the names of DINOv2's first release in transformers.

    The export gave matrices numbers for names and turned them; the operator that uses one tells its name.
    """
    import onnx  # pyright: ignore[reportMissingImports]
    from onnx import numpy_helper  # pyright: ignore[reportMissingImports]

    graph = onnx.load(str(path)).graph
    weights = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "MatMul" and (used := [name for name in node.input if name in weights]):
            weights[node.name.removesuffix("/MatMul").strip("/").replace("/", ".") + ".weight"] = weights[used[0]].T
    first, grid = (weights[name] for name in _ONNX_POSITIONS)
    weights["backbone.embeddings.position_embeddings"] = torch.cat(
        [first.view(1, 1, -1), _resized(grid.view(1, _TOWER_GRID**2, -1), SIDE // PATCH)], 1
    )
    return weights


def _resized(grid: Tensor, side: int) -> Tensor:
    """Position embeddings [1, 37², E] → [1, side², E], as DINOv2 resizes them: bicubic."""
    square = grid.unflatten(1, (_TOWER_GRID, _TOWER_GRID)).permute(0, 3, 1, 2)
    small = torch.nn.functional.interpolate(square, size=(side, side), mode="bicubic", align_corners=False)
    return small.permute(0, 2, 3, 1).flatten(1, 2)


def _named(wanted: Mapping[str, Tensor], weights: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the weights under the names of this transformers. Raises StudyError if one is missing."""
    named: dict[str, Tensor] = {}
    for name, tensor in wanted.items():
        old = f"backbone.{name}"
        for new, before in _TOWER_NAMES.items():
            old = old.replace(new, before)
        if name == "embeddings.mask_token":  # of the training only
            named[name] = tensor
        elif old in weights and weights[old].shape == tensor.shape:
            named[name] = weights[old]
        else:
            raise StudyError(f"model 'smol': {path} has no weight for {name} of this transformers' Dinov2Model")
    return named


def processor() -> LlavaProcessor:
    """Return the processor: SmolLM2's tokenizer with a token for pictures, which are resized to 336 × 336 pixels and
    normalised as for DINOv2.

    Raises StudyError if a part is missing, or if the package that reads it is.
    """
    language = parts.path_of(parts.LANGUAGE)
    with _readable():
        tokens = AutoTokenizer.from_pretrained(language.parent, gguf_file=language.name)
    tokens.add_tokens([AddedToken("<image>", special=True, normalized=False)], special_tokens=True)
    side = {"height": SIDE, "width": SIDE}
    return LlavaProcessor(
        image_processor=CLIPImageProcessorPil(
            size=side, crop_size=side, do_center_crop=False, image_mean=list(MEAN), image_std=list(DEVIATION)
        ),
        tokenizer=tokens,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=TEMPLATE,
    )
