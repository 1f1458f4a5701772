"""One model with one input: what a cell runs, again and again.

A real picture and prompt go through the checkpoint's own processor; without them the input is drawn from the seed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from transformers import PreTrainedModel

from trio_core.models import adapter_for
from trio_core.models.adapter import Adapter
from trio_profile.errors import StudyError
from trio_profile.models import BUILTIN, Inputs, Loaded, load, without_weights
from trio_profile.schema import Shape, Study

DEFAULT_PROMPT = "Describe this picture."
_BEFORE_PICTURE = 35
"""Tokens of LLaVA's prompt before its picture: the begin token and 34 of the system line. [methods.md, 0.1]."""


@dataclass(frozen=True)
class Workload:
    """A model with its inputs on its device, and the sizes that the cost model needs.

    inputs: keyword arguments of the model's forward, one batch. new_tokens: how many are generated, exactly.
    """

    model: PreTrainedModel
    adapter: Adapter
    inputs: Inputs
    shape: Shape
    new_tokens: int

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def redrawn(self, generator: torch.Generator) -> "Workload":
        """The same model and prompt with a picture of the same shape, drawn anew."""
        inputs = {
            name: torch.randn(value.shape, generator=generator).to(value) if value.is_floating_point() else value
            for name, value in self.inputs.items()
        }
        return replace(self, inputs=inputs)

    @torch.no_grad()
    def prefill(self, *, use_cache: bool = True) -> Any:
        """One forward over the whole prompt, logits for the last row alone, as generation does it."""
        return self.model(**self.inputs, use_cache=use_cache, logits_to_keep=1)

    @torch.no_grad()
    def generate(self) -> Tensor:
        """Greedy generation of exactly `new_tokens` tokens: prefill, then one decode step for each further token."""
        return self.model.generate(  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
            **self.inputs,
            max_new_tokens=self.new_tokens,
            min_new_tokens=self.new_tokens,
            do_sample=False,
            pad_token_id=0,
        )


def build(study: Study, *, weights: bool = True) -> Workload:
    """Load the study's model, a built-in one also without its weights, and make its input.

    Raises StudyError for a model, picture or prompt that cannot be used; UnsupportedModel for a class we cannot prune.
    """
    return prepare(study, load(study, weights=weights))


def prepare(study: Study, loaded: Loaded) -> Workload:
    """Make the study's input for a model that is loaded. Raises as `build` does."""
    adapter = adapter_for(loaded.model)
    generator = torch.Generator().manual_seed(study.seed)
    if study.image is None and study.prompt is None and loaded.builtin is not None:
        inputs = _synthetic(study, loaded, adapter, generator)
    else:
        inputs = _processed(study, loaded, generator)
    inputs = _placed(inputs, study, loaded)
    visual = adapter.visual_tokens(inputs["input_ids"]).sum(dim=1).tolist()
    if min(visual) == 0:
        raise StudyError(f"the prompt of {study.model!r} holds no visual tokens: there is nothing to prune")
    length = inputs["input_ids"].shape[1]
    last = int(adapter.visual_tokens(inputs["input_ids"][:1])[0].nonzero()[-1])
    shape = shape_for(adapter, study, visual[0], length - visual[0], length - 1 - last)
    return Workload(loaded.model, adapter, inputs, shape, study.new_tokens)


def shape_of(study: Study) -> Shape:
    """The study's shape, without weights where the model is built in: what a dry run needs."""
    if study.model not in BUILTIN or study.image is not None or study.prompt is not None:
        return build(study).shape
    builtin = BUILTIN[study.model]
    text = study.text_tokens
    return shape_for(
        adapter_for(without_weights(builtin)), study, builtin.visual_tokens, text, text - _before_picture(text)
    )


def _synthetic(study: Study, loaded: Loaded, adapter: Adapter, generator: torch.Generator) -> Inputs:
    """Random text around the built-in's standard picture, `text_tokens` in all."""
    assert loaded.builtin is not None
    picture = loaded.builtin.picture(study.batch, generator)
    visual = loaded.builtin.visual_tokens
    before = _before_picture(study.text_tokens)
    # Ids that stand for something else than text would be found as pictures, or end the answer.
    lowest = 8
    highest = min(loaded.model.config.get_text_config().vocab_size, *adapter.placeholder_ids(), 32000)
    text = torch.randint(
        lowest, highest if highest > lowest else 256, (study.batch, study.text_tokens), generator=generator
    )
    span = torch.full((study.batch, visual), adapter.placeholder_ids()[0])
    ids = torch.cat([text[:, :before], span, text[:, before:]], dim=1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **picture}
    if adapter.multi_axis_positions:
        inputs["mm_token_type_ids"] = adapter.visual_tokens(ids).int()
    return inputs


