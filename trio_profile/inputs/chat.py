"""Messages with pictures, as the inputs of a model: through the checkpoint's own chat template.

A message is `{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which?"}]}`. The pictures are
given beside the messages, in the order in which the messages show them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.workload import ask, encode, placeholder, rendered

Message = Mapping[str, Any]


def ask_in_messages(processor: Any, messages: Sequence[Message], pictures: Sequence[Image.Image]) -> Inputs:
    """Return the inputs of one question that consists of messages.

    A processor without a chat template takes one user's message whose pictures come first.

    Raises StudyError if the template or the processor refuses them, or if the template leaves out a picture.
    """
    if not getattr(processor, "chat_template", None):
        return ask(processor, pictures, _only_text(processor, messages))
    cleaned = [
        {**message, "content": [_cleaned(part, processor) for part in message["content"]]} for message in messages
    ]
    text, name = rendered(processor, cleaned), type(processor).__name__
    marks = next((n for mark in _marks(processor) if (n := text.count(mark))), 0)
    if marks != len(pictures):
        raise StudyError(f"the chat template of {name} shows {marks} of {len(pictures)} pictures of a question")
    return encode(processor, pictures, [text])


def _cleaned(part: Message, processor: Any) -> Message:
    """Return a part of a message without marks of pictures in its text: each mark would ask for another picture."""
    for mark in (placeholder(processor), getattr(getattr(processor, "tokenizer", None), "image_token", None)):
        if mark and part["type"] == "text" and mark in part["text"]:
            part = {**part, "text": part["text"].replace(mark, "").strip()}
    return part


def _marks(processor: Any) -> list[str]:
    """Return the texts that may stand for a picture in a rendered template. Gemma's begins with one of its own."""
    return [mark for mark in (getattr(processor, "boi_token", None), placeholder(processor), "<image>") if mark]


def _only_text(processor: Any, messages: Sequence[Message]) -> str:
    """Return the text of the only message. Raises StudyError if a chat template is needed."""
    kinds = [part["type"] for message in messages for part in message["content"]]
    if len(messages) != 1 or messages[0]["role"] != "user" or kinds != sorted(kinds):  # "image" sorts before "text"
        raise StudyError(
            f"{type(processor).__name__} has no chat template, so it takes one message whose pictures come first; name "
            "a checkpoint with a chat template"
        )
    return "\n".join(part["text"] for part in messages[0]["content"] if part["type"] == "text")
