"""Answer a request: its pictures, its prompt, and `generate` inside `prune`. This runs in the worker's process."""

import base64
import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from io import BytesIO
from typing import Any, cast

import torch
from PIL import Image
from torch import Tensor
from transformers.generation.streamers import BaseStreamer
from transformers.utils import logging as transformers_logging

from trio_core.errors import TrioError
from trio_core.methods.method import Method
from trio_core.models import adapter_for
from trio_core.pruning import prune
from trio_core.trace import Trace
from trio_profile.engine.plan import method_of
from trio_profile.errors import ProfileError, StudyError
from trio_profile.extras.serve.request import Body, Ended, Refused, require_room
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.chat import ask_in_messages
from trio_profile.inputs.models import Loaded, load
from trio_profile.inputs.questions import read_picture
from trio_profile.inputs.workload import DEFAULT_PROMPT, placed
from trio_profile.records.study import MOST_PIXELS, Study

NEW_TOKENS = 1024
"""The longest answer to a request without `max_tokens`."""
POSITIONS = 32_768
"""The longest sequence of a model whose configuration does not say."""
COLDEST = 1e-5
"""Below this temperature the likeliest token is taken: logits that are divided by it could overflow."""

Say = Callable[[str], None]
"""Sends a piece of the answer's text. What it raises ends the answer."""


def prepare(study: Study, *, dense: bool = False) -> tuple[Loaded, Method | None]:
    """Load a study's model with its method, and let it answer one question, so that users do not see the first fault.

    study: with one method at one retention.
    dense: serve the dense model; the method does not matter.
    Raises StudyError if the model cannot be loaded, has no chat template, or cannot answer, pruned as it is asked.
    Raises OptionError for an option of the method that is out of its range.
    """
    method = None if dense else method_of(study.cells()[0], study)
    builtin = BUILTIN.get(study.model)
    if builtin is not None and builtin.checkpoint is None:
        raise StudyError(f"model {study.model!r} has random weights; serve pocket or a checkpoint")
    if builtin is not None and builtin.converted is not None:
        raise StudyError(f"model {study.model!r} takes clips, and requests have pictures; serve pocket or a checkpoint")
    loaded = load(study)
    if not getattr(loaded.processor, "chat_template", None):
        raise StudyError(f"model {study.model!r} has no chat template, which a server needs; serve another one")
    warnings.simplefilter("ignore")  # Python opens the file of a line that warns
    transformers_logging.set_verbosity(logging.ERROR)
    Image.init()  # otherwise the first picture of a rare format imports its reader
    try:
        answer(loaded, method, _trial())
    except (Refused, ProfileError, TrioError) as error:
        raise StudyError(f"model {study.model!r} cannot be served: {Refused.of(error).why}") from error
    return loaded, method


def positions_of(loaded: Loaded) -> int:
    """Return the longest sequence of a model in tokens."""
    return getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None) or POSITIONS


def _trial() -> Body:
    """Return a request about a random picture. It samples, so that what sampling needs is imported."""
    file = BytesIO()
    Image.effect_noise((336, 336), 64).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    content = [{"type": "image_url", "image_url": url}, {"type": "text", "text": DEFAULT_PROMPT}]
    sampling = {"temperature": 1.0, "top_p": 0.9, "seed": 0, "max_tokens": 2, "ignore_eos": True}
    return Body.model_validate({"messages": [{"role": "user", "content": content}], **sampling})


