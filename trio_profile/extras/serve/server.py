"""The listener: the paths of OpenAI's interface that are served, who may ask, and the socket.

It reads bodies and writes answers. All that takes time or memory happens in the worker's process.
"""

import asyncio
import errno
import json
import socket
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from re import sub
from types import FrameType
from typing import Any
from uuid import uuid4

import anyio
import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from trio_profile.errors import StudyError
from trio_profile.extras.serve.request import Ended, Refused, read
from trio_profile.extras.serve.worker import Job, Worker
from trio_profile.text import one_line

MOST_BYTES = 32 * 2**20
"""The longest body of a request."""
MOST_HELD = 4 * MOST_BYTES
"""The most bytes of all bodies that are read or wait."""
LEAST_HELD = MOST_HELD // 256
"""A body counts as this many bytes at least, so that no more than 256 requests wait."""
HEAD_SECONDS, BODY_SECONDS = 5.0, 60.0
"""How long the head and the body of a request may take to arrive. Each connection has one request."""


def application(worker: Worker, model: str, hosts: Collection[str] = ()) -> FastAPI:
    """The application that answers chat completions.

    model: the name of the model.
    hosts: names of this server in lower case, besides the address at which it listens.
    """
    # Pages of documentation would load scripts of somebody else.
    app = FastAPI(openapi_url=None, redirect_slashes=False, dependencies=[Depends(require_known_names)])
    app.state.hosts, app.state.held = hosts, 0

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        fields = {"id": model, "object": "model", "created": int(time.time()), "owned_by": "trio-profile"}
        return {"object": "list", "data": [fields]}

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        async with body_of(request) as raw:
            if worker.positions is None:
                raise Refused(503, "the model is being loaded anew; ask later")
            job = worker.submit(read(raw, model, worker.positions))
            job.watch = asyncio.create_task(_leave_with_client(job, request))
            return await _answer(job, model)

    async def refuse(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            error = Refused(error.status_code, one_line(f"{request.method} {request.url.path}: {error.detail}"))
        refusal = Refused.of(error)
        return JSONResponse(refusal.document(), refusal.status, {"Retry-After": "5"} if refusal.status == 503 else None)

    for kind in (Refused, HTTPException, Exception):
        app.add_exception_handler(kind, refuse)
    return app


async def require_known_names(request: Request) -> None:
    """Raise Refused unless a request names this server, and comes from no page of another site.

    A page of any site can let a browser ask an address of this machine: by a name of its own that leads here, which
    `Host` shows, or openly, which `Origin` shows. Known are the address at which the request came in, and the
    application's `hosts` with any port.
    """
    address, port = request.scope["server"]
    own = {f"[{address}]:{port}" if ":" in address else f"{address}:{port}"}
    own |= {f"localhost:{port}"} if ip_address(address).is_loopback else set()
    own |= {sub(":80$", "", name) for name in own}
    origins = [sub("^https?://", "", origin) for origin in request.headers.getlist("origin")]
    for header, name in (("Host", request.headers.get("host", "")), *(("Origin", origin) for origin in origins)):
        if name.lower() not in own and sub(r":\d+$", "", name.lower()) not in request.app.state.hosts:
            raise Refused(403, f"{header} {one_line(name)[:200]!r} is not this server; serve with --allow-host NAME")


@asynccontextmanager
async def body_of(request: Request) -> AsyncIterator[bytes]:
    """Yield the body of a request, whose bytes count as held until the context ends.

    Raises Refused if the body is too long or too slow, or if too many bytes are held.
    """
    body, state = bytearray(), request.app.state
    state.held += LEAST_HELD
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                state.held += len(part)
                if len(body) > MOST_BYTES:
                    raise Refused(413, f"the body has more than {MOST_BYTES} bytes; send smaller pictures")
                if state.held > MOST_HELD:
                    raise Refused(503, "too many requests wait; ask later")
        yield bytes(body)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {BODY_SECONDS:g} s") from None
    finally:
        state.held -= LEAST_HELD + len(body)


async def _leave_with_client(job: Job, request: Request) -> None:
    """Mark a job as left when its client has left, or has the whole answer."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.is_left = True


async def _answer(job: Job, model: str) -> Response:
    """Return the answer, or a stream that has begun: then its status cannot change any more.

    Raises Refused if the request is refused before that.
    """
    event = await job.events.get()
    while event == "" or (isinstance(event, str) and not job.body.stream):
        event = await job.events.get()
    if isinstance(event, Refused):
        raise event
    head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": model}
    if job.body.stream or isinstance(event, str):
        return StreamingResponse(_chunks(head, event, job), media_type="text/event-stream")
    choice = {"index": 0, "message": {"role": "assistant", "content": event.text}}
    choices = [choice | {"finish_reason": event.finish_reason}]
    return JSONResponse(head | {"object": "chat.completion", "choices": choices, "usage": event.usage})


async def _chunks(head: dict[str, Any], event: str | Ended | Refused, job: Job) -> AsyncIterator[str]:
    """Yield the chunks of a stream. The one with the finish reason has the usage too.

    event: the first one of the job.
    """

    def chunk(delta: dict[str, str], reason: str | None = None, **more: Any) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return f"data: {json.dumps(head | {'object': 'chat.completion.chunk', 'choices': choices} | more)}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    while isinstance(event, str):
        if event:
            yield chunk({"content": event})
        event = await job.events.get()
    if isinstance(event, Refused):
        yield f"data: {json.dumps(event.document())}\n\n"
        return
    yield chunk({}, event.finish_reason, usage=event.usage)
    if job.body.stream_options and job.body.stream_options.include_usage:
        yield chunk({}, choices=[], usage=event.usage)
    yield "data: [DONE]\n\n"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    port: 0 takes a free one.
    Raises StudyError if the address cannot be used.
    """
    if not host:  # Python would listen on every address
        raise StudyError("host '' is no address; 127.0.0.1 is this machine alone, 0.0.0.0 every address of it")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise StudyError(f"port {port} of {host} is in use: choose another --port; 0 takes a free one") from error
        why = getattr(error, "strerror", None) or error
        raise StudyError(f"host {host!r} with port {port}: {why}; choose another --host or --port") from error


def address_of(listener: socket.socket) -> str:
    """The address of OpenAI's interface, such as `http://127.0.0.1:8000/v1`."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


class _Connection(H11Protocol):
    """A connection that is closed if no request comes: uvicorn would wait for ever."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        asyncio.get_running_loop().call_later(HEAD_SECONDS, lambda: self.cycle or transport.close())


class Server(uvicorn.Server):
    """A server, which logs nothing. worker, and the other arguments: as `application` takes them."""

    def __init__(self, worker: Worker, *arguments: Any):
        self.worker, self.app = worker, application(worker, *arguments)
        closing = {"headers": [("Connection", "close")], "timeout_graceful_shutdown": 30}
        silent = {"log_config": None, "log_level": "critical", "access_log": False}
        kinds = {"http": _Connection, "ws": "none", "lifespan": "off", "proxy_headers": False}
        super().__init__(uvicorn.Config(self.app, **closing, **silent, **kinds))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer an empty request of our own, and listen. Libraries load some of their code with the first request."""
        path = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b""}
        own = path | {"server": ("127.0.0.1", 1), "headers": [(b"host", b"127.0.0.1:1")]}
        receive: Any = partial(asyncio.sleep, 0, {"type": "http.request", "body": b"{}"})
        send: Any = partial(asyncio.sleep, 0)
        await self.app(own, receive, send)
        await anyio.sleep(0)  # a stream needs anyio
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at Ctrl-C: the clients get an error."""
        self.worker.close()
        super().handle_exit(sig, frame)
