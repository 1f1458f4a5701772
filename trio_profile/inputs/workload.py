"""A model with one input, which the cells of a study run many times, and the questions that it is asked.

A picture and a prompt of the user go through the checkpoint's own processor. Without them the input is one of the
model's own questions, or it is drawn from the seed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from PIL import Image
from torch import Tensor
from transformers import PreTrainedModel

from trio_core.methods.method import Method
from trio_core.models import adapter_for, plain_prompt
from trio_core.models.adapter import Adapter
from trio_core.pruning import prune
from trio_core.trace import Trace
from trio_profile.errors import StudyError
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.frames import read_video
from trio_profile.inputs.matching import normalised
from trio_profile.inputs.models import Loaded, load, own_questions
from trio_profile.inputs.questions import Question, enough, judged_by, open_picture, read_several
from trio_profile.inputs.questions import read as read_questions
from trio_profile.records.schema import Shape, Study

Medium = Image.Image | list[Image.Image]
"""A picture, or the frames of a clip."""
DEFAULT_PROMPT = "Describe this picture."
DEFAULT_TEXT_TOKENS = 60
OWN_QUESTIONS = 24
"""The default number of questions for a model with questions of its own."""
ASKED_TOGETHER = 8
"""The most questions in a batch; all have one length."""
_BEFORE_PICTURE = 35
"""Tokens of LLaVA's prompt before its picture: the begin token and 34 system tokens. [methods.md, 0.1]."""


@dataclass(frozen=True)
class Workload:
    """A model with its inputs.

    inputs: keyword arguments of the model's forward, one batch, on the model's device.
    shape: the sizes that the formulas need.
    new_tokens: the exact number of tokens that are generated.
    processor: None for a model without one.
    questions: fidelity is measured on them; empty if it is measured on random pictures.
    random_pixels: whether the pictures of `inputs` are noise.
    """

    model: PreTrainedModel
    adapter: Adapter
    inputs: Inputs
    shape: Shape
    new_tokens: int
    processor: Any = None
    questions: tuple[Question, ...] = ()
    random_pixels: bool = False

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.model.device

    def redrawn(self, generator: torch.Generator) -> "Workload":
        """The same model and prompt with a new random picture of the same shape."""
        inputs = {
            name: torch.randn(value.shape, generator=generator).to(value) if value.is_floating_point() else value
            for name, value in self.inputs.items()
        }
        return replace(self, inputs=inputs)

    def inputs_of(self, number: int) -> Inputs:
        """The inputs of one question, on the CPU.

        Raises StudyError if the processor refuses it, or if its video is too long for the model.
        """
        question = self.questions[number]
        try:
            inputs = ask(self.processor, [question.picture()], question.text)
            if question.is_of_video:
                _require_video_fits("its video", inputs, self.new_tokens, self.adapter, "the model")
            return inputs
        except StudyError as error:
            raise StudyError(f"question {number + 1}, {question.text[:60]!r}: {error}") from error

    def asked_together(self, first: int = 0) -> Iterator[tuple[list[int], Inputs]]:
        """Batches of questions of one size: the numbers of the questions, from the first on, and their inputs."""
        alike: dict[tuple[Any, ...], list[tuple[int, Inputs]]] = {}
        for number in range(first, len(self.questions)):
            inputs = self.inputs_of(number)
            alike.setdefault(tuple(value.shape for value in inputs.values()), []).append((number, inputs))
        for group in alike.values():
            for start in range(0, len(group), ASKED_TOGETHER):
                some = group[start : start + ASKED_TOGETHER]
                yield (
                    [number for number, _ in some],
                    {name: torch.cat([inputs[name] for _, inputs in some]) for name in some[0][1]},
                )

    def pruned(self, method: Method | None) -> AbstractContextManager[Trace | None]:
        """A context in which the model is pruned. Its value is pruning's trace.

        method: None for the dense model, which has no trace.
        """
        return nullcontext() if method is None else prune(self.model, method)

    @torch.no_grad()
    def prefill(self, *, use_cache: bool = True) -> Any:
        """One forward over the whole prompt, with logits for the last row only, as in generation."""
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
    """Load the study's model and make its input.

    weights: False loads a built-in model without weights.
    Raises StudyError if the model, picture or prompt cannot be used, UnsupportedModel if its class cannot be pruned.
    """
    return prepare(study, load(study, weights=weights))