def answer(loaded: Loaded, method: Method | None, body: Body, say: Say = lambda _: None) -> Ended:
    """Answer a request.

    method: None for the dense model.
    Raises Refused, ProfileError and TrioError for a request that cannot be answered, and what `say` raises.
    """
    messages = [
        {
            "role": "system" if message.role == "developer" else message.role,
            "content": [
                {"type": "image"} if part.image_url else {"type": "text", "text": part.text} for part in message.content
            ],
        }
        for message in body.messages
    ]
    pictures = pictures_of([part.image_url.url for part in body.parts if part.image_url])
    inputs, model = ask_in_messages(loaded.processor, messages, pictures), cast(Any, loaded.model)
    length, positions = inputs["input_ids"].shape[1], positions_of(loaded)
    require_room(length, positions - 1, "tokens")
    limit = min(body.max_completion_tokens or body.max_tokens or NEW_TOKENS, positions - length)
    pieces = _Pieces(getattr(loaded.processor, "tokenizer", loaded.processor), say)
    if body.seed is not None:
        torch.manual_seed(body.seed)
    with nullcontext() if method is None else prune(model, method) as trace:
        made = model.generate(
            **placed(inputs, model),
            **_sampling(body),
            num_beams=1,  # an answer is streamed
            max_new_tokens=limit,
            min_new_tokens=limit if body.ignore_eos else None,
            streamer=pieces,
        )
    ends = torch.tensor(model.generation_config.eos_token_id or [], device=made.device)
    reason = "stop" if torch.isin(made[0, -1], ends) else "length"
    visual = int(adapter_for(model).visual_tokens(inputs["input_ids"]).sum())
    return Ended(pieces.text, reason, _usage(length - visual, visual, trace, made.shape[1] - length))


def pictures_of(urls: Sequence[str]) -> list[Image.Image]:
    """Return the pictures of data URLs, such as `data:image/png;base64,iVBORw0…`.

    Raises StudyError for data that are no picture, and for more than MOST_PIXELS together.
    """
    pictures: list[Image.Image] = []
    for url in urls:
        head, _, text = url.partition(",")
        try:
            file = BytesIO(base64.b64decode(text, validate=True))
        except ValueError as error:
            raise StudyError(f"image_url {head!r}: the data are not base64 ({error})") from error
        pictures.append(read_picture(file, f"image_url {head!r}"))
        if sum(picture.width * picture.height for picture in pictures) > MOST_PIXELS:
            raise StudyError(f"the pictures have more than {MOST_PIXELS} pixels together; send smaller ones")
    return pictures


def _sampling(body: Body) -> dict[str, Any]:
    """Return the arguments of `generate` that choose tokens. Without one the checkpoint's configuration decides."""
    if body.temperature is None:
        return {} if body.top_p is None else {"top_p": body.top_p}
    if body.temperature < COLDEST:
        return {"do_sample": False}
    return {"do_sample": True, "temperature": body.temperature, "top_p": body.top_p or 1.0}


class _Pieces(BaseStreamer):
    """Says the text of each token at once. transformers' TextStreamer keeps a word back until the next one begins.

    text: what was said.
    """

    def __init__(self, tokenizer: Any, say: Say):
        self.tokenizer, self.say = tokenizer, say
        self.text = ""
        self.ids: list[int] | None = None

    def put(self, value: Tensor) -> None:
        """Take the prompt, which is not said, and then each new token."""
        self.ids = [] if self.ids is None else [*self.ids, *value.tolist()]
        self.end(whole=False)

    def end(self, *, whole: bool = True) -> None:
        """Say what is left. whole: whether no token follows that completes a character."""
        text = self.tokenizer.decode(self.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if whole or not text.endswith("\N{REPLACEMENT CHARACTER}"):
            text, self.text = text[len(self.text) :], text
            self.say(text)


def _usage(text: int, visual: int, trace: Trace | None, new: int) -> dict[str, Any]:
    """Return the tokens that ran, in OpenAI's form.

    `prompt_tokens` are the text tokens and the kept visual tokens, averaged over the decoder's layers and rounded. They
    come from pruning's trace, not from a plan. `prompt_tokens_details` has the two parts, `text_tokens` and
    `image_tokens`; `image_tokens_before`, the visual tokens before pruning; and `retention`, the realised one. `notes`
    are those of the trace, if it has any: how it differs from what was asked.

    text, visual: tokens of the prompt before pruning.
    trace: None of the dense model, which ran on all of them.
    """
    retention, notes = (1.0, ()) if trace is None else (trace.realised_retention, trace.notes)
    kept = round(visual * retention)
    details = {"text_tokens": text, "image_tokens": kept, "image_tokens_before": visual, "retention": retention}
    counts = {"prompt_tokens": text + kept, "completion_tokens": new, "total_tokens": text + kept + new}
    return {**counts, "prompt_tokens_details": details | ({"notes": list(notes)} if notes else {})}
