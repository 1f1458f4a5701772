"""The process of these servers has no model: it does what a request says (`works.py`)."""

import asyncio
import socket
import sys
from functools import partial
from typing import Any

import httpx2
import pytest

from tests.profile.extras.serve import works
from tests.profile.extras.serve.serving import Running, running
from trio_profile.errors import StudyError
from trio_profile.extras.serve import worker
from trio_profile.extras.serve.worker import Worker


@pytest.fixture
def server():
    with running(works.obedient) as found:
        yield found


def say(text: str, **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


def said(response: httpx2.Response) -> str:
    """The text of an answer, or the message of a refusal."""
    found = response.json()
    return found["error"]["message"] if "error" in found else found["choices"][0]["message"]["content"]


def anew(server: Running) -> str:
    """The text of the first answer after the process was started anew."""
    while (answer := server.post(say("a"))).status_code == 503:
        assert said(answer) == "the model is being loaded anew; ask later" and answer.headers["Retry-After"]
    return said(answer)


def begun(server: Running, text: str) -> Any:
    """A stream whose first piece has come."""
    stream = server.client.chat.completions.create(**say(text), model="pocket", stream=True)
    while not next(iter(stream)).choices[0].delta.content:
        pass
    return stream


def sent(server: Running, text: str) -> socket.socket:
    """A connection on which a request was sent."""
    request = httpx2.Request("POST", f"{server.url}/chat/completions", json=say(text))
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    connection = socket.create_connection((request.url.host, request.url.port))
    connection.sendall(f"POST {request.url.path} HTTP/1.1\r\n{head}\r\n".encode() + request.content)
    return connection


def test_a_process_that_dies_is_started_anew(server):
    dead = server.post(say("die"))
    assert dead.status_code == 503 and "has ended, often because memory ran out; it is started anew" in said(dead)
    assert anew(server) == "a"


@pytest.mark.slow
def test_a_start_that_fails_is_tried_again(tmp_path):
    with running(partial(works.once, tmp_path / "starts")) as server:
        server.post(say("die"))
        assert anew(server) == "a" and (tmp_path / "starts").read_text() == "..."


def test_a_request_whose_time_is_over_stops_at_its_next_token(server, monkeypatch):
    monkeypatch.setattr(worker, "DEADLINE_SECONDS", 0.0)
    assert said(server.post(say("talk"))).startswith("talk")
    monkeypatch.undo()
    assert said(server.post(say("a"))) == "talk a"  # by the same process


def test_a_request_that_does_not_stop_ends_with_its_process(server, monkeypatch):
    monkeypatch.setattr(worker, "DEADLINE_SECONDS", 0.0)
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.0)
    late = server.post(say("hang"))
    assert (late.status_code, said(late)) == (504, "the answer took too long; ask for fewer tokens, or send less")
    monkeypatch.undo()
    assert anew(server) == "a"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the memory of a process")
def test_a_request_that_needs_too_much_memory_is_refused(server):
    full = server.post(say("fill"))
    assert full.status_code == 413 and "more memory than requests may take" in said(full)
    assert said(server.post(say("a"))) == "fill a"  # by the same process


def test_a_client_that_leaves_ends_its_work(server):
    """Both answers would never end."""
    begun(server, "talk").close()
    sent(server, "talk").close()
    assert said(server.post(say("a"))).endswith("a")


def test_a_client_that_leaves_the_line_is_not_answered(server):
    first = begun(server, "talk")
    waiting = sent(server, "second")
    waiting.close()
    httpx2.get(f"{server.url}/models")  # answered after the server has seen that the client left
    first.close()
    assert said(server.post(say("a"))) == "talk a"


def test_a_fault_after_the_first_piece_is_in_openais_form(server):
    import openai

    stream = begun(server, "talk, then fail")
    server.worker._pipe.send(None)
    with pytest.raises(openai.APIError) as seen:
        list(stream)
    assert seen.value.message == 'say "no"' and seen.value.type == "server_error"


def test_a_server_that_stops_says_so(server):
    import openai

    stream = begun(server, "talk")
    server.worker.close()
    with pytest.raises(openai.APIError, match="the server stops"):
        list(stream)
    assert server.post(say("a")).status_code == 503


def test_a_model_that_cannot_be_served_is_said_at_the_start():
    for work, says in ((works.refusing, "no model of this name"), (works.dying, "often because memory ran out")):
        with pytest.raises(StudyError, match=says):
            asyncio.run(_started(work))


async def _started(work) -> Worker:
    return Worker(work)