def prepare(study: Study, loaded: Loaded) -> Workload:
    """Make the study's input for a loaded model. Raises as `build` does."""
    adapter = adapter_for(loaded.model)
    generator = torch.Generator().manual_seed(study.seed)
    questions = questions_of(study, loaded.processor)
    clip = next((question for question in questions if question.is_of_video and study.questions is not None), None)
    read_own = _own_picture(study) or (clip.picture if clip else None)
    video = f"video {study.video!r}" if study.video else f"the video of question {clip.text!r}" if clip else None
    if video is not None and not adapter.video_ids:
        raise StudyError(f"{video}: {adapter.family} has no videos; take a model such as LLaVA-OneVision")
    if video is None and (study.frames is not None or study.fps is not None):
        raise StudyError("frames and fps choose from a video, and the questions have none: leave them out")
    random_pixels = False
    if read_own is None and (own := own_questions(study)) and study.text_tokens is None:
        inputs = _longest(own, study.batch, loaded.processor)
    elif read_own is None and study.prompt is None and loaded.builtin is not None:
        inputs, random_pixels = _synthetic(study, loaded, adapter, generator), True
    else:
        prompt = study.prompt or (clip.text if clip else DEFAULT_PROMPT)
        inputs = _processed(study, loaded, read_own or partial(_random_picture, generator), prompt)
        random_pixels = read_own is None
    inputs = placed(inputs, loaded.model)
    visual = adapter.visual_tokens(inputs["input_ids"]).sum(dim=1).tolist()
    if min(visual) == 0:
        raise StudyError(f"the prompt of {study.model!r} holds no visual tokens: there is nothing to prune")
    if video is not None and study.image is None:
        _require_video_fits(video, inputs, study.new_tokens, adapter, repr(study.model))
    shape = shape_for(adapter, study, inputs)
    return Workload(loaded.model, adapter, inputs, shape, study.new_tokens, loaded.processor, questions, random_pixels)


def placed(inputs: Inputs, model: PreTrainedModel) -> Inputs:
    """Move inputs to a model's device and dtype. The inputs of a model without weights stay on the CPU."""
    device = torch.device("cpu") if model.device.type == "meta" else model.device
    return {
        name: value.to(device, model.dtype if value.is_floating_point() else None) for name, value in inputs.items()
    }


def questions_of(study: Study, processor: Any) -> tuple[Question, ...]:
    """The questions of the study's file, or the model's own. Empty if random pictures are used.

    Raises StudyError if the file cannot be used, if the tokenizer cannot spell an answer, or if there are too few
    questions for an interval.
    """
    count = study.fidelity_inputs
    if study.questions is not None:
        if processor is None:
            raise StudyError(f"model {study.model!r} has no tokenizer: questions need a checkpoint, --model DIR")
        files = [Path(file) for file in study.question_files]
        clips = partial(read_video, frames=study.frames, fps=study.fps)
        questions = read_several(files, count, clips) if len(files) > 1 else read_questions(files[0], clips)[:count]
        where = ", ".join(study.question_files)
        if len({question.is_of_video for question in questions}) > 1:
            raise StudyError(f"questions {where} are about pictures and about videos: ask them in two studies")
    elif own := own_questions(study):
        questions = own(OWN_QUESTIONS if count is None else count)
        where = f"questions of {study.model!r}"
    elif (picture := _own_picture(study)) and count:
        prompt = study.prompt or DEFAULT_PROMPT
        return (Question(picture, prompt, is_of_video=study.video is not None),)
    else:
        return ()
    if questions:
        enough(len(questions), where, answered=questions[0].answer is not None)
    for question in questions:
        if question.answer is not None and not normalised(_spelled(processor, question.answer), question.answer):
            raise StudyError(f"answer {question.answer!r}: the tokenizer of {study.model!r} cannot spell it")
    return tuple(judged_by(study.match, questions))


