"""Servers for tests: the listener is on a thread of this process, on a free port of the loopback."""

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import httpx2
from PIL import Image

from trio_core import prune
from trio_profile.extras.serve.server import Server, address_of, listen
from trio_profile.extras.serve.worker import Worker
from trio_profile.inputs.questions import Question
from trio_profile.inputs.workload import ask, placed

NEW_TOKENS = 4


@dataclass(frozen=True)
class Running:
    """A server that runs.

    url: of OpenAI's interface.
    """

    url: str
    worker: Worker

    @property
    def client(self) -> Any:
        """OpenAI's own client. Its import takes more than a second, and only some processes of the tests need it."""
        import openai

        return openai.OpenAI(base_url=self.url, api_key="none", max_retries=0)

    def ask(self, question: Question, **named: Any) -> Any:
        """The completion of a question about its picture, or the stream of its chunks."""
        content: Any = messages(question.text, question.picture())
        fields = {"max_tokens": NEW_TOKENS, **named}
        return self.client.chat.completions.create(model="pocket", messages=content, **fields)

    def post(self, body: Any, **named: Any) -> httpx2.Response:
        """The response to a body: bytes, or what is sent as JSON."""
        kind = "content" if isinstance(body, bytes) else "json"
        return httpx2.post(f"{self.url}/chat/completions", **{kind: body}, timeout=600, **named)


@contextmanager
def running(work: Callable[[Any], None], *hosts: str) -> Iterator[Running]:
    """Run a server until the end of the context.

    work: the main function of its process.
    hosts: its further names.
    """
    listener = listen("127.0.0.1", 0)
    worker = Worker(work)
    server = Server(worker, "pocket", hosts)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield Running(address_of(listener), worker)
    finally:
        worker.close()
        server.should_exit = True
        thread.join()


def messages(text: str, *pictures: Image.Image) -> list[Any]:
    """One message in OpenAI's form, its pictures first."""
    parts = [{"type": "image_url", "image_url": {"url": data_url(picture)}} for picture in pictures]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]


def data_url(picture: Image.Image, form: str = "PNG") -> str:
    """The picture as a data URL."""
    file = BytesIO()
    picture.save(file, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def expected(served: Any, question: Question) -> tuple[str, int, int]:
    """What a model says without a server: `prune`, then `generate`. Also the prompt's and the new tokens.

    served: a loaded model with its method.
    """
    (loaded, method), model = served, served[0].model
    inputs = placed(ask(loaded.processor, [question.picture()], question.text), model)
    with nullcontext() if method is None else prune(model, method) as trace:
        made = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
    length = inputs["input_ids"].shape[1]
    visual = 0 if trace is None else sum(trace.visual_tokens)
    kept = 0 if trace is None else round(trace.realised_retention * visual)
    text = loaded.processor.decode(made[0, length:], skip_special_tokens=True)
    return text, length - visual + kept, made.shape[1] - length
