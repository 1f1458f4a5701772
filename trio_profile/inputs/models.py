"""Load the model that a study names: a built-in one, a checkpoint directory, or a repository of the model hub.

Nothing here reaches the hub unless the user names one of its repositories.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import logging as transformers_logging

from trio_profile import units
from trio_profile.errors import StudyError, is_out_of_memory, release
from trio_profile.inputs import catalogue
from trio_profile.inputs.builtin import BUILTIN, Builtin
from trio_profile.inputs.large_weights import LARGE, with_large_weights
from trio_profile.inputs.processors import load_processor, load_with_pixels
from trio_profile.inputs.questions import Question
from trio_profile.inputs.trained import trained_as
from trio_profile.records.schema import Study
from trio_profile.text import first_line


@dataclass(frozen=True)
class Loaded:
    """A loaded model.

    model: in evaluation mode, on its device.
    processor: None for a built-in model that has none.
    builtin: None for a checkpoint of the user's.
    """

    model: PreTrainedModel
    processor: Any | None
    builtin: Builtin | None


def load(study: Study, *, weights: bool = True) -> Loaded:
    """The model that a study names, in evaluation mode on the study's device.

    weights: False loads a built-in model on the meta device, without weights. Other models always have theirs.
    Raises StudyError if the name is neither built in nor a checkpoint, if the checkpoint cannot be loaded, if there is
    no such device, or if the device has too little memory; also if no attention has the study's name, and if the study
    sets pixels for a model that cannot take them.
    """
    check_attention(study.attention)
    if study.pixels and study.model in BUILTIN:
        least, most = study.pixels
        raise StudyError(
            f"pixels = {least},{most}: model {study.model!r} is built in and its pictures have one size; "
            "name a checkpoint, --model DIR, or leave pixels out"
        )
    builtin = BUILTIN.get(study.model)
    if builtin is None:
        catalogue.require_model(study.model)
        with _on_device(study) as device:
            return Loaded(*_trained(study.model, study, device), None)
    if not weights:
        model = without_weights(builtin, study.attention)
    else:
        with _on_device(study) as device:
            model = _builtin_weights(builtin, study, device)
    return Loaded(model, builtin.processor and builtin.processor(), builtin)


@contextmanager
def _on_device(study: Study) -> Iterator[torch.device]:
    """A context in which a model is loaded onto the study's device. On CUDA the device stays this thread's current one.

    Raises StudyError if there is no such device, or if the model does not fit into its memory.
    """
    device = device_of(study.device)
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    try:
        yield device
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        release(error)
        raise StudyError(
            f"model {study.model!r} does not fit into the memory of {device}; choose a smaller --dtype or another "
            "--device"
        ) from error


def _builtin_weights(builtin: Builtin, study: Study, device: torch.device) -> PreTrainedModel:
    if builtin.checkpoint is None:
        return _random_weights(builtin, study, device)
    model, _ = _trained(str(builtin.checkpoint()), study, device)
    if builtin.converted is not None:
        model = builtin.converted(model).to(device)  # pyright: ignore[reportArgumentType]
    return model


def _trained(checkpoint: str, study: Study, device: torch.device) -> tuple[PreTrainedModel, Any]:
    """The model and the processor of a checkpoint."""
    had_bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        processor = load_with_pixels(checkpoint, study.pixels) if study.pixels else load_processor(checkpoint)
        model = AutoModelForImageTextToText.from_pretrained(
            checkpoint, dtype=getattr(torch, study.dtype), attn_implementation=study.attention, **catalogue.NO_CODE
        )
    except StudyError:
        raise
    # A foreign checkpoint may fail anywhere in the loading code. The user gets one line in every case.
    except Exception as error:
        if "attn_implementation" in str(error) or "FlashAttention" in str(error):
            raise StudyError(_refused_attention(study.attention, error)) from error
        raise StudyError(f"model {study.model!r} cannot be loaded: {first_line(error)}") from error
    finally:
        if had_bar:
            transformers_logging.enable_progress_bar()
    return model.eval().to(device), processor  # pyright: ignore[reportArgumentType]


def _refused_attention(attention: str, error: Exception) -> str:
    """Why a model cannot use an attention kernel, and the one that every model can use."""
    why = first_line(error).partition(" an attention implementation")[0]  # then transformers names its issue tracker
    return f"attention {attention!r} cannot be used here: {why}; choose --attention eager"


def check_attention(name: str) -> None:
    """Raise StudyError unless transformers knows an attention of this name. A kernel of the hub has a name with `/`."""
    known = ["eager", *ALL_ATTENTION_FUNCTIONS.valid_keys()]
    if name not in known and "/" not in name:
        choices = ", ".join(sorted(kernel for kernel in known if not kernel.startswith("paged|")))
        raise StudyError(f"attention {name!r} is unknown to transformers; choose {choices}")


def own_questions(study: Study) -> Callable[[int], list[Question]] | None:
    """A function from a number n to the first n questions that the model was trained to answer, with their answers.

    None if the model has no such questions, or if the study sets a picture or a prompt of its own.
    """
    name = trained_as(study.model)
    return BUILTIN[name].questions if name is not None and catalogue.has_own_questions(study) else None


def without_weights(builtin: Builtin, attention: str = "sdpa") -> PreTrainedModel:
    """The model on the meta device: it has all shapes and uses no memory."""
    with torch.device("meta"):
        return builtin.cls._from_config(builtin.config(), attn_implementation=attention).eval()


def _random_weights(builtin: Builtin, study: Study, device: torch.device) -> PreTrainedModel:
    """A built-in model with weights drawn from the study's seed.

    On a CPU, a model with at least LARGE parameters gets its weights from `large_weights`.
    """
    config = builtin.config()
    dtype = getattr(torch, study.dtype)
    parameters = sum(p.numel() for p in without_weights(builtin).parameters())
    require_memory(parameters, dtype, device, study.model)
    config._attn_implementation = study.attention
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        # The fork keeps the user's own random state unchanged.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), device:
            make = partial(builtin.cls._from_config, config, attn_implementation=study.attention)
            torch.manual_seed(study.seed)
            model = with_large_weights(make, study.seed) if parameters >= LARGE and device.type == "cpu" else make()
    except (ValueError, ImportError) as error:
        raise StudyError(_refused_attention(study.attention, error)) from error
    finally:
        torch.set_default_dtype(before)
    return model.eval()


def require_memory(parameters: int, dtype: torch.dtype, device: torch.device, name: str) -> None:
    """Raise StudyError if the weights do not fit into the device's free memory."""
    needed = parameters * dtype.itemsize
    free = _free_device_memory(device) if device.type == "cuda" else _free_host_memory()
    if free is not None and needed > free:
        raise StudyError(
            f"model {name!r} needs {units.size(needed)} for its weights in {str(dtype).removeprefix('torch.')}, and "
            f"{device} has {units.size(free)} free; choose a smaller --dtype or another --device"
        )


def _free_device_memory(device: torch.device) -> int:
    """Bytes that new tensors of a CUDA device can have: those that the driver has, and the cached blocks of torch."""
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def _free_host_memory() -> int | None:
    """Bytes of free memory of the host; None if the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def device_of(name: str) -> torch.device:
    """The torch device of this name. Raises StudyError if it is absent, or if we cannot read its clock."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise StudyError(f"device {name!r} is unknown to torch; choose cpu or cuda") from error
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise StudyError(
            f"device {name!r}: this machine has {torch.cuda.device_count()} CUDA devices; choose --device cpu"
        )
    if device.type not in ("cpu", "cuda"):
        raise StudyError(f"device {name!r} cannot be timed; choose cpu or cuda")
    return device
