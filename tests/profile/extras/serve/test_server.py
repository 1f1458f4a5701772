import json
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.core.tiny import fast_first
from tests.profile.extras.serve import works
from tests.profile.extras.serve.serving import expected, messages, running
from trio_profile.errors import StudyError
from trio_profile.extras.serve import server as serving
from trio_profile.extras.serve.server import listen
from trio_profile.inputs.pocket.grammar import exam

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture(scope="module")
def light():
    """A server without a model: its answer is the texts that it was sent."""
    with running(works.obedient, "box.example") as found:
        yield found


def streamed(chunks):
    """The text of a stream and its last chunk."""
    seen = list(chunks)
    return "".join(chunk.choices[0].delta.content or "" for chunk in seen if chunk.choices), seen[-1]


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", fast_first([False, True], True))
@pytest.mark.parametrize("kind", fast_first(["dense", "pruned"], "pruned"))
@pytest.mark.slow
def test_requests_at_once_get_the_answers_of_one_at_a_time(kind, stream, request):
    served, questions = request.getfixturevalue(kind), exam(4)
    answers = [expected(served, question) for question in questions]
    found = request.getfixturevalue("server" if kind == "pruned" else "dense_server")

    def ask(question):
        if stream:
            text, last = streamed(found.ask(question, stream=True, temperature=0))
            return text, last.usage.prompt_tokens, last.usage.completion_tokens
        whole = found.ask(question, temperature=0)
        return whole.choices[0].message.content, whole.usage.prompt_tokens, whole.usage.completion_tokens

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, questions)) == answers
    assert all(question.is_answered_by(text) for question, (text, *_) in zip(questions, answers, strict=True))


@pytest.mark.parametrize("stream", [False, True])
def test_a_question_before_its_picture_is_answered_with_fewer_supervised_rows(server, stream):
    """AIPerf and GuideLLM put the text first. Two tokens follow the picture then."""
    question = exam(1)[0]
    (message,) = messages(question.text, question.picture())
    turned = [{**message, "content": message["content"][::-1]}]
    made = server.client.chat.completions.create(model="pocket", messages=turned, max_tokens=4, stream=stream)
    usage = streamed(made)[1].usage if stream else made.usage
    details = usage.prompt_tokens_details
    assert (details.image_tokens, details.image_tokens_before) == (128, 576)
    (note,) = details.notes
    assert note.startswith("k_pos 4 with rows 'last': only 2 supervised")
    assert not hasattr(server.ask(question).usage.prompt_tokens_details, "notes")


