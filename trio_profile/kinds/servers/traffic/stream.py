"""The streamed answer to a request, line by line: its text, its end and its numbers of tokens."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from trio_profile.reading import parse_json
from trio_profile.text import one_line

_FIELD = "data:"
_ANSWERS = ("content", "text")
"""The fields in which servers send the text of an answer."""
_TEXTS = (*_ANSWERS, "reasoning_content", "reasoning")
"""The fields in which servers send text."""
_BROKEN_OFF = {"abort", "aborted", "cancelled", "canceled", "content_filter", "error", "timeout"}
"""A `finish_reason` of vLLM, SGLang, TensorRT-LLM or OpenAI that says that the answer is not whole."""


@dataclass
class Stream:
    """A streamed answer (server-sent events of chat completions), as far as it has come.

    first, last: when the first and the last piece of text came, in seconds; None before it.
    pieces: the pieces of text.
    text: the text of the answer, without reasoning.
    ended: whether the answer has said its end.
    broken_off: the `finish_reason` of an answer that is not whole; empty if it is whole.
    prompt_tokens, output_tokens, cached_tokens: as the server reports them; None if it does not.
    engine: what the server says of its engine and its version (`system_fingerprint`); empty if it does not.
    error: what the server said was wrong, in one line; None if nothing was.
    """

    first: float | None = None
    last: float | None = None
    pieces: int = 0
    ended: bool = False
    broken_off: str = ""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    engine: str = ""
    error: str | None = None
    text: str = ""

    def read(self, line: str, now: float) -> None:
        """Read a line.

        now: when it came, in seconds.
        """
        if not line.startswith(_FIELD):
            return
        data = line.removeprefix(_FIELD).strip()
        if data == "[DONE]":
            self.ended = True
            return
        try:
            event = parse_json(data)
        except ValueError:
            self.error = f"an event of its stream is not JSON: {data[:80]!r}"
            return
        if isinstance(event, dict):
            self._read_event(event, now)

    def _read_event(self, event: dict[str, Any], now: float) -> None:
        if event.get("error"):
            self.error = message_of(event) or "an error without a message"
        if isinstance(engine := event.get("system_fingerprint"), str):
            self.engine = engine
        if isinstance(usage := event.get("usage"), dict):
            details = usage.get("prompt_tokens_details")
            self.prompt_tokens = _count(usage, "prompt_tokens", self.prompt_tokens)
            self.output_tokens = _count(usage, "completion_tokens", self.output_tokens)
            self.cached_tokens = _count(details, "cached_tokens", self.cached_tokens)
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        delta = choice["delta"] if isinstance(choice.get("delta"), dict) else choice
        if any(isinstance(delta.get(name), str) and delta[name] for name in _TEXTS):
            self.pieces += 1
            self.last = now
            self.first = now if self.first is None else self.first
            self.text += "".join(delta[name] for name in _ANSWERS if isinstance(delta.get(name), str))
        if (reason := choice.get("finish_reason")) is not None:
            self.ended = True
            self.broken_off = str(reason) if str(reason) in _BROKEN_OFF else ""

    @property
    def fault(self) -> str | None:
        """Why this answer does not count, in one line; None if it does."""
        if not self.ended:
            return "it closed the stream before the end of its answer"
        if self.broken_off:
            return f"it broke off its answer (finish_reason {self.broken_off})"
        if not self.pieces:
            return "its answer has no text"
        return "it reports an answer of 0 tokens" if self.output_tokens == 0 else None


Body = dict[str, Any]
"""The fields of a request."""


@dataclass
class Reply:
    """The answer to one request, or why it failed. Times are those of the event loop, in seconds.

    start: when the client began to send.
    end: when the answer ended or the request failed.
    stream: the answer, as far as it came.
    status: the HTTP status; None without an answer.
    error: why the request failed, in one line; None if it did not.
    software: the header `Server`.
    """

    start: float
    end: float = 0.0
    stream: Stream = field(default_factory=Stream)
    status: int | None = None
    error: str | None = None
    software: str = ""


Ask = Callable[[Body], Awaitable[Reply]]
"""A function that sends one request and returns its answer, or why it failed."""


def message_of(answer: Any) -> str:
    """Return the message of an error, in one line; empty if there is none.

    answer: the JSON value that a server sent. Servers use `error`, `message` or `detail`.
    """
    while isinstance(answer, dict):
        answer = next((answer[name] for name in ("error", "message", "detail") if answer.get(name)), None)
    if isinstance(answer, list):
        return message_of({"message": answer[0].get("msg")}) if answer and isinstance(answer[0], dict) else ""
    return one_line(answer) if isinstance(answer, str) else ""


def _count(usage: Any, name: str, known: int | None) -> int | None:
    """Return a number of tokens. What is no such number does not replace the one that is known."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and value >= 0 else known
