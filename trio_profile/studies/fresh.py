"""A fresh Python process that measures one session of a study.

The process gets a request as one JSON line on its standard input. It answers with JSON lines: its steps, and at the end
`done` or an error. If its standard input is closed, it ends: so it never outlives the process that started it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, Any

from trio_profile.errors import MeasurementError, ProfileError, StudyError
from trio_profile.optional import set_broken_torchvision_aside
from trio_profile.process import prepare
from trio_profile.progress import Step, Watch
from trio_profile.records.lock import lock_descriptors
from trio_profile.records.schema import Study

_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from trio_profile.studies.fresh import answer_request
answer_request()
"""


def require_known_methods(study: Study) -> None:
    """Raise StudyError if a method of the study is known to this process only, because its class was defined here."""
    from trio_core import methods

    found_anywhere = {entry.name for entry in entry_points(group="trio_core.methods")}
    for name in (part for method in study.methods for part in methods.parts_of(method)):
        method = methods.find(name)
        module = name.partition(":")[0] if ":" in name else method.__module__
        if module == "__main__":
            raise StudyError(
                f"method {name!r} is defined in the main script, which a fresh process cannot import: measure in this "
                "process (processes=1), or put the class into a module and name it as package.module:ClassName"
            )
        if ":" not in name and name not in found_anywhere and not module.startswith("trio_core."):
            raise StudyError(
                f"method {name!r} is registered in this process only: name it as {module}:{method.__qualname__}, "
                "or measure in this process (processes=1)"
            )


def measure(study: Study, directory: Path, command: str, skip: frozenset[str], watch: Watch) -> None:
    """Measure one session of a study in a fresh process, and wait for its end.

    command: the command line that the user gave, for the record.
    skip: ids of cells that are not measured.
    watch: called with each step.
    Raises the errors of `measuring.measure`, and MeasurementError if the process is killed.
    """
    request = {
        "study": study.model_dump(mode="json"),
        "directory": str(directory),
        "command": command,
        "skip": sorted(skip),
    }
    with start() as process:
        for answer in ask(process, "session", request):
            watch(Step(*answer["step"]))


def ask(process: "subprocess.Popen[str]", task: str, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Send a request to a process that has just started, and yield its answers until it is done.

    task: `session` measures one session of a study, `worker` is one process of a worker.
    Raises the error that the process met, and MeasurementError if it is killed.
    """
    assert process.stdin is not None and process.stdout is not None
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
    # Writing fails if the process has ended. Its exit code then says why.
    with suppress(OSError):
        process.stdin.write(json.dumps({**request, "task": task, "threads": threads}) + "\n")
        process.stdin.flush()
    for line in process.stdout:
        answer = json.loads(line)
        if "error" in answer:
            raise _error(answer)
        if "done" in answer:
            return
        yield answer
    raise MeasurementError(f"the measuring process {_end(process.wait())}; what was measured before is kept")


@contextmanager
def start() -> Iterator["subprocess.Popen[str]"]:
    """Start a process that waits for a request, and end it with everything that it started."""
    process = subprocess.Popen(
        # -P: Python does not put the working directory before the path of this process, which follows as an argument.
        [sys.executable, "-P", "-c", _START, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        # Ctrl-C reaches only this process, which then ends the other.
        start_new_session=True,
        # The directory stays locked until this process has ended too.
        pass_fds=lock_descriptors(),
    )
    try:
        yield process
    finally:
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        kill(process)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def kill(process: "subprocess.Popen[str]") -> None:
    """End a process that `start` has started, with everything that it started itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(code: int) -> str:
    """Return how a process ended, for a sentence."""
    if code >= 0:
        return f"ended with code {code}"
    more = " (often because memory ran out)" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{more}"


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
    return {"error": name, "arguments": [message if name else f"{type(error).__name__}: {message}"]}


def _error(answer: dict[str, Any]) -> Exception:
    """Return the error that the process met. An error of an unknown class becomes a RuntimeError."""
    cls = _known_errors().get(answer["error"], RuntimeError)
    if issubclass(cls, OSError):
        return cls(*answer["arguments"])
    # The classes of trio_core take other arguments than a message.
    error = cls.__new__(cls)
    error.args = tuple(answer["arguments"])
    return error


def answer_request() -> None:
    """Measure the session that standard input asks for. This is the main function of the fresh process."""
    prepare()  # before torch is imported
    set_broken_torchvision_aside(say=False)  # the process that started this one has said so
    # What libraries print goes to standard error, so that it is not read as an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with, args=(sys.stdin,), daemon=True).start()

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        import torch

        if (threads := request.pop("threads")) is not None and threads != torch.get_num_threads():
            torch.set_num_threads(threads)
        _TASKS[request.pop("task")](request, say)
    except Exception as error:
        if os.environ.get("TRIO_PROFILE_TRACEBACK") and not isinstance(error, ProfileError):
            import traceback

            traceback.print_exc()
        say(_described(error))
    else:
        say({"done": True})


def _measure_session(request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    from trio_profile.studies.measuring import measure as measure_here

    measure_here(
        Study.model_validate(request["study"]),
        Path(request["directory"]),
        _told(say),
        command=request["command"],
        skip=frozenset(request["skip"]),
    )


def _work(request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    from trio_profile.studies import worker

    study, directory = Study.model_validate(request.pop("study")), Path(request.pop("directory"))
    worker.work(worker.Asked(study, directory, **request), _told(say), say)


def _told(say: Callable[[dict[str, Any]], None]) -> Watch:
    return lambda step: say({"step": [step.text, step.done, step.total]})


_TASKS = {"session": _measure_session, "worker": _work}


def _end_with(stream: IO[str]) -> None:
    """End this process when the stream is closed."""
    stream.read()
    os._exit(1)
