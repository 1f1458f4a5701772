"""Processes that measure: a server imports the libraries once, and forks fresh processes.

A forked process begins as the server was: it has the libraries, and the model if the server was asked to load it, and
it has run nothing. So its times are those of a process that was started anew (docs/explanation/paired-ratios.md has the
measured comparison), and it begins at once. On CUDA each process loads the model itself, because a context of the GPU
cannot be forked.

Each process has a socket of its own. Requests and answers are JSON lines. The answers to a request end with `done`, an
error, or how the process ended. If the other end is closed, the process ends: so none outlives the command.
"""

import json
import os
import queue
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Self

from trio_profile.engine.orders import Event, Order, events_of
from trio_profile.errors import MeasurementError, ProfileError, StudyError
from trio_profile.optional import set_broken_torchvision_aside
from trio_profile.process import prepare
from trio_profile.records.lock import lock_descriptors
from trio_profile.records.schema import Study

Say = Callable[[dict[str, Any]], None]
"""Sends an answer."""
TASKS = "trio_profile.engine.measuring"
"""The module of what a process can do: `load(request)` runs in the server, other functions take an iterator of requests
and `say`. It imports torch, and this module must not."""
MOST_DESCRIPTORS = 8
"""A process gets at most so many open files: its channel, and the locks that it holds."""
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from trio_profile.engine.processes import serve
serve(int(sys.argv[2]))
"""


def require_known_methods(study: Study) -> None:
    """Raise StudyError if a method of the study is known to this process only, because its class was defined here."""
    from trio_core import methods

    known_anywhere = {entry.name for entry in entry_points(group="trio_core.methods")}
    for name in (part for method in study.methods for part in methods.parts_of(method)):
        method = methods.find(name)
        module = name.partition(":")[0] if ":" in name else method.__module__
        if module == "__main__":
            raise StudyError(
                f"method {name!r} is defined in the main script, which a fresh process cannot import: measure in this "
                "process (processes=1), or put the class into a module and name it as package.module:ClassName"
            )
        if ":" not in name and name not in known_anywhere and not module.startswith("trio_core."):
            raise StudyError(
                f"method {name!r} is registered in this process only: name it as {module}:{method.__qualname__}, "
                "or measure in this process (processes=1)"
            )


class Server:
    """A process that forks fresh processes. Use it in a `with` statement, which ends all of them.

    It imports the libraries while this process goes on.
    """

    def __init__(self) -> None:
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with other:
            self._process = subprocess.Popen(
                # -P: Python does not put the working directory before the path of this process, which is an argument.
                [sys.executable, "-P", "-c", _START, json.dumps(sys.path), str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                # Ctrl-C reaches only this process, which then ends the others.
                start_new_session=True,
                pass_fds=(other.fileno(),),
            )

    def __enter__(self) -> Self:
        """Return the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the server and all processes that it has forked."""
        self.close()

    def close(self) -> None:
        """End the server and all processes that it has forked."""
        self._control.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def fork(self, load: dict[str, Any] | None = None) -> "Child":
        """Fork a process, which waits for requests.

        load: a request whose model the server loads first, if it has not yet. Then all processes that it forks have it.
        Raises MeasurementError if the server is dead.
        """
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        # The parent's threads are those that the user has set.
        torch = sys.modules.get("torch")
        number = torch.get_num_threads() if torch is not None else None
        line = json.dumps({"threads": number, "load": load}).encode() + b"\n"
        with other:
            try:
                # The directory stays locked until the process has ended.
                kept_open = [other.fileno(), *lock_descriptors()]
                socket.send_fds(self._control, [len(line).to_bytes(8, "big")], kept_open)
                self._control.sendall(line)
            except OSError as error:
                mine.close()
                end = _end(self._process.wait())
                raise MeasurementError(f"the measuring process {end}; what was measured before is kept") from error
        return Child(mine)


@contextmanager
def started_early() -> Iterator[None]:
    """Start a server that `taken` returns. It imports the libraries while this process still checks what was asked."""
    server = Server()
    _early.append(server)
    try:
        yield
    finally:
        if server in _early:
            _early.remove(server)
        server.close()


def taken() -> Server:
    """Return the server that was started early, or a new one."""
    return _early.pop() if _early else Server()


_early: list[Server] = []


class Child:
    """A forked process, as the one that asks it sees it."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self._begun = b""

    def ask(self, task: str, request: Any) -> None:
        """Send a request. Further ones go to the same task, when the one before is done.

        task: name of the function of TASKS that runs in the process.
        """
        with suppress(OSError):  # its answer says how it ended
            self.channel.sendall(json.dumps({"task": task, "request": request}).encode() + b"\n")

    def stop(self) -> None:
        """Let the process end."""
        with self.channel, suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)

    def read(self) -> Iterator[dict[str, Any]]:
        """Wait for answers, and yield those that are there, with `done` after each request.

        Raises the error that the process met, and MeasurementError if it was killed.
        """
        try:
            received = self.channel.recv(2**20)
        except OSError:
            received = b""
        if not received:
            raise MeasurementError("the measuring process is gone; what was measured before is kept")
        *lines, self._begun = (self._begun + received).split(b"\n")
        for line in lines:
            try:
                answer = json.loads(line)
            except ValueError:  # it was killed while it sent an answer, and its end comes next
                continue
            if "error" in answer:
                raise _error(answer)
            if "ended" in answer:
                raise MeasurementError(
                    f"the measuring process {_end(answer['ended'])}; what was measured before is kept"
                )
            yield answer


