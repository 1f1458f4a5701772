"""The streamed answer to a request, line by line: its text, its end and its numbers of tokens.

An answer counts if a chunk says why it ended (`finish_reason`) and no event is an error. Servers write errors in many
forms, so an event that is no chunk is an error too. `[DONE]` alone is no end: engines that died send it as well.
"""

import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from trio_profile.text import one_line

_ANSWERS = ("content", "text")
_TEXTS = (*_ANSWERS, "reasoning_content", "reasoning")
"""The fields in which servers send text; the first ones hold the answer itself."""
LIMITED = ("length", "max_tokens")
"""The `finish_reason` of an answer that is as long as it may be."""
_WHOLE = {
    *(*LIMITED, "stop", "tool_calls", "function_call"),  # OpenAI, vLLM, SGLang, lmdeploy, llama.cpp, Ollama
    *("eos", "eos_token", "stop_sequence", "end_id", "stop_words"),  # TGI, TensorRT-LLM
    *("end_turn", "tool_use", "complete"),  # proxies for other interfaces
}
_UNFINISHED = {"", "none", "null", "false", "not_finished"}
"""The `finish_reason` of a whole answer, and before the end of one. Any other one means that it was broken off."""
_MESSAGES = ("message", "error", "errors", "detail", "msg", "error_msg", "error_message", "text", "reason", "title")
"""The fields in which servers say what is wrong, the most telling one first."""
_CODES = ("object", "type", "code", "error_code", "status", "status_code")
_BAD_CODE = re.compile(r"error|[4-9]\d\d|\d{4,9}")
"""Fields of an event, and what they hold if it is an error."""
_TAG = re.compile("<[^>]*>")
_DONE = "[DONE]"
_MOST_TOKENS = 100_000_000
"""No model reads or writes more tokens at once."""


@dataclass
class _Block:
    """The lines of one event: its name, its data, its comments. start: when the first data came."""

    name: str = ""
    data: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    start: float = 0.0


