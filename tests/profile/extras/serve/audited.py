"""A server whose two processes report every file that they open and every connection that they make.

Python says so to its audit hooks. Each process opens a file of no such name when it is ready: its report is the sign
that the others would come.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from trio_profile.extras.serve.server import Server, address_of, listen
from trio_profile.extras.serve.worker import Worker, work
from trio_profile.records.study import Study

EVENTS = {
    "open", "os.listdir", "os.scandir", "os.exec", "os.posix_spawn", "os.fork", "os.system", "subprocess.Popen",
    "socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname", "ctypes.dlopen",
}  # fmt: skip
SIGN = "/no/such/file"


class Audited(NamedTuple):
    """url: of OpenAI's interface. pids: of the listener and of the worker. reports: what they did, without the sign."""

    url: str
    pids: tuple[int, int]
    reports: Connection

    def seen(self) -> list[str]:
        """The files and connections since the last call."""
        found = []
        while self.reports.poll():
            found.append(self.reports.recv())
        return found


def report_from_now(reports: Connection) -> None:
    """Report what this process opens and connects to."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS:
            reports.send(f"{event} {arguments[0] if arguments else ''}")

    sys.addaudithook(hook)
    with suppress(OSError):
        open(SIGN)  # noqa: PTH123, SIM115


class Watched:
    """The connection to the listener. Reports begin when the process says that it is ready."""

    def __init__(self, listener: Connection, reports: Connection):
        self.recv, self.poll, self._listener, self._reports = listener.recv, listener.poll, listener, reports

    def send(self, message: Any) -> None:
        if isinstance(message, int):
            report_from_now(self._reports)
        self._listener.send(message)


def work_audited(study: Study, dense: bool, reports: Connection, listener: Connection) -> None:
    """The main function of the worker's process."""
    watched: Any = Watched(listener, reports)
    work(study, dense, watched)


class AuditedServer(Server):
    """Reports begin when the server listens."""

    reports: Connection

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        report_from_now(self.reports)


def serve_audited(study: Study, dense: bool, told: Connection, reports: Connection) -> None:
    """The main function of the listener's process."""
    listener = listen("127.0.0.1", 0)
    worker = Worker(partial(work_audited, study, dense, reports))
    told.send((address_of(listener), (os.getpid(), worker._process.pid)))
    server = AuditedServer(worker, "pocket")
    server.reports = reports
    server.run([listener])


@contextmanager
def serving_audited(study: Study, *, dense: bool = False) -> Iterator[Audited]:
    """Run such a server until the end of the context."""
    context = get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    reports, report = context.Pipe(duplex=False)
    process = context.Process(target=serve_audited, args=(study, dense, tell, report))
    process.start()
    tell.close()
    try:
        audited = Audited(*told.recv(), reports)
        assert [reports.recv(), reports.recv()] == [f"open {SIGN}"] * 2
        yield audited
    finally:
        process.terminate()
        process.join()
