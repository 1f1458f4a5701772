"""Hostile requests, eight at a time, to a server that reports its files and connections."""

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from itertools import cycle, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from struct import pack
from typing import NamedTuple
from zlib import crc32

import httpx2
from PIL import Image

from tests.profile.extras.serve.audited import Audited

AT_ONCE = 8


def encoded(width: int, height: int, mode: str = "L") -> str:
    file = BytesIO()
    Image.new(mode, (width, height)).save(file, "PNG")
    return url(file.getvalue())


def url(file: bytes) -> str:
    return f"data:image/png;base64,{b64encode(file).decode()}"


def claiming(width: int, height: int) -> str:
    """A picture whose header says that it is larger than it is."""
    file = b64decode(encoded(1, 1).partition(",")[2])
    header = b"IHDR" + pack(">II", width, height) + file[24:29]
    return url(file[:12] + header + pack(">I", crc32(header)) + file[33:])


def asking(*urls: str, **fields: object) -> bytes:
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [*pictures, {"type": "text", "text": "which digit ?"}]
    return json.dumps({"messages": [{"role": "user", "content": content}], **fields}).encode()


def saying(text: str, **fields: object) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": text}], **fields}).encode()


@cache
def hostile() -> dict[str, bytes]:
    """The bodies of hostile requests. They take memory, so that processes that import this module do not make them."""
    picture = encoded(40, 30)
    return {
        "a file as a picture": asking("/etc/passwd"),
        "an address as a picture": asking("http://127.0.0.1:9/"),
        "images in the template's arguments": asking(picture, chat_template_kwargs={"images": ["/etc/passwd"]}),
        "a configuration of generation": asking(picture, generation_config='{"max_length": 2000000000}'),
        "3,000 beams": asking(picture, num_beams=3000),
        "a picture of 100 million pixels": asking(encoded(10_000, 10_000)),
        "a transparent picture of 100 million pixels": asking(encoded(10_000, 10_000, "RGBA")),
        "a picture of 2.5 billion pixels": asking(claiming(50_000, 50_000)),
        "32 pictures of 3 million pixels": asking(*[encoded(2000, 1500)] * 32),
        "1,000 pictures": asking(*[picture] * 1000),
        "a broken picture": asking(picture[:-40]),
        "an answer without end": asking(picture, max_tokens=2**62, ignore_eos=True),
        "a prompt of 8,000 words": saying("red " * 8000),
        "a prompt of 30 MB": saying("x" * (30 * 2**20)),
        "a body of 40 MB": saying("x" * (40 * 2**20)),
        "5 million escapes": b'{"messages": [{"role": "user", "content": "' + b"\\u0041" * 5_000_000 + b'"}]}',
        "30 million brackets": b"[" * (30 * 2**20),
        "10 million objects": b"[" + b"{}," * (10 * 2**20) + b"{}]",
        "40,000 messages": b'{"messages": [' + b"{}," * 40_000 + b"{}]}",
        "40,000 fields": json.dumps({f"field {number}": 0 for number in range(40_000)}).encode(),
        "a number of 30 million digits": b'{"seed": ' + b"9" * (30 * 2**20) + b"}",
        "no UTF-8": b"\xff" * (30 * 2**20),
        "30 MB of spaces": b" " * (30 * 2**20) + b"{}",
    }


class Attack(NamedTuple):
    """The effects of hostile requests.

    statuses: how many requests were answered with each status of HTTP.
    events: files and connections, as `Audited.seen` lists them.
    peaks: the most bytes that the listener and the worker held; before are those without hostile requests.
    healthy: how many times `/health` was answered meanwhile.
    """

    statuses: Counter[int]
    events: list[str]
    peaks: tuple[int, ...]
    before: tuple[int, ...]
    healthy: int


def attack(server: Audited, count: int) -> Attack:
    """Send so many hostile requests, each kind in its turn. Needs Linux, which says what processes hold."""
    before = tuple(map(peak_bytes, server.pids))

    def status(body: bytes) -> int:
        return httpx2.post(f"{server.url}/chat/completions", content=body, timeout=3000).status_code

    with looking(server.url.replace("/v1", "/health")) as healthy, ThreadPoolExecutor(AT_ONCE) as pool:
        statuses = Counter(pool.map(status, islice(cycle(hostile().values()), count)))
    return Attack(statuses, server.seen(), tuple(map(peak_bytes, server.pids)), before, healthy[0])


@contextmanager
def looking(address: str) -> Iterator[list[int]]:
    """Ask for an address again and again, in another process. At the end the list has the number of its answers."""
    answers: list[int] = []
    told, tell = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=look, args=(address, tell))
    process.start()
    told.recv()
    yield answers
    told.send("enough")
    answers.append(told.recv())
    process.join()


def look(address: str, tell: Connection) -> None:
    answers = 0
    with httpx2.Client(timeout=600) as client:
        while not (answers and tell.poll(0.05)):
            assert client.get(address).status_code == 200
            answers += 1
            if answers == 1:
                tell.send("the first answer has come")
    tell.send(answers)


def peak_bytes(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
