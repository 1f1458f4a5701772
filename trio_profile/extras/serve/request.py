"""The body of a chat completion: what is honoured, and its limits. Anything else is refused by its name, before work.

The limits hold before a picture is decoded, a text is read into tokens, or the model runs. So one request cannot take
the memory of the machine.
"""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from io import BytesIO
from typing import Annotated, Any, Literal

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trio_profile.errors import StudyError
from trio_profile.inputs.questions import read_picture, size_of
from trio_profile.records.study import MOST_PIXELS
from trio_profile.text import first_line, one_line

MOST_BYTES = 32 * 1024 * 1024
"""The longest body of a request."""
MOST_PICTURES = 32
"""The most pictures of a request. Together they have at most MOST_PIXELS."""
LETTERS_A_TOKEN = 64
"""No tokenizer has longer tokens on average. A text with more letters than this times the positions is not read."""

ASGI = Callable[[Any, Any, Any], Awaitable[None]]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Address(BaseModel):
    model_config = ConfigDict(strict=True)
    url: str


class Text(_Strict):
    """A part of a message: text."""

    type: Literal["text"]
    text: str


class Picture(_Strict):
    """A part of a message: a picture. image_url: the address, or an object that has it."""

    type: Literal["image_url"]
    image_url: str | _Address

    @property
    def url(self) -> str:
        """The address."""
        return self.image_url if isinstance(self.image_url, str) else self.image_url.url


Part = Annotated[Text | Picture, Field(discriminator="type")]


class Message(_Strict):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] = ""
    name: str | None = None


class _StreamOptions(_Strict):
    include_usage: bool = True
    continuous_usage_stats: bool = False


class Body(_Strict):
    """A request that can be answered. A field that is None was not given.

    stream_options: accepted, because the last chunk always has the usage. GuideLLM asks for it in every chunk, and
        reads the last.
    user, metadata, store: accepted, because they have no effect on answers.
    n: one answer.
    generation_config: JSON of transformers' GenerationConfig, in place of the checkpoint's.
    """

    messages: Annotated[list[Message], Field(min_length=1)]
    model: str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Field(gt=-1, le=2)] | None = None
    logit_bias: dict[Annotated[str, Field(pattern=r"^\d+$")], float] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    generation_config: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None

    @field_validator("generation_config")
    @classmethod
    def _is_an_object(cls, value: str | None) -> str | None:
        if value is not None and not isinstance(json.loads(value), dict):
            raise ValueError("give a JSON object")
        return value

    def passed_on(self) -> dict[str, Any]:
        """Return the fields that transformers reads."""
        of_no_effect = {"stream_options", "n", "user", "metadata", "store"}
        return self.model_dump(exclude_none=True, exclude=of_no_effect)


class Refused(Exception):
    """A request that is not answered. status: of HTTP."""

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


def read(body: Mapping[str, Any], positions: int | None) -> Body:
    """Return a checked body.

    positions: the longest sequence of the model in tokens; None if it does not say.
    Raises Refused, with one line, for a body that cannot be answered.
    """
    try:
        request = Body.model_validate(body)
    except ValidationError as error:
        raise Refused(422, _fault_of(error)) from error
    parts = [part for message in request.messages if isinstance(message.content, list) for part in message.content]
    pictures = sum(isinstance(part, Picture) for part in parts)
    if pictures > MOST_PICTURES:
        raise Refused(422, f"{pictures} pictures: at most {MOST_PICTURES} in a request")
    texts = [message.content for message in request.messages if isinstance(message.content, str)]
    letters = sum(map(len, texts)) + sum(len(part.text) for part in parts if isinstance(part, Text))
    if positions is not None and letters > LETTERS_A_TOKEN * positions:
        raise Refused(413, f"{letters} letters of text: more than the model's {positions} positions can hold")
    return request


def _fault_of(error: ValidationError) -> str:
    """Return a fault of a body in one line: the field, its value, and what is possible."""
    fault = max(error.errors(include_url=False), key=lambda fault: len(fault["loc"]))  # the deepest, of a union
    branches = {"str", "list[tagged-union[Text,Picture]]", "_Address"}  # of a union: no part of the body
    where = ".".join(str(step) for step in fault["loc"] if step not in branches)
    if fault["type"] == "extra_forbidden":
        return f"field {where!r} is not supported by this server; leave it out"
    if fault["type"] == "missing":
        return f"field {where!r} is missing"
    return f"{where} {one_line(repr(fault['input']))}: {first_line(Exception(fault['msg'])).lower()}"


def pictures_of(urls: list[str]) -> list[Image.Image]:
    """Return the pictures of data URLs, such as `data:image/png;base64,iVBORw0…`.

    Raises StudyError for any other address, because this server reads no file and fetches nothing; also for data that
    are no picture, and for more than MOST_PIXELS together. No picture is decoded before the sizes of all are known.
    """
    files = [_data_of(url) for url in urls]
    pixels = 0
    for head, file in files:
        width, height = size_of(file, head)
        pixels += width * height
        if pixels > MOST_PIXELS:
            raise StudyError(f"the pictures have more than {MOST_PIXELS} pixels together; send smaller ones")
    return [read_picture(file, head) for head, file in files]


def _data_of(url: str) -> tuple[str, BytesIO]:
    """Return the name of a data URL for messages, and its bytes as a file."""
    head, comma, text = url.partition(",")
    if not (head.startswith("data:image/") and head.endswith(";base64") and comma):
        raise StudyError(
            f"image_url {url[:60]!r}: this server reads no file and fetches nothing; give the picture itself, as "
            "data:image/png;base64,…"
        )
    try:
        return f"image_url {head!r}", BytesIO(base64.b64decode(text, validate=True))
    except binascii.Error as error:
        raise StudyError(f"image_url {head!r}: the data are not base64 ({error})") from error


class LimitedBodies:
    """An ASGI application that refuses bodies of more than MOST_BYTES with status 413, without reading on.

    inner: the application that gets all other requests, whose bodies are then in memory.
    """

    def __init__(self, inner: ASGI):
        self.inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Read the body of an HTTP request, and pass it on whole."""
        if scope["type"] != "http":
            return await self.inner(scope, receive, send)
        body = bytearray()
        while True:
            event = await receive()
            if event["type"] != "http.request":
                break  # the client is gone
            body += event.get("body", b"")
            if len(body) > MOST_BYTES:
                return await _answer(send, 413, f"the body has more than {MOST_BYTES} bytes; send smaller pictures")
            if not event.get("more_body"):
                break
        passed = False

        async def whole() -> Any:
            nonlocal passed
            if passed:
                return await receive()  # it comes when the client leaves
            passed = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        return await self.inner(scope, whole, send)


async def _answer(send: Any, status: int, why: str) -> None:
    content = json.dumps({"detail": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