def test_the_forms_of_an_answer(light):
    whole = light.client.chat.completions.create(**HELLO, model="pocket")
    assert (whole.object, whole.model, whole.choices[0].message.role) == ("chat.completion", "pocket", "assistant")
    assert (whole.choices[0].message.content.endswith("Hello"), whole.choices[0].finish_reason) == (True, "stop")
    assert whole.usage.total_tokens == 2
    for options, count in (({}, 2), ({"stream_options": {"include_usage": True, "continuous_usage_stats": True}}, 3)):
        lines = light.post({**HELLO, "stream": True, **options}).text.split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
        assert len(chunks) == count and {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
        assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert chunks[1]["choices"][0]["finish_reason"] == "stop" and chunks[1]["usage"]["total_tokens"] == 2
        assert [chunk["choices"] for chunk in chunks[2:]] == [[]] * (count - 2)
        assert chunks[-1]["usage"] == chunks[1]["usage"]


def test_the_model_is_listed(light):
    (model,) = light.client.models.list().data
    assert (model.id, model.object, model.owned_by) == ("pocket", "model", "trio-profile")
    assert httpx2.get(light.url.replace("/v1", "/health")).json() == {"status": "ok"}


# --- errors ----------------------------------------------------------------------------------------------------------


def test_openais_client_shows_errors(light):
    import openai

    with pytest.raises(openai.BadRequestError, match="n = 2: this server does not support it; leave it out") as seen:
        light.client.chat.completions.create(**HELLO, model="pocket", n=2)
    assert (seen.value.param, seen.value.type) == ("n", "invalid_request_error")
    with pytest.raises(openai.NotFoundError, match="model 'llava' is not served; this server has 'pocket'") as seen:
        light.client.chat.completions.create(**HELLO, model="llava")
    assert seen.value.code == "model_not_found"


OTHER = (
    ("POST", "/v1/completions", 404), ("POST", "/v1/responses", 404), ("POST", "/load_model", 404),
    ("POST", "/reset", 404),
    ("GET", "/docs", 404), ("GET", "/openapi.json", 404), ("GET", "/v1/models/", 404),
    ("GET", "/v1/models/pocket", 404),
    ("GET", "/v1/models/..%2f..%2fetc%2fpasswd", 404), ("GET", "//etc/passwd", 404), ("GET", "/%00", 404),
    ("HEAD", "/health", 405), ("OPTIONS", "/v1/chat/completions", 405), ("GET", "/v1/chat/completions", 405),
    ("DELETE", "/v1/models", 405), ("TRACE", "/health", 405),
)  # fmt: skip


def test_other_paths_and_methods_do_not_exist(light):
    for method, path, status in OTHER:
        found = httpx2.request(method, light.url.removesuffix("/v1") + path)
        assert found.status_code == status, (method, path)
        assert not any(name.startswith("access-control") for name in found.headers)
        assert method == "HEAD" or found.json()["error"]["type"] == "invalid_request_error"


# --- who may ask -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_request_must_name_this_server(light):
    port = light.url.split(":")[-1].removesuffix("/v1")
    names = {
        f"127.0.0.1:{port}": 200, f"localhost:{port}": 200, f"LOCALHOST:{port}": 200, "box.example": 200,
        f"Box.Example:{port}": 200, "evil.example": 403, f"evil.example:{port}": 403,
        f"127.0.0.1.evil.example:{port}": 403,
        f"localhost:{port}.evil.example": 403, f"user@localhost:{port}": 403, "localhost:1": 403, "": 403,
        f"127.0.0.2:{port}": 403, f"[::1]:{port}": 403, "box.example.evil.example": 403, "evil-box.example": 403,
    }  # fmt: skip
    origins = {
        f"http://localhost:{port}": 200, f"http://127.0.0.1:{port}": 200, "https://box.example": 200, "null": 403,
        "": 403,
        "http://evil.example": 403, "http://localhost:3000": 403, f"http://evil.example:{port}": 403, "file://": 403,
        f"http://localhost:{port}.evil.example": 403, f"http://evil.example/http://localhost:{port}": 403,
    }  # fmt: skip
    for path in ("/health", "/v1/models", "/v1/chat/completions"):
        method = "POST" if "chat" in path else "GET"
        for header, values in (("Host", names), ("Origin", origins)):
            for value, status in list(values.items())[:: 1 if "chat" in path else 5]:
                found = httpx2.request(
                    method, light.url.removesuffix("/v1") + path, headers={header: value}, content=json.dumps(HELLO)
                )
                assert found.status_code == status, (path, header, value)
                assert status == 200 or "serve with --allow-host NAME" in found.json()["error"]["message"]


def test_one_origin_of_two_may_not_be_another_site(light):
    own = light.url.removesuffix("/v1")
    found = httpx2.get(f"{own}/health", headers=[("Origin", own), ("Origin", "http://evil.example")])
    assert found.status_code == 403


# --- bodies ----------------------------------------------------------------------------------------------------------


def test_a_body_has_a_limit(light, monkeypatch):
    monkeypatch.setattr(serving, "MOST_BYTES", 1000)
    whole = json.dumps(HELLO).encode()
    assert light.post(whole + b" " * (1000 - len(whole))).status_code == 200
    for body in (whole + b" " * 1000, iter([whole, b" " * 1000])):  # with its length, and in chunks
        found = httpx2.post(f"{light.url}/chat/completions", content=body)
        assert found.status_code == 413 and "more than 1000 bytes" in found.json()["error"]["message"]
    assert httpx2.post(f"{light.url}/chat/completions", content=iter([whole])).status_code == 200


@pytest.mark.parametrize("host, status", [("box.example", b"413"), ("evil.example", b"403")])
def test_a_client_that_sends_much_reads_why_it_is_refused(light, monkeypatch, host, status):
    """A connection that is closed while the client sends would take the answer with it."""
    monkeypatch.setattr(serving, "MOST_BYTES", 1000)
    size = 64 * 2**20
    with connected(light) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {size}\r\n\r\n"
        client.sendall(head.encode() + b" " * size)
        assert client.recv(100).startswith(b"HTTP/1.1 " + status)


def test_bodies_have_a_limit_together(light, monkeypatch):
    monkeypatch.setattr(serving, "MOST_HELD", 1.5 * serving.LEAST_HELD)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: box.example\r\nContent-Length: 1000\r\n"
    with connected(light) as slow:
        slow.sendall(head + b"Expect: 100-continue\r\n\r\n{")
        assert slow.recv(100).startswith(b"HTTP/1.1 100")  # its body is being read
        found = light.post(HELLO)
        assert found.status_code == 503 and "too many requests wait" in found.json()["error"]["message"]
        assert light.client.models.list().data
    while (found := light.post(HELLO)).status_code == 503:
        pass
    assert found.status_code == 200


def test_a_slow_client_is_let_go(light, monkeypatch):
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.0)
    with connected(light) as silent:
        assert silent.recv(100) == b""
    monkeypatch.undo()
    monkeypatch.setattr(serving, "BODY_SECONDS", 0.0)
    with connected(light) as slow:
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: box.example\r\nContent-Length: 1000\r\n\r\n{")
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def connected(server):
    host, port = server.url.removeprefix("http://").removesuffix("/v1").split(":")
    return socket.create_connection((host, int(port)))


# --- the socket ------------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_said():
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(StudyError, match=rf"port {port} of 127\.0\.0\.1 is in use: choose another --port; 0 takes"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "é" * 200, "\0"])
def test_a_host_that_is_not_this_machine_is_said(host):
    with pytest.raises(StudyError, match=r"choose another --host or --port"):
        listen(host, 0)
