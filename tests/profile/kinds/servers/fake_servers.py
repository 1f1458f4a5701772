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
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
    fault: what is wrong with it: `status 503`, `json` (it does not stream), `blind` (it refuses pictures), `ignores`
        (pictures add no tokens), `redirect`, `silent`. Streams with a fault are in traffic/streams.py.
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
        self.encoder = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("_OwnHandler", (_Handler,), {"fake": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection as its server says."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    fake: FakeServer

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has left
            super().handle()

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self._say(200, {"data": [{"id": name, "owned_by": "fakes"} for name in self.fake.models]})

    def do_POST(self) -> None:
        body, fake = json.loads(self.rfile.read(int(self.headers["content-length"]))), self.fake
        fake.requests.append((body, {name.lower(): value for name, value in self.headers.items()}))
        seen = any(part["type"] != "text" for part in body["messages"][0]["content"])
        fault = fake.fault if len(fake.requests) >= fake.broken_from else ""
        if fault.startswith("status"):
            said = {"error": {"message": f"no\nluck with {self.headers.get('authorization', 'no key')}"}}
            self._say(int(fault.split()[1]), said)
        elif fault == "redirect":
            self._say(307, {}, location="http://127.0.0.1:1/elsewhere")
        elif fault == "blind" and seen:
            self._say(400, {"detail": "this model takes no image"})
        elif fault == "json":
            self._say(200, {"choices": [{"message": {"content": "one"}}]})
        else:
            self.close_connection = True  # unless the answer comes to its end
            self._stream(body, seen=seen, fault=fault)

    def _say(self, status: int, value: Any, **headers: str) -> None:
        data = json.dumps(value).encode()
        self._begin(status, **{"content-type": "application/json", "content-length": str(len(data)), **headers})
        self.wfile.write(data)

    def _begin(self, status: int, **headers: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, body: dict[str, Any], *, seen: bool, fault: str) -> None:
        fake, kind = self.fake, "text/event-stream; charset=utf-8"
        self._begin(200, **{"server": "fake/1", "content-type": kind, "transfer-encoding": "chunked"})
        if fault == "silent":
            time.sleep(60)
        with fake.encoder:
            time.sleep(fake.encode_s)
        kept = round(fake.kept * body.get("ratio", 1.0)) if seen and fault != "ignores" else 0
        prompt = "".join(part.get("text", "") for part in body["messages"][0]["content"])
        for number in range(fake.tokens):
            if number:
                time.sleep(fake.rest_s / max(fake.tokens - 1, 1))
            text = f"{number} " if fake.says is None else fake.says(prompt) if number == 0 else " "
            self._send({"choices": [{"delta": {"content": text}, "finish_reason": None}]})
        self._send({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        self._send({"choices": [], "usage": {"prompt_tokens": 10 + kept, "completion_tokens": fake.tokens}}, "[DONE]")
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = False

    def _send(self, event: dict[str, Any], *more: str) -> None:
        """Send an event, and further ones as text, in one piece."""
        data = "".join(f"data: {text}\n\n" for text in (json.dumps(event), *more)).encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