def _before_picture(text_tokens: int) -> int:
    return min(_BEFORE_PICTURE, text_tokens // 2)


def _processed(study: Study, loaded: Loaded, generator: torch.Generator) -> Inputs:
    if loaded.processor is None:
        raise StudyError(
            f"model {study.model!r} has random weights and no tokenizer; "
            "a picture or a prompt needs a checkpoint, --model DIR"
        )
    image = open_picture(study.image) if study.image is not None else _random_picture(generator)
    text = _prompt(loaded.processor, study.prompt if study.prompt is not None else DEFAULT_PROMPT)
    return _encoded(study, loaded.processor, [image] * study.batch, [text] * study.batch)


def ask(study: Study, loaded: Loaded, pictures: Sequence[Image.Image], prompt: str) -> Inputs:
    """The inputs of one question about any number of pictures, which come first, on the model's device.

    Raises StudyError for a model without a processor, and for what its processor refuses.
    """
    if loaded.processor is None:
        raise StudyError(
            f"model {study.model!r} has no processor to ask it questions with; name a checkpoint directory"
        )
    text = _prompt(loaded.processor, prompt, len(pictures))
    return _placed(_encoded(study, loaded.processor, list(pictures), [text]), study, loaded)


def _encoded(study: Study, processor: Any, pictures: list[Image.Image], texts: list[str]) -> Inputs:
    try:
        encoded = processor(images=pictures or None, text=texts, return_tensors="pt")
    except (ValueError, TypeError, IndexError) as error:
        raise StudyError(f"the processor of {study.model!r} refuses this picture or prompt: {error}") from error
    return {name: value for name, value in encoded.items() if isinstance(value, Tensor)}


def _placed(inputs: Inputs, study: Study, loaded: Loaded) -> Inputs:
    """The inputs where the model is, in its type."""
    dtype = getattr(torch, study.dtype)
    # A model without weights keeps its inputs where they can be read.
    device = torch.device("cpu") if loaded.model.device.type == "meta" else loaded.model.device
    return {name: value.to(device, dtype if value.is_floating_point() else None) for name, value in inputs.items()}


def open_picture(path: str) -> Image.Image:
    """A picture file as RGB. Raises StudyError for a file that is missing, not a picture, or cut off."""
    try:
        return Image.open(Path(path)).convert("RGB")
    except FileNotFoundError as error:
        raise StudyError(f"image {path!r} does not exist") from error
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError, ValueError) as error:
        raise StudyError(f"image {path!r} is no picture that can be read: {error}") from error


def _random_picture(generator: torch.Generator) -> Image.Image:
    pixels = torch.randint(0, 256, (336, 336, 3), dtype=torch.uint8, generator=generator)
    return Image.fromarray(pixels.numpy())


def _prompt(processor: Any, prompt: str, pictures: int = 1) -> str:
    """The prompt in the checkpoint's own chat template; LLaVA-1.5's form where it has none."""
    if getattr(processor, "chat_template", None):
        content = [{"type": "image"}] * pictures + [{"type": "text", "text": prompt}]
        return processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    shown = f"{placeholder(processor)}\n" * pictures
    return f"USER: {shown}{prompt} ASSISTANT:"


def placeholder(processor: Any) -> str:
    """What stands for a picture in a processor's prompts."""
    return getattr(processor, "image_token", "<image>")


def shape_for(adapter: Adapter, study: Study, visual_tokens: int, text_tokens: int, text_after: int) -> Shape:
    """The sizes of a model and its input, of one sample and for the whole batch. text_after: behind the picture."""
    return Shape(
        num_layers=len(adapter.layers),
        itemsize=getattr(torch, study.dtype).itemsize,
        batch=study.batch,
        visual_tokens=visual_tokens,
        text_tokens=text_tokens,
        text_after=text_after,
        **asdict(adapter.layer_shape),
    )
