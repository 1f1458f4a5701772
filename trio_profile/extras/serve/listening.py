"""Make what a study names ready to serve, listen on a port, and answer until the program is interrupted."""

import asyncio
import base64
import errno
import logging
import socket
from io import BytesIO
from types import FrameType

import numpy as np
import uvicorn
from fastapi import HTTPException
from PIL import Image
from transformers.cli.serving.utils import GenerationState

from trio_profile.engine.plan import method_of
from trio_profile.errors import StudyError
from trio_profile.extras.serve.application import LONGEST_WAIT, ChatRequest, Served, application
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.models import load
from trio_profile.inputs.workload import DEFAULT_PROMPT
from trio_profile.records.study import Study

_SIDE = 336
"""Side of the trial's picture, in pixels."""


def prepare(study: Study, *, dense: bool = False) -> Served:
    """Load a study's model, and let it answer one question, so that users do not see the first fault.

    study: with one method at one retention.
    dense: serve the dense model; the method does not matter.
    Raises StudyError if the model cannot be loaded, has no chat template, or cannot answer, pruned as it is asked.
    Raises OptionError for an option of the method that is out of its range.
    """
    logging.getLogger("transformers.cli.serving").setLevel(logging.ERROR)  # it warns of every request
    method = None if dense else method_of(study.cells()[0], study)
    builtin = BUILTIN.get(study.model)
    if builtin is not None and builtin.checkpoint is None:
        raise StudyError(f"model {study.model!r} has random weights; serve pocket or a checkpoint")
    if builtin is not None and builtin.converted is not None:
        raise StudyError(f"model {study.model!r} takes clips, and requests have pictures; serve pocket or a checkpoint")
    loaded = load(study)
    if not getattr(loaded.processor, "chat_template", None):
        raise StudyError(f"model {study.model!r} has no chat template, which a server needs; serve another one")
    served = Served(study.model, loaded.model, loaded.processor, method)
    try:
        asyncio.run(_try(served))
    except HTTPException as error:
        raise StudyError(f"model {study.model!r} cannot be served: {error.detail}") from error
    return served


async def _try(served: Served) -> None:
    """Ask about a random picture. Raises StudyError if the chat template leaves the picture out."""
    file = BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (_SIDE, _SIDE, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": DEFAULT_PROMPT}]
    request = ChatRequest(served, GenerationState())
    await request.handle_request({"messages": [{"role": "user", "content": content}], "max_tokens": 1}, "trial")
    assert request.generation.prompt is not None
    if not request.generation.prompt.visual:
        raise StudyError(f"the chat template of model {served.name!r} leaves out the picture of a question")


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
    except (
        OSError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise StudyError(f"port {port} of {host} is in use: choose another --port; 0 takes a free one") from error
        why = getattr(error, "strerror", None) or error
        raise StudyError(f"host {host!r} with port {port}: {why}; choose another --host or --port") from error


def address_of(listener: socket.socket) -> str:
    """The address of OpenAI's interface, such as `http://127.0.0.1:8000/v1`."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


class Server(uvicorn.Server):
    """A server that answers with the served model. uvicorn logs nothing."""

    def __init__(self, served: Served):
        self.served = served
        silent = {"log_config": None, "log_level": "critical", "access_log": False}
        super().__init__(uvicorn.Config(application(served), timeout_graceful_shutdown=LONGEST_WAIT, **silent))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at Ctrl-C: the running generation ends at its next token, and its client gets an error."""
        self.served.turns.stop()
        super().handle_exit(sig, frame)


def run(served: Served, listener: socket.socket) -> None:
    """Answer until the program is interrupted. Raises KeyboardInterrupt then."""
    try:
        Server(served).run(sockets=[listener])
    finally:
        served.shutdown()