def padding(processor: Any) -> int:
    """The id that pads answers which end before the others of their batch."""
    tokenizer = getattr(processor, "tokenizer", processor)
    return tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def answer_tokens(processor: Any, question: Question) -> int:
    """The number of tokens of the known answer, the end token included."""
    return len(_answer_ids(processor, question.answer or "")) + 1


def _answer_ids(processor: Any, answer: str) -> list[int]:
    return processor.tokenizer(answer, add_special_tokens=False)["input_ids"]


def _spelled(processor: Any, answer: str) -> str:
    return processor.tokenizer.decode(_answer_ids(processor, answer), skip_special_tokens=True)


def _longest(questions: Callable[[int], list[Question]], batch: int, processor: Any) -> Inputs:
    """The inputs of the first questions with the most words, one batch."""
    known: list[Question] = []
    longest: list[Question] = []
    while len(longest) < batch:
        known = questions(len(known) + 3 * batch)
        words = [len(question.text.split()) for question in known]
        longest = [question for question, length in zip(known, words, strict=True) if length == max(words)]
    encoded = [ask(processor, [question.picture()], question.text) for question in longest[:batch]]
    return {name: torch.cat([inputs[name] for inputs in encoded]) for name in encoded[0]}


def _synthetic(study: Study, loaded: Loaded, adapter: Adapter, generator: torch.Generator) -> Inputs:
    """Random text around the built-in model's standard picture, `text_tokens` in total."""
    assert loaded.builtin is not None
    picture = loaded.builtin.picture(study.batch, generator)
    visual = loaded.builtin.visual_tokens
    text_tokens = study.text_tokens or DEFAULT_TEXT_TOKENS
    before = min(_BEFORE_PICTURE, text_tokens // 2)
    # Special ids would be taken for pictures or end the answer. They lie at both ends of the vocabulary.
    lowest = 8
    pictures = (number for number in adapter.placeholder_ids() if number >= lowest)
    highest = min(loaded.model.config.get_text_config().vocab_size, *pictures, 32000)
    text = torch.randint(lowest, highest, (study.batch, text_tokens), generator=generator)
    placeholder_ids = adapter.video_ids if "pixel_values_videos" in picture else adapter.placeholder_ids()
    span = torch.full((study.batch, visual), placeholder_ids[0])
    ids = torch.cat([text[:, :before], span, text[:, before:]], dim=1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **picture}
    if adapter.multi_axis_positions:
        inputs["mm_token_type_ids"] = adapter.visual_tokens(ids).int()
    return inputs


def _processed(study: Study, loaded: Loaded, picture: Callable[[], Medium], prompt: str) -> Inputs:
    if loaded.processor is None:
        raise StudyError(
            f"model {study.model!r} has random weights and no tokenizer; "
            "a picture or a prompt needs a checkpoint, --model DIR"
        )
    if study.text_tokens is not None:
        raise StudyError(
            f"text_tokens {study.text_tokens}: random text is for a built-in model without picture and prompt; "
            "give --prompt instead"
        )
    image = picture()
    text = _prompt(loaded.processor, prompt, [image])
    return encode(loaded.processor, [image] * study.batch, [text] * study.batch)


def _own_picture(study: Study) -> Callable[[], Medium] | None:
    """Reads the picture or the video of the user. None if the study has neither."""
    if study.video is not None:
        return partial(read_video, study.video, study.frames, study.fps)
    return None if study.image is None else partial(open_picture, study.image)


def _require_video_fits(video: str, inputs: Inputs, new_tokens: int, adapter: Adapter, model: str) -> None:
    """Raise StudyError if the prompt with a video and its answer is longer than the model allows.

    video, model: their names for the message.
    """
    length, most = inputs["input_ids"].shape[1], adapter.model.config.get_text_config().max_position_embeddings
    if length + new_tokens > most:
        raise StudyError(
            f"{video} makes a prompt of {length} tokens, and {model} has {most} positions for it "
            f"and {new_tokens} new tokens; give fewer --frames"
        )


def ask(processor: Any, pictures: Sequence[Medium], text: str) -> Inputs:
    """The inputs of one question about some pictures. The pictures come first, wherever the text places them.

    Raises StudyError if the processor refuses them.
    """
    for picture in pictures:
        text = text.replace(placeholder(processor, kind_of(picture)), "")
    return encode(processor, pictures, [_prompt(processor, text, pictures)])


def encode(processor: Any, pictures: Sequence[Medium], texts: Sequence[str]) -> Inputs:
    """Prepare pictures and prompts by the checkpoint's own processor. Raises StudyError if it refuses them."""
    begin = getattr(getattr(processor, "tokenizer", None), "bos_token", None)
    # The chat template may already have written the begin token, which the tokenizer would add again.
    options = {"add_special_tokens": False} if begin and all(text.startswith(begin) for text in texts) else {}
    try:
        encoded = processor(**_by_kind(pictures, texts), text=list(texts), return_tensors="pt", **options)
    except (ValueError, TypeError, IndexError) as error:
        raise StudyError(f"{type(processor).__name__} refuses this input: {error}") from error
    # PaliGemma's processor adds labels, which are for training.
    return {name: value for name, value in encoded.items() if isinstance(value, Tensor) and name != "labels"}


def _by_kind(pictures: Sequence[Medium], texts: Sequence[str]) -> dict[str, Any]:
    """The pictures or the videos as arguments of a processor. Several prompts have one list of pictures each."""
    if any(isinstance(picture, list) for picture in pictures):
        metadata = [getattr(picture, "metadata", None) for picture in pictures]
        times = {"video_metadata": metadata} if all(metadata) else {}
        return {"videos": list(pictures), "do_sample_frames": False, **times}
    if len(texts) > 1 and len(pictures) == len(texts):
        # Gemma 3 and SmolVLM would take a list without lists as the pictures of one prompt.
        return {"images": [[picture] for picture in pictures]}
    return {"images": list(pictures) or None}


def _random_picture(generator: torch.Generator) -> Image.Image:
    pixels = torch.randint(0, 256, (336, 336, 3), dtype=torch.uint8, generator=generator)
    return Image.fromarray(pixels.numpy())


def _prompt(processor: Any, prompt: str, pictures: Sequence[Medium]) -> str:
    """The prompt in the checkpoint's own chat template. Without one it has the form of the model's family.

    Raises StudyError if the template refuses the prompt.
    """
    prompt = prompt.strip()
    if getattr(processor, "chat_template", None):
        content = [*({"type": kind_of(picture)} for picture in pictures), {"type": "text", "text": prompt}]
        return rendered(processor, [{"role": "user", "content": content}])
    return plain_prompt(processor, [placeholder(processor, kind_of(picture)) for picture in pictures], prompt)


def rendered(processor: Any, messages: Sequence[Any]) -> str:
    """Messages in the checkpoint's own chat template. Raises StudyError if it refuses them."""
    try:
        return processor.apply_chat_template(messages, add_generation_prompt=True)
    except (TemplateError, TypeError, ValueError, KeyError, IndexError) as error:
        raise StudyError(f"the chat template of {type(processor).__name__} refuses a question: {error}") from error


def placeholder(processor: Any, kind: str = "image") -> str:
    """The text that marks a picture, or a video, in a processor's prompts."""
    return getattr(processor, f"{kind}_token", f"<{kind}>")


def kind_of(picture: Medium) -> str:
    """`video` or `image`, as processors and chat templates name it."""
    return "video" if isinstance(picture, list) else "image"


def shape_for(adapter: Adapter, study: Study, inputs: Inputs) -> Shape:
    """The sizes of a model and its input. Tokens are those of the first sample, frames the mean over samples."""
    ids = inputs["input_ids"]
    length, visual = ids.shape[1], adapter.visual_tokens(ids[:1])[0].nonzero()[:, 0].tolist()
    of_videos = sum(int((ids == token).sum()) for token in adapter.video_ids)
    frames = sum(video.frames for video in adapter.videos(inputs, of_videos)) // len(ids)
    return Shape(
        num_layers=len(adapter.layers),
        itemsize=getattr(torch, study.dtype).itemsize,
        batch=study.batch,
        visual_tokens=len(visual),
        text_tokens=length - len(visual),
        text_after=length - 1 - visual[-1],
        **asdict(replace(adapter.layer_shape, frames=frames)),
    )
