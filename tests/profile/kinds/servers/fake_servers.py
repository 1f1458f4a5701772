"""Servers and clocks for tests of `endpoints`.

FakeServer()      a server on loopback that speaks chat completions, with settable times and faults
Queue(…)          a server without a network: it encodes one request at a time, and the rest runs in parallel
virtual(main)     runs a coroutine in a loop whose time jumps to the next timer, so that nothing waits
study(**fields)   a small EndpointStudy
"""

import asyncio
import json
import random
import selectors
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trio_profile.kinds.servers.plan import prepare
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.kinds.servers.traffic.stream import Body, Reply, Stream

T = TypeVar("T")


def study(**fields: Any) -> EndpointStudy:
    """A study of two servers that are not there, with its loads."""
    given = {"dense": "http://dense", "pruned": "http://pruned", "concurrency": (1, 2, 4, 8), **fields}
    return prepare(EndpointStudy(**given))


# --- time that jumps -------------------------------------------------------------------------------------------------


class _Jump(selectors.BaseSelector):
    """A selector that never waits: it moves the loop's time on by as much as it should have waited."""

    def __init__(self) -> None:
        self.now = 0.0
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("the loop waits for something that never comes")
        self.now += max(timeout, 0.0)
        return []

    def register(self, fileobj, events, data=None):
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj):
        return self._real.unregister(fileobj)

    def get_map(self):
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


def virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time. It must not use a network or a thread."""
    selector = _Jump()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now
    # Timers are due exactly at their time.
    loop._clock_resolution = 1e-9  # pyright: ignore[reportAttributeAccessIssue]
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


@dataclass
class Queue:
    """A server that encodes one request at a time; the rest of the work runs in parallel for all requests.

    encode_s, rest_s: their times. In a closed loop of c requests it answers min(c / (encode_s + rest_s), 1 / encode_s)
        requests per second.
    noise: relative standard deviation of each time.
    exponential: whether the times of encoding have an exponential distribution. Then `throughput` is exact.
    fails: whether the n-th request fails.
    """

    encode_s: float
    rest_s: float
    noise: float = 0.0
    exponential: bool = False
    seed: int = 0
    prompt_tokens: int = 100
    fails: Callable[[int], bool] = lambda _: False
    bodies: list[Body] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw, self._encoder = random.Random(self.seed), None

    async def ask(self, body: Body) -> Reply:
        """Answer a request, as `Server.ask` does."""
        loop = asyncio.get_running_loop()
        self._encoder = self._encoder or asyncio.Lock()
        self.bodies.append(body)
        number, start = len(self.bodies), loop.time()
        async with self._encoder:
            mean = self.encode_s
            await asyncio.sleep(self._draw.expovariate(1 / mean) if self.exponential else self._noisy(mean))
        first = loop.time()
        await asyncio.sleep(self._noisy(self.rest_s))
        if self.fails(number):
            return Reply(start, loop.time(), status=503, error="HTTP 503: too busy")
        stream = Stream(first, loop.time(), 2, "stop", self.prompt_tokens, 2)
        return Reply(start, loop.time(), stream, 200)

    def throughput(self, at_once: int) -> float:
        """Answered requests per second in a closed loop, by mean value analysis [Reiser and Lavenberg 1980].

        It is exact for exponential times of encoding, and for any times of the rest.
        """
        waiting = found = 0.0
        for number in range(1, at_once + 1):
            encode = self.encode_s * (1 + waiting)
            found = number / (encode + self.rest_s)
            waiting = found * encode
        return found

    def _noisy(self, seconds: float) -> float:
        return seconds * max(self._draw.gauss(1, self.noise), 0.1)


# --- a server on loopback --------------------------------------------------------------------------------------------


@dataclass
class FakeServer:
    """A server on loopback. Use it in `with`; `url` is its address.

    models: the models that it lists.
    encode_s, rest_s: as in `Queue`.
    tokens: pieces of an answer.
    kept: the tokens of a picture in the prompt.
    says: the answer to a prompt, in one piece; None says numbers.
    fault: what is wrong with it: `status 503`, `json` (it does not stream), `early` (it closes the stream), `blind` (it
        refuses pictures), `ignores` (pictures add no tokens), `redirect`, `error` (an error in the stream), `dies` (an
        error without `error` and without `choices`, then [DONE]), `silent`.
    broken_from: the fault begins with this request, counted from 1.
    requests: the bodies and headers that came.
    """

    models: tuple[str, ...] = ("fake",)
    encode_s: float = 0.0
    rest_s: float = 0.0
    tokens: int = 3
    kept: int = 64
    says: Callable[[str], str] | None = None
    fault: str = ""
    broken_from: int = 1
    requests: list[tuple[dict[str, Any], dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> "FakeServer":
        self._loop = asyncio.new_event_loop()
        started = threading.Event()

        def serve() -> None:
            asyncio.set_event_loop(self._loop)
            self._encoder = asyncio.Lock()
            server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            started.set()
            self._loop.run_forever()
            server.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await self._read(reader)) is not None:
                path, headers, body = request
                if path.endswith("/models"):
                    data = {"data": [{"id": name, "owned_by": "fakes"} for name in self.models]}
                    _write(writer, 200, "application/json", json.dumps(data))
                elif not await self._answer(writer, headers, json.loads(body)):
                    break
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
        line = await reader.readline()
        if not line:
            return None
        headers: dict[str, str] = {}
        while header := (await reader.readline()).decode().strip():
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return line.decode().split()[1], headers, body

    async def _answer(self, writer: asyncio.StreamWriter, headers: dict[str, str], body: dict[str, Any]) -> bool:
        """Answer one request. Return whether the connection stays open."""
        self.requests.append((body, headers))
        seen = any(part["type"] != "text" for part in body["messages"][0]["content"])
        fault = self.fault if len(self.requests) >= self.broken_from else ""
        if fault.startswith("status"):
            said = {"error": {"message": f"no\nluck with {headers.get('authorization', 'no key')}"}}
            _write(writer, int(fault.split()[1]), "application/json", json.dumps(said))
        elif fault == "redirect":
            writer.write(b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:1/elsewhere\r\nContent-Length: 0\r\n\r\n")
        elif fault == "blind" and seen:
            _write(writer, 400, "application/json", json.dumps({"detail": "this model takes no image"}))
        elif fault == "json":
            _write(writer, 200, "application/json", json.dumps({"choices": [{"message": {"content": "one"}}]}))
        else:
            return await self._stream(writer, body, seen=seen, fault=fault)
        return True

    async def _stream(self, writer: asyncio.StreamWriter, body: dict[str, Any], *, seen: bool, fault: str) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\nServer: fake/1\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        if fault == "silent":
            await asyncio.sleep(60)
        async with self._encoder:
            await asyncio.sleep(self.encode_s)
        kept = round(self.kept * body.get("ratio", 1.0)) if seen and fault != "ignores" else 0
        for number in range(self.tokens):
            if number:
                await asyncio.sleep(self.rest_s / max(self.tokens - 1, 1))
            text = f"{number} " if self.says is None else self.says(_prompt(body)) if number == 0 else " "
            _event(writer, {"choices": [{"delta": {"content": text}, "finish_reason": None}]})
            await writer.drain()
            if fault == "early":
                return False
            if fault == "error":
                _event(writer, {"error": {"message": "out of memory"}})
        if fault == "dies":
            _event(writer, {"text": "out of memory", "error_code": 50002})
            _chunk(writer, b"data: [DONE]\n\n")
            return False
        _event(writer, {"choices": [{"delta": {}, "finish_reason": "stop"}]})
        _event(writer, {"choices": [], "usage": {"prompt_tokens": 10 + kept, "completion_tokens": self.tokens}})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        return True


def _prompt(body: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in body["messages"][0]["content"])


def _event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    _chunk(writer, f"data: {json.dumps(event)}\n\n".encode())


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _write(writer: asyncio.StreamWriter, status: int, kind: str, text: str) -> None:
    data = text.encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
