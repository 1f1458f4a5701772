"""No request makes the server open a file or a connection, take much memory, or keep it from saying that it is well."""

import base64
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.profile.extras.serve.audited import serving_audited
from tests.profile.extras.serve.conftest import STUDY
from tests.profile.extras.serve.serving import data_url
from trio_profile.extras.serve.request import Body
from trio_profile.inputs.questions import FORMATS

GREY = Image.new("RGB", (40, 30), "grey")
PICTURES = [data_url(GREY, form) for form in FORMATS]
ADDRESSES = ["http://127.0.0.1:9/a.png", "file:///etc/passwd", "/etc/passwd", "data:text/html;base64,AAAA"]
TEXTS = [
    "which digit ?",
    "<image>",
    "<|image_pad|>",
    "<video>",
    "{{ 7 * 7 }}",
    "/etc/passwd",
    "\0",
    "é😀",
    " ",
    "red " * 400,
]


@pytest.fixture(scope="module")
def server():
    with serving_audited(STUDY) as found:
        yield found


# --- fuzz ------------------------------------------------------------------------------------------------------------

texts = st.sampled_from(TEXTS) | st.text(max_size=20)
broken = st.binary(max_size=200).map(lambda data: f"data:image/png;base64,{base64.b64encode(data).decode()}")
addresses = st.sampled_from(PICTURES) | st.sampled_from(PICTURES) | broken | st.sampled_from(ADDRESSES)
parts = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts})
    | st.fixed_dictionaries({"type": st.just("image_url"), "image_url": addresses.map(lambda url: {"url": url})}),
    max_size=3,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "user", "system", "developer", "assistant"]), "content": texts | parts},
        optional={"name": texts, "refusal": st.none()},
    ),
    min_size=1,
    max_size=3,
)
lengths = st.integers(1, 4) | st.sampled_from([1, 2**62])
flags = st.booleans() | st.none()
FIELDS = {
    "model": st.sampled_from(["pocket", None]),
    "stream": flags,
    "stream_options": st.fixed_dictionaries({}, optional={"include_usage": flags, "continuous_usage_stats": flags}),
    "max_tokens": lengths | st.none(),
    "max_completion_tokens": lengths,
    "temperature": st.floats(0, 2) | st.none(),
    "top_p": st.floats(0, 1, exclude_min=True) | st.none(),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "ignore_eos": flags,
    "user": texts,
    "metadata": st.dictionaries(texts, texts, max_size=2),
}
neutral = {name: st.sampled_from([None, *values]) for name, values in Body.neutral.items()}
bodies = st.fixed_dictionaries({"messages": messages}, optional=FIELDS | neutral)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(body=bodies)
def test_no_accepted_field_opens_a_file_or_a_connection(server, body):
    assert set(FIELDS) | {"messages"} == set(Body.model_fields)
    found = httpx2.post(f"{server.url}/chat/completions", content=json.dumps(body), timeout=600)
    assert found.status_code in (200, 400), found.text
    assert server.seen() == []


# --- two hundred hostile requests ------------------------------------------------------------------------------------


def encoded(width: int, height: int) -> str:
    file = BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def asking(*urls: str, **fields: object) -> bytes:
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [*pictures, {"type": "text", "text": "which digit ?"}]
    return json.dumps({"messages": [{"role": "user", "content": content}], **fields}).encode()


def saying(text: str, **fields: object) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": text}], **fields}).encode()


MEBIBYTE = 2**20
HOSTILE = {
    "a file as a picture": asking("/etc/passwd"),
    "an address as a picture": asking("http://127.0.0.1:9/"),
    "images in the template's arguments": asking(PICTURES[0], chat_template_kwargs={"images": ["/etc/passwd"]}),
    "a configuration of generation": asking(PICTURES[0], generation_config='{"max_length": 2000000000}'),
    "3,000 beams": asking(PICTURES[0], num_beams=3000),
    "a picture of 100 million pixels": asking(encoded(10_000, 10_000)),
    "a picture of 2.5 billion pixels": asking(encoded(50_000, 50_000)),
    "32 pictures of 3 million pixels": asking(*[encoded(2000, 1500)] * 32),
    "1,000 pictures": asking(*[PICTURES[0]] * 1000),
    "a broken picture": asking(PICTURES[0][:-40]),
    "an answer without end": asking(PICTURES[0], max_tokens=2**62, ignore_eos=True),
    "a prompt of 8,000 words": saying("red " * 8000),
    "a prompt of 30 MB": saying("x" * (30 * MEBIBYTE)),
    "a body of 40 MB": saying("x" * (40 * MEBIBYTE)),
    "5 million escapes": b'{"messages": [{"role": "user", "content": "' + b"\\u0041" * 5_000_000 + b'"}]}',
    "30 million brackets": b"[" * (30 * MEBIBYTE),
    "10 million objects": b"[" + b"{}," * (10 * MEBIBYTE) + b"{}]",
    "40,000 messages": b'{"messages": [' + b"{}," * 40_000 + b"{}]}",
    "40,000 fields": json.dumps({f"field {number}": 0 for number in range(40_000)}).encode(),
    "a number of 30 million digits": b'{"seed": ' + b"9" * (30 * MEBIBYTE) + b"}",
    "no UTF-8": b"\xff" * (30 * MEBIBYTE),
    "30 MB of spaces": b" " * (30 * MEBIBYTE) + b"{}",
}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read as Linux has it")
def test_two_hundred_hostile_requests(server, capsys):
    """Eight at a time. `pytest -s` prints the table."""
    before = [peak_bytes(pid) for pid in server.pids]

    def send(number: int) -> int:
        name = [*HOSTILE][number % len(HOSTILE)]
        return httpx2.post(f"{server.url}/chat/completions", content=HOSTILE[name], timeout=3000).status_code

    with looking(server.url.replace("/v1", "/health")) as waits, ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(send, range(200)))
    listener, worker = (peak_bytes(pid) - was for pid, was in zip(server.pids, before, strict=True))
    seen, counts = server.seen(), {status: statuses.count(status) for status in sorted(set(statuses))}
    with capsys.disabled():
        print(
            f"\n{len(statuses)} hostile requests, by status   {counts}"
            f"\nfiles opened and connections made   {len(seen)} {seen[:3]}"
            f"\nmemory of the listener, growth      {listener / 1e6:.0f} MB"
            f"\nmemory of the worker, growth        {worker / 1e6:.0f} MB"
            f"\nlongest of {len(waits)} answers of /health  {max(waits):.2f} s"
        )
    assert not seen and max(waits) < 1
    assert listener < 600e6 and worker < 1500e6
    assert {200, 400, 413} <= set(statuses) <= {200, 400, 413, 503}


@contextmanager
def looking(address: str) -> Iterator[list[float]]:
    """Ask for an address again and again, in another process. The list has the seconds of each answer at the end."""
    waits, (told, tell) = [], get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=look, args=(address, tell))
    process.start()
    told.recv()
    yield waits
    told.send("enough")
    waits += told.recv()
    process.join()


def look(address: str, tell: Connection) -> None:
    waits = []
    with httpx2.Client(timeout=600) as client:
        while not (waits and tell.poll(0.05)):
            start = time.monotonic()
            assert client.get(address).status_code == 200
            waits.append(time.monotonic() - start)
            if len(waits) == 1:
                tell.send("the first answer has come")
    tell.send(waits)


def peak_bytes(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
