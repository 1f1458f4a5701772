"""Servers for tests: on a thread of this process, on a free port of the loopback."""

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import openai
from PIL import Image

from trio_core import prune
from trio_profile.extras.serve import listening
from trio_profile.extras.serve.application import Served
from trio_profile.extras.serve.generation import Turns
from trio_profile.inputs.questions import Question
from trio_profile.inputs.workload import ask, placed

NEW_TOKENS = 4


@dataclass(frozen=True)
class Running:
    """A server that runs.

    url: of OpenAI's interface.
    served: what it serves.
    """

    url: str
    served: Served

    @property
    def chat(self) -> Any:
        """OpenAI's own client."""
        return openai.OpenAI(base_url=self.url, api_key="none", max_retries=0).chat.completions

    def ask(self, question: Question, **named: Any) -> Any:
        """The completion of a question about its picture, or the stream of its chunks."""
        content = messages(question.text, question.picture())
        return self.chat.create(model=self.served.name, messages=content, **{"max_tokens": NEW_TOKENS, **named})


@contextmanager
def running(served: Served) -> Iterator[Running]:
    """Run a server until the end of the context."""
    served = replace(served, turns=Turns())
    listener = listening.listen("127.0.0.1", 0)
    url, server = listening.address_of(listener), listening.Server(served)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield Running(url, served)
    finally:
        server.should_exit = True
        thread.join()


def messages(text: str, *pictures: Image.Image) -> list[Any]:
    """One message in OpenAI's form, its pictures first."""
    parts = [{"type": "image_url", "image_url": {"url": data_url(picture)}} for picture in pictures]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]


def data_url(picture: Image.Image) -> str:
    """The picture as a data URL."""
    file = BytesIO()
    picture.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def answer(served: Served, question: Question) -> tuple[str, int, int]:
    """What the model says without a server: `prune`, then `generate`. Also the prompt's and the new tokens."""
    inputs = placed(ask(served.processor, [question.picture()], question.text), served.model)
    model: Any = served.model
    with nullcontext() if served.method is None else prune(model, served.method) as trace:
        made = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
    length = inputs["input_ids"].shape[1]
    visual = 0 if trace is None else sum(trace.visual_tokens)
    left = 0 if trace is None else round(trace.realised_retention * visual)
    text = served.processor.decode(made[0, length:], skip_special_tokens=True)
    return text, length - visual + left, made.shape[1] - length