@dataclass
class Stream:
    """A streamed answer (server-sent events of chat completions), as far as it has come.

    first, last: when the first and the last piece of text came, in seconds; None before it.
    pieces: the pieces of text.
    finish: why the answer ended, as the server says it (`finish_reason`, in small letters); None before its end.
    prompt_tokens, output_tokens, cached_tokens: as the server reports them; None if it does not. Those that cannot be
        are None after `close`.
    max_tokens: the most tokens that were asked for; None if that is not known.
    engine: what the server says of its engine and its version (`system_fingerprint`); empty if it does not.
    error: what is wrong, in one line; None if nothing is. The rest of the stream does not matter then.
    text: the text of the answer, without reasoning.
    odd_counts: numbers of tokens that cannot be, in words, by the tokens that they count.
    """

    first: float | None = None
    last: float | None = None
    pieces: int = 0
    finish: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    max_tokens: int | None = None
    engine: str = ""
    error: str | None = None
    text: str = ""
    odd_counts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._block, self._done, self._stray = _Block(), False, ""  # stray: what came beside the events of chunks
        self._bytes = self._hidden = self._counted = 0  # bytes of text; tokens without text; pieces that were counted

    def read(self, line: str, now: float) -> None:
        """Read a line.

        now: when it came, in seconds.
        """
        name, _, value = line.partition(":")
        value, block = value.strip(), self._block
        if not line:
            self._end_block()
        elif not name:
            block.comments.append(value)
        elif name == "event":
            block.name = value.lower()
        elif name == "data" and value:
            if len(block.data) == 1 and (block.data[0] == _DONE or _parsed(block.data[0]) is not None):
                self._end_block()  # no empty line between two events
            self._block.start = self._block.start if self._block.data else now
            self._block.data.append(value)
        elif name == "error":  # of llama.cpp
            self._fail(value)
        elif name not in ("data", "id", "retry"):
            self._keep_stray(line)

    def close(self) -> str | None:
        """Return why the answer does not count, in one line; None if it does. There are no more lines."""
        self._end_block(cut_off=True)
        self._check_counts()
        # A proxy may cut a character in half, and send each half as an escape.
        self.text = self.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if self.error is not None or self.finish is not None:
            return self.error or (None if self.pieces else "its answer has no text")
        fault = "it closed the stream before the end of its answer"
        if self._done:
            fault = f"it sent {_DONE} without a finish_reason, so its answer was broken off"
        return f"{fault}; it also sent: {words_of(self._stray)}" if self._stray else fault

    def _end_block(self, *, cut_off: bool = False) -> None:
        """Read the event whose lines have come. cut_off: whether lines may be missing."""
        block, self._block = self._block, _Block()
        data = "\n".join(block.data)
        if "error" in block.name:
            self._fail(data or "\n".join(block.comments))
        elif data == _DONE:
            self._done = True
        elif (event := _parsed(data)) is not None:
            self._read_event(event, data, block)
        elif data and not (cut_off and data[0] in "{["):
            self.error = f"an event of its stream is not JSON: {words_of(data)[:80]!r}"

    def _fail(self, words: str) -> None:
        self.error = self.error or f"it says in its stream: {words_of(words) or 'an error without a message'}"

    def _keep_stray(self, text: str) -> None:
        self._stray = f"{self._stray}\n{text}"[:1000]

    def _read_event(self, event: Any, data: str, block: _Block) -> None:
        """Read a JSON value. data: the same as text."""
        fields = _dict(event)
        choices, usage = fields.get("choices"), fields.get("usage")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not isinstance(event, dict) or _is_error(event) or not isinstance(choice, dict):
            self._fail(data)
        elif isinstance(choices, list) or isinstance(usage, dict):
            self._read_choice(choice, block.start)
            self._read_usage(_dict(usage))
        elif block.name in ("", "message"):
            self._fail(data)
        else:  # such as `event: ping`
            self._keep_stray(data)
        if isinstance(engine := fields.get("system_fingerprint"), str):
            self.engine = one_line(engine)

    def _read_choice(self, choice: dict[str, Any], now: float) -> None:
        delta = next((choice[name] for name in ("delta", "message") if isinstance(choice.get(name), dict)), choice)
        for wrong in (choice.get("error"), delta.get("error"), delta.get("refusal")):
            if _says(wrong):
                self._fail(message_of([wrong]))
        texts = {name: delta[name] for name in _TEXTS if isinstance(delta.get(name), str)}
        if text := "".join(texts.values()):
            self.pieces += 1
            self.last = now
            self.first = now if self.first is None else self.first
            self.text += "".join(texts.get(name, "") for name in _ANSWERS)
            self._bytes += len(text.encode("utf-8", "surrogatepass"))
        reason = choice.get("finish_reason")
        message = f": {message_of(reason)}" if message_of(reason) and isinstance(reason, dict) else ""
        reason = reason.get("type") if isinstance(reason, dict) else reason
        name = (one_line(reason)[:40] if isinstance(reason, str) else _as_text(reason)).lower()
        if name in _WHOLE:
            self.finish = name
        elif name not in _UNFINISHED:
            self.error = self.error or f"it broke off its answer (finish_reason {name}{message})"

    def _read_usage(self, usage: dict[str, Any]) -> None:
        prompt, output = (_dict(usage.get(f"{name}_tokens_details")) for name in ("prompt", "completion"))
        reported = {"prompt": usage.get("prompt_tokens"), "output": usage.get("completion_tokens")}
        for name, value in (*reported.items(), ("cached", prompt.get("cached_tokens"))):
            known = getattr(self, f"{name}_tokens")
            if value is not None and not _is_count(value):
                self.odd_counts[name] = f"{_as_text(value)} {name} tokens"
            elif value is not None and known is not None and value < known:
                self.odd_counts[name] = f"{name} tokens that fall from {known} to {value}"
            elif value is not None:
                setattr(self, f"{name}_tokens", value)
        self._counted = self.pieces if reported["output"] is not None else self._counted
        hidden = output.get("reasoning_tokens")
        self._hidden = hidden if _is_count(hidden) else self._hidden

    def _check_counts(self) -> None:
        """Set numbers of tokens aside that cannot be, and output tokens that were reported before the end."""
        prompt, output, cached = self.prompt_tokens, self.output_tokens, self.cached_tokens
        most = self._bytes + self._hidden + (self.finish not in LIMITED)  # the token that ends an answer has no text
        if output is not None and self.max_tokens is not None and output > self.max_tokens:
            self.odd_counts["output"] = f"{output} output tokens, where {self.max_tokens} were asked for"
        elif output is not None and not 0 < output <= most:
            self.odd_counts["output"] = f"{output} output tokens in a text of {self._bytes} bytes"
        if prompt == 0:
            self.odd_counts["prompt"] = "0 prompt tokens"
        elif prompt is not None and cached is not None and cached > prompt:
            self.odd_counts["cached"] = f"{cached} cached tokens of {prompt} prompt tokens"
        for name in self.odd_counts:
            setattr(self, f"{name}_tokens", None)
        if self._counted < self.pieces:
            self.output_tokens = None


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

    answer: the JSON value that a server sent.
    """
    while answer and isinstance(answer, dict | list):
        parts = answer if isinstance(answer, list) else map(answer.get, _MESSAGES)
        answer = next((part for part in parts if part and isinstance(part, str | dict | list)), None)
    return one_line(answer) if isinstance(answer, str) else ""


def words_of(text: str) -> str:
    """Return what an error says, in one line: the message of a JSON value, or a text without the tags of HTML."""
    value = _parsed(text)
    return message_of(value) or one_line(text if value is not None else _TAG.sub(" ", text))


def _parsed(text: str) -> Any:
    """Return the value of a JSON text; None if it is no JSON. NaN is allowed: servers send it among other numbers."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)


def _is_error(event: dict[str, Any]) -> bool:
    """Return whether an event says by one of its fields that it is an error."""
    codes = (str(event[name]) for name in _CODES if isinstance(event.get(name), str | int))
    return any(map(_BAD_CODE.fullmatch, codes)) or any(_says(event.get(name)) for name in ("error", "errors"))


def _says(error: Any) -> bool:
    """Return whether the value of a field `error` says that there is one. Some servers always send it, all empty."""
    return any(error.values()) if isinstance(error, dict) else bool(error)


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _MOST_TOKENS


def _as_text(value: Any) -> str:
    """Return the value of a field in a few characters."""
    return "{…}" if isinstance(value, dict | list) else repr(value)[:40]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