def carry_out(
    orders: Sequence[Order],
    children: Sequence[Child],
    meanwhile: Callable[[], None] = lambda: None,
    seconds: float | None = None,
) -> Iterator[tuple[int, Event]]:
    """Give each process its order. Yield its events, with the number of the process, until all are done.

    meanwhile, seconds: as in `hear`.
    Raises the first error that a process meets.
    """
    for child, order in zip(children, orders, strict=True):
        child.ask("measure", order.model_dump(mode="json"))
    for number, answer in hear(children, meanwhile, seconds):
        for event in events_of(answer):
            yield number, event


def hear(
    children: Sequence[Child], meanwhile: Callable[[], None] = lambda: None, seconds: float | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what processes answer, with the number of the process, until all have done what they were asked.

    meanwhile: is called after each wait, which lasts at most so many `seconds`. Its errors are raised.
    Raises the errors of `Child.read`.
    """
    with selectors.DefaultSelector() as selector:
        for number, child in enumerate(children):
            selector.register(child.channel, selectors.EVENT_READ, number)
        while selector.get_map():
            for key, _ in selector.select(seconds):
                for answer in children[key.data].read():
                    if "done" in answer:
                        selector.unregister(key.fileobj)
                    else:
                        yield key.data, answer
            meanwhile()


def _has_descriptor(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def _end(code: int) -> str:
    """Return how a process ended, for a sentence."""
    if code >= 0:
        return f"ended with code {code}"
    more = " (often because memory ran out)" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{more}"


# Errors, from one process to the other


def _known_errors() -> dict[str, type[Exception]]:
    """Return the classes of errors that keep their class between the two processes, by name: ours, and two of Python's.

    The command line has a sentence of its own for each of them. All others are faults.
    """
    modules = [import_module(name) for name in ("trio_profile.errors", "trio_core.errors")]
    values = [MemoryError, OSError, *(value for module in modules for value in vars(module).values())]
    return {value.__name__: value for value in values if isinstance(value, type) and issubclass(value, Exception)}


def _described(error: Exception) -> dict[str, Any]:
    """Return an error as an answer: the first of its classes that is known, and its message as one line."""
    known = _known_errors()
    name = next((cls.__name__ for cls in type(error).__mro__ if known.get(cls.__name__) is cls), None)
    message = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno is not None:
        filename = None if error.filename is None else str(error.filename)
        return {"error": name, "arguments": [error.errno, error.strerror, filename]}
    return {"error": name or type(error).__name__, "arguments": [message]}


def _error(answer: dict[str, Any]) -> Exception:
    """Return the error that the process met. An error of an unknown class becomes a RuntimeError of the same name."""
    cls = _known_errors().get(answer["error"]) or type(answer["error"], (RuntimeError,), {})
    if issubclass(cls, OSError):
        return cls(*answer["arguments"])
    # The classes of trio_core take other arguments than a message.
    error = cls.__new__(cls)
    error.args = tuple(answer["arguments"])
    return error


# In the server, and in the processes that it forks


def serve(descriptor: int) -> None:
    """Fork processes. This is the main function of the server.

    descriptor: of the socket on which it is asked for them.
    """
    prepare()  # before torch is imported
    set_broken_torchvision_aside(say=False)  # the process that started this one has said so
    threads: int | None = None
    with suppress(Exception):  # the first request says what is missing
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # threads of OpenMP would not survive a fork
        import_module(TASKS)
    control = socket.socket(fileno=descriptor)
    channels: dict[int, socket.socket] = {}
    wake, awake = os.pipe()
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        readable = _wait_for(control.fileno(), wake)
        if wake in readable:
            os.read(wake, 4096)
            _reap(channels)
        if control.fileno() in readable and not _fork(control, channels, wake, awake, threads):
            return


def _wait_for(*descriptors: int) -> list[int]:
    import select

    return select.select(descriptors, [], [])[0]


def _reap(channels: dict[int, socket.socket]) -> None:
    """Say of each process that has ended how it ended, and close its channel."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            with channels.pop(pid) as channel, suppress(OSError):
                channel.sendall(b"\n" + json.dumps({"ended": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


def _fork(
    control: socket.socket, channels: dict[int, socket.socket], wake: int, awake: int, threads: int | None
) -> bool:
    """Read that a process is wanted, and fork it. Return False if no further one can be wanted.

    threads: of a process, if the one that asks has no torch and so does not say how many.
    """
    header, descriptors, _, _ = socket.recv_fds(control, 8, MOST_DESCRIPTORS)
    if len(header) < 8 or not descriptors:
        return False
    length, line = int.from_bytes(header, "big"), b""
    while len(line) < length:
        if not (part := control.recv(length - len(line))):
            return False
        line += part
    channel, asked = socket.socket(fileno=descriptors[0]), json.loads(line)
    asked["threads"] = asked["threads"] or threads
    error = None if asked["load"] is None else _load(asked["load"])
    if error is not None:
        with channel, suppress(OSError):
            channel.sendall(json.dumps(_described(error)).encode() + b"\n")
    elif not (pid := os.fork()):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in (control, *channels.values()):
            other.close()
        os.close(wake)
        os.close(awake)
        _run(channel, asked["threads"])
    else:
        channels[pid] = channel
    for lock in descriptors[1:]:
        os.close(lock)  # the forked process has it
    return True


def _load(request: dict[str, Any]) -> Exception | None:
    """Load the model of a request into the server. Return the error, if it cannot be loaded."""
    try:
        import_module(TASKS).load(request)
    except Exception as error:
        return error
    return None


def _run(channel: socket.socket, threads: int | None) -> None:
    """Answer requests, until one fails or the other end of the channel is closed. Then end this process."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(channel, lines), daemon=True).start()

    def say(answer: dict[str, Any]) -> None:
        channel.sendall(json.dumps(answer).encode() + b"\n")

    def requests() -> Iterator[Any]:
        yield first["request"]
        while True:
            say({"done": True})
            yield json.loads(lines.get())["request"]

    code = 0
    try:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        first = json.loads(lines.get())
        getattr(import_module(TASKS), first["task"])(requests(), say)
    except Exception as error:
        if os.environ.get("TRIO_PROFILE_TRACEBACK") and not isinstance(error, ProfileError):
            import traceback

            traceback.print_exc()
        with suppress(OSError):
            say(_described(error))
    except BaseException:
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _receive(channel: socket.socket, lines: "queue.SimpleQueue[bytes]") -> None:
    """Put each request into a queue. End this process when the other end of its channel is closed."""
    with suppress(OSError), channel.makefile("rb") as received:
        for line in received:
            lines.put(line)
    os._exit(1)
