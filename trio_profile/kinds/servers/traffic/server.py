"""One server behind a URL that speaks OpenAI's chat completions: which models it has, and one streamed answer.

Nothing is sent to another address: redirects are not followed, and no proxy of the environment is used.
"""

import asyncio
import errno
import json
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2

from trio_profile.kinds.servers.study import base_of
from trio_profile.kinds.servers.traffic.stream import Body, Reply, Stream, message_of
from trio_profile.reading import parse_json
from trio_profile.text import first_line, one_line

_MOST_BYTES = 8_000_000
"""A longer answer has failed."""
_LONGEST_REASON = 200
_STREAM = "text/event-stream"
UNREACHABLE = "it cannot be reached"
UNSTREAMED = "it does not stream"
"""How two of the reasons begin for which a request has failed."""
START = "start it, or correct its address"
WANTS_KEY = "give its key with --key-variable NAME"
REDIRECTED = "give the address to which it redirects"
"""Three ways out."""


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
            timeout=httpx2.Timeout(timeout),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            follow_redirects=False,
            trust_env=False,
            transport=transport,
        )

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def models(self) -> dict[str, str]:
        """Return the models that the server lists, each with its owner (`owned_by`); empty if it does not say.

        Raises ConnectionError, with the reason and the way out, if the server cannot be reached, does not answer in
        time, redirects, asks for a key or has a fault.
        """
        try:
            async with asyncio.timeout(self._timeout), self._client.stream("GET", f"{self._base}/models") as response:
                if response.status_code in (401, 403):
                    raise ConnectionError(f"HTTP {response.status_code}: {WANTS_KEY}")
                if response.is_redirect:
                    raise ConnectionError(f"{self._redirect(response)}; {REDIRECTED}")
                if response.is_server_error:
                    reason = (await self._reason_of(response))[:_LONGEST_REASON]
                    raise ConnectionError(f"HTTP {response.status_code}: {reason}; look into its log")
                listed = parse_json(await self._content(response))["data"] if response.is_success else []
                return {one["id"]: str(one.get("owned_by") or "") for one in listed if isinstance(one["id"], str)}
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise ConnectionError(f"it does not answer within {self._timeout:g} s; {START}") from error
        except (httpx2.ConnectError, httpx2.UnsupportedProtocol) as error:
            raise ConnectionError(f"{self._reason(error)}; {START}") from error
        except httpx2.InvalidURL as error:
            raise ConnectionError(f"its address is not valid ({first_line(error)}); {START}") from error
        except (httpx2.HTTPError, ValueError, KeyError, TypeError):
            return {}

    async def ask(self, body: Body) -> Reply:
        """Send one request and read its streamed answer. An error is part of what is returned, never raised."""
        loop = asyncio.get_running_loop()
        stream, seen, sent = Stream(), dict[str, Any](), loop.time()
        try:
            async with asyncio.timeout(self._timeout):
                content = json.dumps(body).encode()
                error = await self._read(content, stream, seen)
        except TimeoutError:
            error = f"no answer within {self._timeout:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as fault:
            error = self._reason(fault, seen)
        return Reply(
            sent=sent,
            first=stream.first,
            end=loop.time() if error is not None or stream.last is None else stream.last,
            stream=stream,
            error=None if error is None else one_line(self._without_key(error))[:_LONGEST_REASON],
            **seen,
        )

    async def _read(self, content: bytes, stream: Stream, seen: dict[str, Any]) -> str | None:
        """Read an answer into `stream`. Return what is wrong with it; None if nothing is.

        seen: gets the status and the software of the server.
        """
        loop = asyncio.get_running_loop()
        headers = {"Content-Type": "application/json", "Accept": _STREAM}
        url = f"{self._base}/chat/completions"
        async with self._client.stream("POST", url, content=content, headers=headers) as response:
            seen.update(status=response.status_code, software=self._without_key(response.headers.get("server", "")))
            if response.is_redirect:
                return f"{self._redirect(response)}, which is not followed"
            if not response.is_success:
                return f"HTTP {response.status_code}: {await self._reason_of(response)}"
            kind = response.headers.get("content-type", "nothing").partition(";")[0].strip()
            if kind != _STREAM:
                return f"{UNSTREAMED}: it answers with {kind}"
            async for line in _lines(response):
                if line is None:
                    return f"its answer has more than {_MOST_BYTES} bytes"
                stream.read(self._without_key(line), loop.time())
                if stream.error is not None:
                    return f"it says in its stream: {stream.error}"
        return stream.fault

    def _reason(self, error: BaseException, seen: dict[str, Any] | None = None) -> str:
        """Return why a request failed, in one line."""
        if getattr(_cause(error), "errno", None) in (errno.EMFILE, errno.ENFILE):
            return "this client may open no more connections; raise its limit (ulimit -n)"
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return f"{UNREACHABLE} ({_innermost(error)})"
        if isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError) and seen:
            return "it closed the stream before the end of its answer"
        return f"it broke the connection ({_innermost(error)})"

    def _redirect(self, response: httpx2.Response) -> str:
        return f"it redirects to {self._without_key(response.headers.get('location', 'nowhere'))}"

    def _without_key(self, text: str) -> str:
        """Return a text without the key. Do this before a text is cut, or a part of the key may stay."""
        if not self._key:
            return text
        return text.replace(self._key, "…").replace(json.dumps(self._key)[1:-1], "…")

    async def _reason_of(self, response: httpx2.Response) -> str:
        """Return the message of an answer that is an error, in one line and without the key."""
        text = await self._content(response)
        try:
            message = message_of(parse_json(text))
        except ValueError:
            message = ""
        return message or one_line(text) or "no reason"

    async def _content(self, response: httpx2.Response) -> str:
        """Return an answer without the key; of a very long one the beginning."""
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > _MOST_BYTES:
                break
        return self._without_key(content.decode("utf-8", "replace"))


async def _lines(response: httpx2.Response) -> AsyncIterator[str | None]:
    """Yield the lines of an answer; None at its end if it is too long. No more than that is kept in memory."""
    rest, read = b"", 0
    async for part in response.aiter_bytes():
        read += len(part)
        if read > _MOST_BYTES:
            yield None
            return
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")
    yield rest.decode("utf-8", "replace").rstrip("\r")


def _cause(error: BaseException) -> BaseException:
    """Return the error that led to this one."""
    while (cause := error.__cause__ or error.__context__) is not None and not isinstance(cause, asyncio.CancelledError):
        error = cause
    return error


def _innermost(error: BaseException) -> str:
    """Return the message of the error that led to this one, such as `Connection refused`."""
    error = _cause(error)
    if isinstance(error, ssl.SSLError):  # its number is none of the system's
        reason = getattr(error, "reason", None) or first_line(error)
        return f"no TLS connection: {reason.lower().replace('_', ' ')}; try http://"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno) if error.errno > 0 else str(error.strerror)
    return first_line(error)
