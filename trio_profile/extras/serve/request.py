"""The body of a chat completion: a short list of typed fields. Everything else is refused by its name, before work.

No field is passed on to transformers as it came, and none can name a file or an address: pictures are `data:` URLs.
"""

from reprlib import repr as shortened
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError, model_validator

from trio_core.errors import TrioError
from trio_profile.errors import ProfileError, is_out_of_memory
from trio_profile.reading import parse_json
from trio_profile.text import first_line, one_line

MOST_SIGNS = 50_000
"""The most commas and opening brackets of a body: they bound its values. A picture in base64 has none."""
MOST_FIELDS = 100
"""The most fields of an object. Each one that is wrong costs time."""
MOST_PICTURES = 32
"""The most pictures of a request."""
LETTERS_A_TOKEN = 64
"""No tokenizer has longer tokens on average. A text with more letters than this times the positions is not read."""


class Refused(Exception):
    """A request that is not answered.

    status: of HTTP.
    why: one line.
    param: the field that is wrong, if one is.
    code: a word for programs, if OpenAI has one.
    """

    def __init__(self, status: int, why: str, param: str | None = None, code: str | None = None):
        super().__init__(status, why, param, code)  # so that it can be sent to another process
        self.status, self.why, self.param, self.code = status, why, param, code

    @classmethod
    def of(cls, error: Exception) -> "Refused":
        """Return the refusal of a request that met an error."""
        if isinstance(error, Refused):
            return error
        if isinstance(error, ProfileError | TrioError):
            return cls(400, first_line(error))
        if is_out_of_memory(error):
            return cls(413, "the request needs more memory than requests may take; send less")
        return cls(500, f"{type(error).__name__}: {first_line(error)}")

    def document(self) -> dict[str, Any]:
        """Return the error in OpenAI's form."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.why, "type": kind, "param": self.param, "code": self.code}}


class Ended(NamedTuple):
    """The end of an answer.

    text: the whole answer.
    finish_reason: `stop`, or `length` if it was cut off.
    usage: the tokens that ran, in OpenAI's form.
    """

    text: str
    finish_reason: str
    usage: dict[str, Any]


class _Strict(BaseModel):
    """An object of a body.

    neutral: the names of fields that are not supported, with the values that change nothing, as clients send them.
        Null is always one of them.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _without_neutral(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        if len(fields) > MOST_FIELDS:
            raise ValueError(f"{len(fields)} fields: at most {MOST_FIELDS}")
        neutral = {name: (None, *values) for name, values in cls.neutral.items()}
        return {name: value for name, value in fields.items() if value not in neutral.get(name, ())}


class Address(_Strict):
    """The address of a picture, which is the picture itself."""

    neutral = {"detail": ("auto",)}
    url: Annotated[str, Field(pattern="^data:image/[^,]{1,100};base64,")]


class Part(_Strict):
    """A part of a message: a text, or a picture, whose address some clients give as a text."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: Annotated[Address, BeforeValidator(lambda x: {"url": x} if isinstance(x, str) else x)] | None = None

    @model_validator(mode="after")
    def _has_one_content(self) -> "Part":
        if self.model_fields_set != {"type", self.type} or getattr(self, self.type) is None:
            raise ValueError(f"give {self.type}, and nothing else beside type")
        return self


class Message(_Strict):
    """One message of the conversation. Its content may be a text."""

    neutral = {"refusal": (), "annotations": ([],), "tool_calls": ([],), "function_call": (), "audio": ()}
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        list[Part], FailFast(), BeforeValidator(lambda x: [{"type": "text", "text": x}] if isinstance(x, str) else x)
    ]
    name: str | None = None


class StreamOptions(_Strict):
    """continuous_usage_stats: of no effect. GuideLLM asks for the usage in every chunk, and reads the last."""

    neutral = {"include_obfuscation": (False,)}
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Body(_Strict):
    """A request that can be answered. A field that is None was not given.

    temperature: 0 takes the likeliest token. Without it the checkpoint's own configuration decides.
    ignore_eos: whether the answer has exactly `max_tokens` tokens, as in vLLM.
    user, metadata: labels, which change nothing.
    """

    neutral = {
        **dict.fromkeys(("presence_penalty", "frequency_penalty", "top_logprobs", "min_p", "min_tokens"), (0,)),
        **dict.fromkeys(("n", "repetition_penalty"), (1,)),
        **dict.fromkeys(("logprobs", "store"), (False,)),
        **dict.fromkeys(("stop", "tools", "functions", "logit_bias"), ([], {})),
        **dict.fromkeys(("tool_choice", "function_call", "service_tier"), ("none", "auto", "default")),
        **dict.fromkeys(("audio", "prediction", "reasoning_effort", "verbosity", "web_search_options"), ()),
        **dict.fromkeys(("prompt_cache_key", "safety_identifier"), ()),
        "parallel_tool_calls": (True, False),
        "top_k": (0, -1),
        "modalities": (["text"],),
        "response_format": ({"type": "text"},),
    }
    messages: Annotated[list[Message], FailFast(), Field(min_length=1)]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int | None = None
    ignore_eos: bool | None = None
    user: str | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None

    @property
    def parts(self) -> list[Part]:
        """The parts of all messages, in order."""
        return [part for message in self.messages for part in message.content]


def read(raw: bytes, model: str, positions: int) -> Body:
    """Return a checked body.

    model: the name of the model that is served.
    positions: its longest sequence in tokens.
    Raises Refused for a body that cannot be answered.
    """
    if sum(map(raw.count, (b",", b"[", b"{"))) > MOST_SIGNS:
        raise Refused(413, f"the body has more than {MOST_SIGNS} commas and brackets; send less")
    try:
        body = Body.model_validate(parse_json(raw, unique=True))
    except ValidationError as error:
        raise _fault_of(error) from None
    except ValueError as error:
        raise Refused(400, f"the body is not JSON that can be read: {first_line(error)}") from None
    if body.model not in (None, model):
        why = f"model {shortened(body.model)} is not served; this server has {model!r}"
        raise Refused(404, one_line(why), "model", "model_not_found")
    if (pictures := sum(part.image_url is not None for part in body.parts)) > MOST_PICTURES:
        raise Refused(400, f"{pictures} pictures: at most {MOST_PICTURES} in a request", "messages")
    require_room(sum(len(part.text) for part in body.parts), LETTERS_A_TOKEN * positions, "letters")
    return body


def require_room(size: int, most: int, unit: str) -> None:
    """Raise Refused for a prompt that the model's positions cannot hold."""
    if size > most:
        why = f"the prompt has {size} {unit}, and the model has room for {most}; shorten it"
        raise Refused(400, why, "messages", "context_length_exceeded")


_WHY = {
    "extra_forbidden": "this server does not support it; leave it out",
    "string_pattern_mismatch": "this server reads no file and fetches nothing; give data:image/png;base64,…",
}
"""What is wrong with a field, by pydantic's type of the fault, where pydantic's own words do not help."""


def _fault_of(error: ValidationError) -> Refused:
    """Return the first fault of a body: the field, its value, and what is possible."""
    fault = error.errors(include_url=False)[0]
    field = one_line(".".join(str(step)[:80] for step in fault["loc"])) or "body"
    value = "" if fault["type"] == "missing" else f" = {shortened(fault['input'])}"
    why = _WHY.get(fault["type"], fault["msg"].removeprefix("Value error, "))
    return Refused(400, one_line(f"{field}{value}: {why}"), field, fault["type"])
