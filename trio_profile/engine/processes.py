"""Processes that measure: a server imports the libraries once, and forks fresh processes.

A forked process begins as the server was: it has the libraries, and the model if the server was asked to load it, and
it has run nothing. So its times are those of a process that was started anew (docs/explanation/paired-ratios.md has the
measured comparison), and it begins at once. On CUDA each process loads the model itself, because a context of the GPU
cannot be forked.

Each process has a connection of its own. After its answers to a request comes None, or an error. If the other end is
closed, the process ends: so none outlives the command.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple, Self

from trio_profile.errors import MeasurementError, ProfileError, StudyError
from trio_profile.optional import set_broken_torchvision_aside
from trio_profile.process import prepare
from trio_profile.records.lock import lock_descriptors
from trio_profile.records.schema import Study

Say = Callable[[Any], None]
"""Sends an answer."""
TASKS = "trio_profile.engine.measuring"
"""The module of what a process can do: `load(request)` runs in the server, other functions take an iterator of requests
and `say`. It imports torch, and this module must not."""
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
        self._control, other = Pipe()
        self._forked, self._lock = 0, threading.Lock()
        try:
            output = sys.stderr.fileno()
        except (AttributeError, OSError, ValueError):  # such as that of a notebook
            output = subprocess.DEVNULL
        with other:
            self._process = subprocess.Popen(
                # -P: Python does not put the working directory before the path of this process, which is an argument.
                [sys.executable, "-P", "-c", _START, json.dumps(sys.path), str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
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

    def fork(self, load: Any = None) -> "Child":
        """Fork a process, which waits for requests.

        load: a request whose model the server loads first, if it has not yet. Then all processes that it forks have it.
        Raises MeasurementError if the server is dead.
        """
        mine, other = Pipe()
        # The parent's threads are those that the user has set.
        torch = sys.modules.get("torch")
        threads = torch.get_num_threads() if torch is not None else None
        # The directory stays locked until the process has ended.
        kept_open = [other.fileno(), *lock_descriptors()]
        with other, self._lock:
            try:
                self._control.send((len(kept_open), threads, load))
                for descriptor in kept_open:
                    send_handle(self._control, descriptor, self._process.pid)
            except OSError as error:
                mine.close()
                raise MeasurementError(_ended(self._process.wait())) from error
            self._forked += 1
            return Child(mine, partial(self._end, self._forked - 1))

    def _end(self, number: int) -> str:
        """Return how a process ended, in one sentence. number: how many were forked before it."""
        try:
            with self._lock:
                self._control.send(number)
                return _ended(self._control.recv())
        except (OSError, EOFError):
            return _ended(self._process.wait())


class Child(NamedTuple):
    """A forked process, as the one that asks it sees it.

    end: says how it ended.
    """

    channel: Connection
    end: Callable[[], str]

    def ask(self, task: str, request: Any) -> None:
        """Send a request. Further ones go to the same task, when the one before is done.

        task: name of the function of TASKS that runs in the process.
        """
        with suppress(OSError):  # its answer says how it ended
            self.channel.send((task, request))

    def stop(self) -> None:
        """Let the process end."""
        self.channel.close()

    def read(self) -> Any:
        """Wait for an answer. None comes when a request is done.

        Raises the error that the process met, and MeasurementError if it was killed.
        """
        try:
            answer = self.channel.recv()
        except (OSError, EOFError) as error:
            raise MeasurementError(self.end()) from error
        if isinstance(answer, Failure):
            raise answer.error()
        return answer


def answers_of(child: Child) -> Iterator[Any]:
    """Yield what a process answers, until it has done what it was asked. Raises the errors of `Child.read`."""
    while (events := child.read()) is not None:
        yield from events


def _ended(code: int) -> str:
    """Return how a process ended, in one sentence."""
    end = f"ended with code {code}"
    if code < 0:
        more = " (often because memory ran out)" if -code == signal.SIGKILL else ""
        end = f"was killed by {signal.Signals(-code).name}{more}"
    return f"the measuring process {end}; what was measured before is kept"


class Failure(NamedTuple):
    """An error that a process met, as it is sent.

    Our errors and two of Python's keep their class, because the command line has a sentence of its own for each. All
    others are faults.

    cls: the first of its classes that is known; the name of its class if none is.
    arguments: its message as one line; of an OSError the number, the message and the file.
    """

    cls: type[Exception] | str
    arguments: tuple[Any, ...]

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Return an error as it is sent."""
        ours = ("trio_profile.errors", "trio_core.errors")
        known = (kind for kind in type(error).__mro__ if kind in (MemoryError, OSError) or kind.__module__ in ours)
        arguments: tuple[Any, ...] = (" ".join(str(error).split()),)
        if isinstance(error, OSError) and error.errno is not None:
            arguments = error.errno, error.strerror, error.filename
        return cls(next(known, type(error).__name__), arguments)

    def error(self) -> Exception:
        """Return the error. One of an unknown class becomes a RuntimeError of the same name."""
        cls = type(self.cls, (RuntimeError,), {}) if isinstance(self.cls, str) else self.cls
        return cls.__new__(cls, *self.arguments)  # the classes of trio_core are made of other arguments than a message


