"""One server behind a URL that speaks OpenAI's chat completions: which models it has, and one streamed answer.

Nothing is sent to another address: redirects are not followed, and no proxy of the environment is used.
"""

import asyncio
import codecs
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import httpx2

from trio_profile.kinds.servers.study import base_of
from trio_profile.kinds.servers.traffic.stream import Body, Reply, Stream, words_of
from trio_profile.reading import parse_json
from trio_profile.text import first_line, one_line

_MOST_BYTES = 8_000_000
"""A longer answer has failed."""
_LONGEST_REASON = 200
_STREAM = "text/event-stream"


class Server(AbstractAsyncContextManager["Server"]):
    """The client of one server. Use it in `async with`.

    url: the base address, with or without `/v1`.
    key: sent as a bearer token; None for none. No error message contains it.
    timeout: seconds after which a request has failed.
    transport: None for the network.
    """

    def __init__(
        self, url: str, key: str | None, timeout: float, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self.url = url
        self._base, self._key, self._timeout = base_of(url), key, timeout
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=None,  # `_send` has the only one
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            follow_redirects=False,
            trust_env=False,
            transport=transport,
        )

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def models(self) -> tuple[dict[str, str], Reply]:
        """Return the models that the server lists, each with its owner (`owned_by`), and the reply.

        There are none if the server does not say, or if the reply has an error.
        """
        models: dict[str, str] = {}

        async def read(response: httpx2.Response) -> None:
            with suppress(ValueError, LookupError, TypeError, AttributeError):  # it does not say
                listed = parse_json(await self._content(response))["data"]
                models.update({str(model["id"]): str(model.get("owned_by") or "") for model in listed})

        return models, await self._send("GET", "models", read)

    async def ask(self, body: Body) -> Reply:
        """Send one request and read its streamed answer. An error is part of what is returned, never raised."""
        stream = Stream(max_tokens=body.get("max_tokens"))

        async def read(response: httpx2.Response) -> str | None:
            kind = response.headers.get("content-type", "nothing").partition(";")[0].strip().lower()
            if kind != _STREAM:
                return f"it does not stream: it answers with {kind}: {await self._reason_of(response)}"
            async for line in _lines(response):
                stream.read(self._without_key(line), asyncio.get_running_loop().time())
                if stream.error is not None:
                    break
            return None

        reply = await self._send("POST", "chat/completions", read, headers={"Accept": _STREAM}, json=body)
        reply.stream, fault = stream, stream.close()
        if fault is not None and (reply.error is None or stream.error is not None):  # its own words come first
            reply.error = one_line(self._without_key(fault))[:_LONGEST_REASON]
        if reply.error is None and stream.last is not None:
            reply.end = stream.last
        return reply

    async def _send(
        self, method: str, path: str, read: Callable[[httpx2.Response], Awaitable[str | None]], **content: Any
    ) -> Reply:
        """Send one request, and return its reply without a stream.

        read: reads an answer that is no error; it returns what is wrong with it, or None.
        """
        loop = asyncio.get_running_loop()
        reply = Reply(loop.time())
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._client.stream(method, f"{self._base}/{path}", **content) as response,
            ):
                reply.status = response.status_code
                reply.software = self._without_key(response.headers.get("server", ""))
                if response.is_redirect:
                    place = response.headers.get("location", "nowhere")
                    reply.error = f"it redirects to {place}, which is not followed"
                elif not response.is_success:
                    reply.error = f"HTTP {response.status_code}: {await self._reason_of(response)}"
                else:
                    reply.error = await read(response)
        except TimeoutError:
            reply.error = f"no answer within {self._timeout:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            reply.error = _reason(error, answered=reply.status is not None)
        if reply.error is not None:
            reply.error = one_line(self._without_key(reply.error))[:_LONGEST_REASON]
        reply.end = loop.time()
        return reply

    def _without_key(self, text: str) -> str:
        """Return a text without the key. Do this before a text is cut, or a part of the key may stay."""
        if not self._key:
            return text
        return text.replace(self._key, "…").replace(json.dumps(self._key)[1:-1], "…")

    async def _reason_of(self, response: httpx2.Response) -> str:
        """Return the message of an answer that is no stream, in one line and without the key."""
        return words_of(await self._content(response)) or "no reason"

    async def _content(self, response: httpx2.Response) -> str:
        """Return a whole answer without the key."""
        return self._without_key("\n".join([line async for line in _lines(response)]))


async def _lines(response: httpx2.Response) -> AsyncIterator[str]:
    """Yield the lines of an answer. Raises StreamError if it is too long. No more than that is kept in memory.

    Lines end as in server-sent events: with LF, CR or both. A byte order mark is left out.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")("replace"), translate=True)
    rest, size = "", 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > _MOST_BYTES:
            raise httpx2.StreamError(f"its answer has more than {_MOST_BYTES} bytes")
        *lines, rest = (rest + decoder.decode(part)).split("\n")
        for line in lines:
            yield line
    for line in (rest + decoder.decode(b"", final=True)).split("\n"):
        yield line


def _reason(error: BaseException, *, answered: bool) -> str:
    """Return why a request failed: the reason, with the error that led to this one, such as `Connection refused`."""
    cause = error
    while (before := cause.__cause__ or cause.__context__) is not None:
        cause = before
    reason = getattr(cause, "strerror", None) or first_line(cause)
    if isinstance(error, httpx2.StreamError):
        return reason
    if isinstance(error, httpx2.DecodingError):
        return f"its answer cannot be decompressed ({reason})"
    if isinstance(error, httpx2.ConnectError | httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return f"it cannot be reached ({reason})"
    return "it closed the stream before the end of its answer" if answered else f"it broke the connection ({reason})"
