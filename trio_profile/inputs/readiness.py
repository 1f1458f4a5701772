"""Try a user's checkpoint, from its files to its answer: can it be pruned and measured here?"""

from collections.abc import Iterator
from typing import Any

from trio_core.engine.checking import self_check
from trio_core.pruning import prune
from trio_profile import units
from trio_profile.errors import StudyError
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.catalogue import require_model
from trio_profile.inputs.models import check_attention, device_of, load
from trio_profile.inputs.processors import VIDEO, NoVideos, load_processor
from trio_profile.inputs.workload import placeholder, prepare
from trio_profile.records.facts import TrialStep
from trio_profile.records.schema import Study
from trio_profile.text import first_line

STEPS = ("processor", "model", "chat template", "dense answer", "pruning", "pruned answer")
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
    trial = _seen_in_trial(study.model_copy(update={"prompt": prompt, "new_tokens": NEW_TOKENS}))
    steps: list[TrialStep] = []
    try:
        steps.extend(TrialStep(name, True, seen) for name, seen in zip(STEPS, trial, strict=True))
    # A foreign checkpoint may fail anywhere. What failed is the answer.
    except Exception as error:
        steps.append(TrialStep(STEPS[len(steps)], False, first_line(error)))
    return steps


def _seen_in_trial(study: Study) -> Iterator[str]:
    """Yield what each of STEPS sees. The processor is loaded alone first, so that a missing file of it is named."""
    builtin = BUILTIN.get(study.model)
    processor = load_processor(str(builtin.checkpoint()) if builtin and builtin.checkpoint else study.model)
    if not hasattr(processor, "image_processor") or not hasattr(processor, "tokenizer"):
        raise StudyError(f"{type(processor).__name__} is no processor with a tokenizer and an image processor")
    _require_words(processor)
    without = "; videos need torchvision" if isinstance(getattr(processor, VIDEO, None), NoVideos) else ""
    yield f"{type(processor).__name__}, pictures by {type(processor.image_processor).__name__}{without}"
    loaded = load(study)
    model: Any = loaded.model
    weights = units.exact(model.num_parameters())
    yield f"{type(model).__name__}, {weights} weights, {study.dtype} on {model.device}"
    workload = prepare(study, loaded)
    own = "its own" if getattr(loaded.processor, "chat_template", None) else "none, the prompt is plain"
    tokens = workload.shape.visual_tokens
    yield f"{own}; {tokens} visual tokens, {workload.shape.text_tokens} text tokens"
    workload.generate()
    yield f"{NEW_TOKENS} tokens"
    if faults := self_check(model, prune).faults:
        raise StudyError(faults[0])
    yield "at retention 1 the logits are the dense model's; decoding gives the logits of a longer prompt"
    with prune(model, "trio", retention=RETENTION) as trace:
        workload.generate()
    left = len(trace.stages[-1].kept[0])
    yield f"{NEW_TOKENS} tokens; {left} of {tokens} visual tokens are left (trio, {RETENTION})"


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