# In the server, and in the processes that it forks


def serve(descriptor: int) -> None:
    """Fork processes. This is the main function of the server.

    descriptor: of the connection on which it is asked for them.
    """
    prepare()  # before torch is imported
    set_broken_torchvision_aside(say=False)  # the process that started this one has said so
    usual: int | None = None
    with suppress(Exception):  # the first request says what is missing
        import torch

        usual = torch.get_num_threads()
        torch.set_num_threads(1)  # threads of OpenMP would not survive a fork
        import_module(TASKS)
    control, pids = Connection(descriptor), list[int]()
    with suppress(EOFError):  # nobody asks any more
        while True:
            wanted = control.recv()
            if isinstance(wanted, int):
                control.send(os.waitstatus_to_exitcode(os.waitpid(pids[wanted], 0)[1]))
            else:
                descriptors, threads, load = wanted
                channel, *locks = (recv_handle(control) for _ in range(descriptors))
                pids.append(_fork(control, Connection(channel), threads or usual, load))
                for lock in locks:
                    os.close(lock)  # the forked process has it


def _fork(control: Connection, channel: Connection, threads: int | None, load: Any) -> int:
    """Fork a process, and return its number. If the model cannot be loaded, the error is its answer, and 0 its number.

    threads: of the process.
    load: as in `Server.fork`.
    """
    with channel:
        try:
            if load is not None:
                import_module(TASKS).load(load)
        except Exception as error:
            with suppress(OSError):
                channel.send(Failure.of(error))
            return 0
        if not (pid := os.fork()):
            control.close()
            _run(channel, threads)
        return pid


def _run(channel: Connection, threads: int | None) -> None:
    """Answer requests, until one fails or the other end of the channel is closed. Then end this process."""
    waiting: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(channel, waiting), daemon=True).start()

    def requests() -> Iterator[Any]:
        yield first
        while True:
            channel.send(None)
            yield waiting.get()[1]

    code = 0
    try:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        task, first = waiting.get()
        getattr(import_module(TASKS), task)(requests(), channel.send)
    except Exception as error:
        if os.environ.get("TRIO_PROFILE_TRACEBACK") and not isinstance(error, ProfileError):
            import traceback

            traceback.print_exc()
        with suppress(OSError):
            channel.send(Failure.of(error))
    except BaseException:
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _receive(channel: Connection, waiting: "queue.SimpleQueue[tuple[str, Any]]") -> None:
    """Put each request into a queue. End this process when the other end of its channel is closed."""
    with suppress(OSError, EOFError):
        while True:
            waiting.put(channel.recv())
    os._exit(1)
