"""The process that answers requests, one after another, with a deadline for each and a limit of memory.

A request that takes too long is told to stop at its next token. If it does not, the process is killed and started anew.
Meanwhile the listener goes on.
"""

import asyncio
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from trio_core.errors import TrioError
from trio_profile.errors import ProfileError, StudyError
from trio_profile.extras.serve.request import Body, Ended, Refused
from trio_profile.optional import set_broken_torchvision_aside
from trio_profile.records.study import Study
from trio_profile.text import first_line

DEADLINE_SECONDS = 300.0
"""How long a request may take, once its turn has come."""
GRACE_SECONDS = 10.0
"""How long a request whose time is over may go on to its next token, before its process is killed."""
LOOK_SECONDS = 0.1
"""How often the listener looks whether the client of the running request has left, or its time is over."""
MEMORY_BYTES = 8 * 2**30
"""How much main memory the process may take beyond what it has with its model. Only Linux counts it."""
_LATE = "the answer took too long; ask for fewer tokens, or send less"
_ENDED = "the process with the model has ended, often because memory ran out"


def work(study: Study, dense: bool, listener: Connection) -> None:
    """Load a model, and answer requests until the listener has gone. This is the main function of the process.

    First it sends the positions of the model, or the StudyError that says why it cannot be served. Then it receives
    bodies, and answers each by pieces of text and an `Ended` or a `Refused`. None tells it to stop.

    study, dense: as `answering.prepare` takes them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the listener, which ends this process
    set_broken_torchvision_aside()
    from trio_profile.extras.serve.answering import answer, positions_of, prepare

    def say(piece: str) -> None:
        if listener.poll():
            raise Refused(504, _LATE)
        listener.send(piece)

    try:
        loaded, method = prepare(study, dense=dense)
    except (ProfileError, TrioError) as error:
        return listener.send(StudyError(first_line(error)))
    limit_memory(MEMORY_BYTES)
    with suppress(OSError, EOFError):  # the listener has gone
        listener.send(positions_of(loaded))
        while True:
            if (body := listener.recv()) is None:  # it came too late to stop an answer
                continue
            try:
                end = answer(loaded, method, body, say)
            except Exception as error:
                end = Refused.of(error)
            listener.send(end)


def limit_memory(more: int) -> None:
    """Let this process take so many more bytes than it has."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        most = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


@dataclass(eq=False)
class Job:
    """A request on its way through the worker.

    events: the pieces of its answer, and then its `Ended` or `Refused`.
    is_left: whether its client has gone.
    watch: waits for that.
    """

    body: Body
    loop: asyncio.AbstractEventLoop
    events: "asyncio.Queue[str | Ended | Refused]" = field(default_factory=asyncio.Queue)
    is_left: bool = False
    watch: "asyncio.Task[None] | None" = None


class Worker:
    """The process, and the turns of the requests.

    work: its main function.
    positions: the longest sequence of the model in tokens; None while the model is being loaded.
    Raises StudyError if the model cannot be served.
    """

    def __init__(self, work: Callable[[Connection], None]):
        self._work, self._is_closed = work, False
        self._line = ThreadPoolExecutor(1)  # its only thread talks with the process
        self._start()

    def submit(self, body: Body) -> Job:
        """Let a request wait for its turn, and return it as a job."""
        job = Job(body, asyncio.get_running_loop())
        self._line.submit(self._answer, job)
        return job

    def close(self) -> None:
        """End the process. The requests are told that the server stops."""
        self._is_closed = True
        self._process.kill()

    def _start(self) -> None:
        self.positions: int | None = None
        self._pipe, other = (context := get_context("spawn")).Pipe()
        process = context.Process(target=self._work, args=(other,), daemon=True)
        process.start()
        self._process = process
        other.close()
        if self._is_closed:
            process.kill()
        try:
            positions = self._pipe.recv()
        except EOFError:
            positions = StudyError(_ENDED)
        if isinstance(positions, StudyError):
            raise positions
        self.positions = positions

    def _answer(self, job: Job) -> None:
        for event in self._events_of(job):
            job.loop.call_soon_threadsafe(job.events.put_nowait, event)

    def _events_of(self, job: Job) -> Iterator[Any]:
        """Yield the events of a job. If the process has ended, or must be ended, start it anew."""
        if job.is_left:
            yield Refused(499, "the client has left")
            return
        end, event = time.monotonic() + DEADLINE_SECONDS, ""
        try:
            self._pipe.send(job.body)
            job.body.messages.clear()  # the process has them now
            while isinstance(event, str):
                if self._pipe.poll(LOOK_SECONDS):
                    yield (event := self._pipe.recv())
                if (late := time.monotonic() - end) > GRACE_SECONDS:
                    raise TimeoutError
                if late > 0 or job.is_left:
                    self._pipe.send(None)
        except (OSError, EOFError) as error:
            self._process.kill()
            self.positions = None
            ended = Refused(503, "the server stops" if self._is_closed else f"{_ENDED}; it is started anew")
            yield Refused(504, _LATE) if isinstance(error, TimeoutError) else ended
            while not (self._is_closed or self.positions):
                with suppress(StudyError):
                    self._start()
