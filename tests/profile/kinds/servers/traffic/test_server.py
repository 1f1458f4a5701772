"""The client of one server, on loopback."""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tests.profile.kinds.servers.fake_servers import FakeServer
from trio_profile.kinds.servers.traffic.server import Server
from trio_profile.kinds.servers.traffic.stream import Body, Reply

BODY: Body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]}


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


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_may_be_sent_in_any_pieces(end):
    """A character of two bytes is cut in half, too."""
    events = [{"choices": [{"delta": {"content": "é"}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]
    text = b"".join(b"data: " + json.dumps(one, ensure_ascii=False).encode() + end + end for one in events)

    async def parts() -> AsyncIterator[bytes]:
        for place in range(len(text)):
            yield text[place : place + 1]

    answer = httpx2.Response(200, content=parts(), headers={"content-type": "text/event-stream"})
    reply = ask(answers=lambda _: answer)
    assert reply.error is None and reply.stream is not None and reply.stream.pieces == 1


def test_an_answer_that_is_empty_or_not_whole_has_failed():
    none = {"usage": {"completion_tokens": 0}}
    word = {"choices": [{"delta": {"content": "a"}}]}
    for events, why in (
        ([], "its answer has no text"),
        ([{"choices": [{"delta": {}, "finish_reason": "stop"}], **none}], "its answer has no text"),
        ([word, none], "it reports an answer of 0 tokens"),
        ([word, {"choices": [{"finish_reason": "abort"}]}], "it broke off its answer (finish_reason abort)"),
        ([word, {"choices": [{"finish_reason": {"odd": 1}}]}], None),
    ):
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        answer = httpx2.Response(200, content=text, headers={"content-type": "text/event-stream"})
        assert ask(answers=lambda _, answer=answer: answer).error == why


def test_a_plain_port_behind_https_says_so():
    def fail(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("failed") from ssl.SSLError(1, "WRONG_VERSION_NUMBER")

    assert ask(answers=fail).error == ("it cannot be reached (WRONG_VERSION_NUMBER)")


def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    monkeypatch.setitem(os.environ, "HTTP_PROXY", free_address())
    monkeypatch.setitem(os.environ, "ALL_PROXY", free_address())
    with FakeServer() as server:
        assert ask(server.url).error is None
