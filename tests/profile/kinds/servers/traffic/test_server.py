"""The client of one server, on loopback."""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx2
import pytest

from tests.profile.kinds.servers.fake_servers import FakeServer
from tests.profile.kinds.servers.traffic import streams
from trio_profile.kinds.servers.traffic.server import Server
from trio_profile.kinds.servers.traffic.stream import Body, Reply

EVENTS = {"content-type": "text/event-stream"}
BODY: Body = {
    "max_tokens": streams.ASKED,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
}


def of_server(use: Callable[[Server], Awaitable[Any]], url: str, key=None, timeout=20.0, answers=None) -> Any:
    """The result of a call of a server. answers: stands for the network."""

    async def main() -> Any:
        transport = None if answers is None else httpx2.MockTransport(answers)
        async with Server(url, key, timeout, transport) as server:
            return await use(server)

    return asyncio.run(main())


def ask(url: str = "http://host", **options: Any) -> Reply:
    return of_server(lambda server: server.ask(BODY), url, **options)


def models(url: str, **options: Any) -> tuple[dict[str, str], Reply]:
    return of_server(Server.models, url, **options)


def free_address() -> str:
    """An address at which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{found.getsockname()[1]}"


def test_a_streamed_answer_has_its_times_and_its_tokens():
    with FakeServer(tokens=4, rest_s=0.03) as server:
        reply = ask(server.url)
    assert reply.error is None and reply.status == 200 and reply.software == "fake/1"
    assert reply.stream.first is not None and reply.start < reply.stream.first < reply.end
    assert (reply.stream.pieces, reply.stream.prompt_tokens, reply.stream.output_tokens) == (4, 10, 4)


def test_the_models_are_those_that_the_server_lists():
    with FakeServer(models=("one", "two")) as server:
        assert models(server.url)[0] == models(f"{server.url}/v1/")[0] == {"one": "fakes", "two": "fakes"}


def test_a_server_that_does_not_answer_in_time_has_failed():
    with FakeServer(fault="silent") as server:
        assert ask(server.url, timeout=0.3).error == "no answer within 0.3 s"


def test_an_address_without_a_server_cannot_be_reached():
    url = free_address()
    for error in (ask(url).error, models(url)[1].error):
        assert str(error).startswith("it cannot be reached (Connect")


def test_a_server_that_does_not_list_its_models_says_why():
    for answer, says in (
        (httpx2.Response(401, json={"error": "who?"}), "HTTP 401: who?"),
        (httpx2.Response(500, json={"error": "no\nmemory"}), "HTTP 500: no memory"),
        (httpx2.Response(301, headers={"location": "http://other"}), "it redirects to http://other, which is not"),
    ):
        error = models("http://host", answers=lambda _, answer=answer: answer)[1].error
        assert str(error).startswith(says)

    async def silent(request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(60)
        return httpx2.Response(200)

    assert models("http://host", timeout=0.1, answers=silent)[1].error == "no answer within 0.1 s"


def test_the_key_is_sent_and_never_stands_in_an_error_or_a_name():
    with FakeServer(fault="status 401") as server:
        reply = ask(server.url, key="sk-secret")
        assert server.requests[0][1]["authorization"] == "Bearer sk-secret"
    assert reply.error == "HTTP 401: no luck with Bearer …"
    answer = httpx2.Response(500, headers={"server": "proxy sk-secret"})
    assert ask(key="sk-secret", answers=lambda _: answer).software == "proxy …"


def test_no_part_of_the_key_stays_where_a_message_is_cut():
    key, stream, plain = "sk-" + "0123456789" * 4, "text/event-stream", "text/plain"
    for before in (100, 185, 195, 498, 990):
        said = "x" * before + key + "y" * 2000
        for text, kind in (
            (said, plain),
            (json.dumps({"error": said}), plain),
            (f'data: {{"error": "{said}"}}\n\n', stream),
            (f"data: {'x' * (before % 80)}{key}\n\n", stream),
        ):
            answer = httpx2.Response(200 if kind == stream else 500, text=text, headers={"content-type": kind})
            error = str(ask(key=key, answers=lambda _, answer=answer: answer).error)
            assert "sk-" not in error and "0123" not in error and len(error) <= 200


def test_no_line_of_a_stream_is_kept_without_end():
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1_000_000
            yield b"x" * 1_000_000

    answer = httpx2.Response(200, content=parts(), headers={"content-type": "text/event-stream"})
    assert ask(answers=lambda _: answer).error == "its answer has more than 8000000 bytes"
    assert sent < 10_000_000


def replied(content: bytes, size: int, status: int = 200, headers: Mapping[str, str] = EVENTS) -> Reply:
    """The reply to a request whose answer comes in parts of so many bytes."""

    async def parts() -> AsyncIterator[bytes]:
        for place in range(0, len(content), size):
            yield content[place : place + size]

    answer = httpx2.Response(status, content=parts(), headers=dict(headers))
    return ask(answers=lambda _: answer)


SIZES = (1, 7, 100_000)
"""Bytes of a part: a character and a line end are cut in half, or all comes at once."""


@pytest.mark.parametrize("name", streams.WHOLE)
def test_a_whole_answer_is_measured(name):
    content, (text, pieces, tokens) = streams.WHOLE[name]
    for size in SIZES:
        reply = replied(content, size)
        stream = reply.stream
        assert (reply.error, stream.text, stream.pieces, stream.odd_counts) == (None, text, pieces, {})
        assert (stream.prompt_tokens, stream.output_tokens, stream.cached_tokens) == tokens
        assert stream.first is not None and stream.finish


@pytest.mark.parametrize("name", streams.FAILED)
def test_an_answer_that_did_not_end_well_is_a_failure_with_its_own_words(name):
    content, words = streams.FAILED[name]
    for size in SIZES:
        error = replied(content, size).error
        assert error is not None and words in error and "\n" not in error


@pytest.mark.parametrize("name", streams.ODD)
def test_numbers_of_tokens_that_cannot_be_are_set_aside(name):
    content, words = streams.ODD[name]
    reply = replied(content, 100_000)
    stream = reply.stream
    assert reply.error is None and words in "; ".join(stream.odd_counts.values())
    assert all(getattr(stream, f"{tokens}_tokens") is None for tokens in stream.odd_counts)
    assert len(stream.odd_counts) == words.count(";") + 1


@pytest.mark.parametrize("name", streams.REPLIES)
def test_an_answer_that_is_no_stream_is_a_failure_with_its_own_words(name):
    status, headers, content, words = streams.REPLIES[name]
    error = replied(content, 7, status, headers).error
    assert words in error if words and error else error is None and not words


def test_a_plain_port_behind_https_says_so():
    def fail(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("failed") from ssl.SSLError(1, "WRONG_VERSION_NUMBER")

    assert ask(answers=fail).error == ("it cannot be reached (WRONG_VERSION_NUMBER)")


def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    monkeypatch.setitem(os.environ, "HTTP_PROXY", free_address())
    monkeypatch.setitem(os.environ, "ALL_PROXY", free_address())
    with FakeServer() as server:
        assert ask(server.url).error is None
