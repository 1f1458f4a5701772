"""Try a user's checkpoint, from its files to its answer: can it be pruned and measured here?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trio_core.engine.checking import self_check
from trio_core.pruning import prune
from trio_profile import units
from trio_profile.errors import StudyError
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.catalogue import require_model
from trio_profile.inputs.models import Loaded, check_attention, device_of, load
from trio_profile.inputs.processors import VIDEO, load_processor
from trio_profile.inputs.videos import NoVideos
from trio_profile.inputs.workload import Workload, placeholder, prepare
from trio_profile.records.facts import TrialStep
from trio_profile.records.schema import Study
from trio_profile.text import first_line

QUESTION = "What is this?"
RETENTION = 0.5
"""The share of the visual tokens that the pruned answer keeps."""
NEW_TOKENS = 3


def try_checkpoint(study: Study) -> list[TrialStep]:
    """The steps of a trial, up to the first that fails. The model is ready if all have passed.

    study: its model, device, dtype and attention are used.
    Raises StudyError if there is no such model, device or attention.
    """
    require_model(study.model)
    device_of(study.device)
    check_attention(study.attention)
    if study.model in BUILTIN and BUILTIN[study.model].checkpoint is None:
        raise StudyError(
            f"model {study.model!r} is built in and has no files to check; `models --check` tries its class"
        )
    prompt = None if study.model in BUILTIN else QUESTION  # a built-in checkpoint has questions of its own
    trial = _Trial(study.model_copy(update={"prompt": prompt, "new_tokens": NEW_TOKENS}))
    found: list[TrialStep] = []
    for name, attempt in trial.steps().items():
        try:
            found.append(TrialStep(name, True, attempt()))
        # A foreign checkpoint may fail anywhere. What failed is the answer.
        except Exception as error:
            return [*found, TrialStep(name, False, first_line(error))]
    return found


@dataclass
class _Trial:
    """The parts of a checkpoint, in the order in which they are loaded."""

    study: Study
    loaded: Loaded = field(init=False)
    workload: Workload = field(init=False)

    def steps(self) -> dict[str, Callable[[], str]]:
        return {
            "processor": self.load_processor,
            "model": self.load_model,
            "chat template": self.ask,
            "dense answer": self.answer_dense,
            "pruning": self.check_pruning,
            "pruned answer": self.answer_pruned,
        }

    def load_processor(self) -> str:
        """Load the processor alone, so that a missing file of it has a step of its own."""
        builtin = BUILTIN.get(self.study.model)
        processor = load_processor(str(builtin.checkpoint) if builtin is not None else self.study.model)
        if not hasattr(processor, "image_processor") or not hasattr(processor, "tokenizer"):
            raise StudyError(f"{type(processor).__name__} is no processor with a tokenizer and an image processor")
        _require_words(processor)
        pictures = type(processor.image_processor).__name__
        without = isinstance(getattr(processor, VIDEO, None), NoVideos)
        return f"{type(processor).__name__}, pictures by {pictures}" + ("; videos need torchvision" if without else "")

    def load_model(self) -> str:
        self.loaded = load(self.study)
        model: Any = self.loaded.model
        weights = units.exact(model.num_parameters())
        return f"{type(model).__name__}, {weights} weights, {self.study.dtype} on {model.device}"

    def ask(self) -> str:
        """Ask about a drawn picture, or about a clip, in the checkpoint's own chat template."""
        self.workload = prepare(self.study, self.loaded)
        shape = self.workload.shape
        own = "its own" if getattr(self.loaded.processor, "chat_template", None) else "none, the prompt is plain"
        return f"{own}; {shape.visual_tokens} visual tokens, {shape.text_tokens} text tokens"

    def answer_dense(self) -> str:
        self.workload.generate()
        return f"{NEW_TOKENS} tokens"

    def check_pruning(self) -> str:
        """The self-check of `models --check`, on this model."""
        seen = self_check(self.loaded.model, prune)
        if seen.faults:
            raise StudyError(seen.faults[0])
        return "at retention 1 the logits are the dense model's; decoding gives the logits of a longer prompt"

    def answer_pruned(self) -> str:
        with prune(self.loaded.model, "trio", retention=RETENTION) as trace:
            self.workload.generate()
        left, tokens = len(trace.stages[-1].kept[0]), self.workload.shape.visual_tokens
        return f"{NEW_TOKENS} tokens; {left} of {tokens} visual tokens are left (trio, {RETENTION})"


def _require_words(processor: Any) -> None:
    """Raise StudyError if the tokenizer does not know the picture's token or words.

    Without the tokenizer's files, transformers makes a tokenizer without words for some models, and raises nothing.
    """
    tokenizer, picture = processor.tokenizer, placeholder(processor)
    unknown = {None, tokenizer.unk_token_id}
    if tokenizer.convert_tokens_to_ids(picture) in unknown or not set(tokenizer(QUESTION)["input_ids"]) - unknown:
        raise StudyError(
            f"{type(tokenizer).__name__} does not know {picture!r} or the words of {QUESTION!r}: a file of the "
            "tokenizer is missing, such as tokenizer.json, or it belongs to another model"
        )
