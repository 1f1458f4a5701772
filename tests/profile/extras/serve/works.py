"""Main functions for the process of a server without a model. They load in a moment."""

import os
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from trio_profile.errors import StudyError
from trio_profile.extras.serve.request import Ended, Refused
from trio_profile.extras.serve.worker import limit_memory

POSITIONS = 1024
ROOM = 64 * 2**20


def obedient(listener: Connection) -> None:
    """Do what the text of a request says. The answer lists the texts that came so far."""
    limit_memory(ROOM)
    listener.send(POSITIONS)
    seen = []
    with suppress(EOFError, OSError):
        while True:
            if (body := listener.recv()) is None:
                continue
            seen.append(text := body.parts[-1].text)
            end = Ended(" ".join(seen), "stop", {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
            try:
                if text == "die":
                    os._exit(3)
                if text == "hang":
                    time.sleep(1e6)
                if text == "fill":
                    bytearray(4 * ROOM)
                while text.startswith("talk") and not listener.poll():
                    listener.send("word ")
                    time.sleep(0.001)
                if text == "talk, then fail":
                    end = Refused(500, 'say "no"')
            except Exception as error:
                end = Refused.of(error)
            listener.send(end)


def refusing(listener: Connection) -> None:
    """Say that the model cannot be served."""
    listener.send(StudyError("no model of this name"))


def dying(listener: Connection) -> None:
    """End before a word."""
    os._exit(3)


def once(mark: Path, listener: Connection) -> None:
    """Start well the first and the third time, as counted in a file."""
    starts = len(mark.read_text()) if mark.exists() else 0
    mark.write_text("." * (starts + 1))
    if starts == 1:
        os._exit(3)
    obedient(listener)
