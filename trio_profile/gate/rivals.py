"""Two revisions of a repository, each in its own process, timed in turn on the same workload.

    with worktree(repository, "main") as base, Rivals(base, repository, "package.module:function") as rivals:
        base_ms, new_ms = rivals.sample(30)

Two revisions that are measured one after the other differ by what the machine did meanwhile: by 26 % between two jobs
of the same code, by 0.3 % within one job [field.md, headline]. Alternating runs cancel this difference.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

from trio_profile.errors import MeasurementError, StudyError
from trio_profile.gate import rival_worker
from trio_profile.gate.rival_worker import DEFAULT, load, one_line, prefill
from trio_profile.process import worker_variables
from trio_profile.stats.orders import balanced_orders

__all__ = ["DEFAULT", "Rivals", "Worker", "commit_of", "in_turn", "load", "one_line", "prefill", "worktree"]

START_SECONDS, RUN_SECONDS = 300.0, 120.0
"""The time limits of a worker: to import and build its workload, and for one run of it."""
WARMUPS = 2
Sampler: TypeAlias = Callable[[int], tuple[list[float], list[float]]]
"""Runs so many pairs and returns their milliseconds, as (base, new)."""
_GIT_SECONDS = 120


class Worker:
    """A process that imports from one tree and runs one workload. Its errors become MeasurementError, in one line.

    It starts at once. Wait for it with `ready` before the first run.

    name: `base` or `new`, for messages.
    tree: the directory that it imports from.
    other: the other revision's directory, from which nothing may be imported.
    workload, arguments: what to run.
    start_seconds, run_seconds: the time limits.
    places: folders of the tree that hold packages, as paths from the tree. The tree itself is searched first.
    time: `ms`, the time that the workload returns, or `cpu_ms`, the CPU time of its run.
    """

    def __init__(
        self,
        name: str,
        tree: Path,
        other: Path,
        workload: str,
        arguments: Mapping[str, Any],
        start_seconds: float = START_SECONDS,
        run_seconds: float = RUN_SECONDS,
        *,
        places: Sequence[str] = ("src",),
        time: str = "ms",
    ):
        self.name, self.workload, self.run_seconds, self.time = name, workload, run_seconds, time
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by close
        asked = {
            "tree": str(tree.resolve()),
            "other": str(other.resolve()),
            "places": list(places),
            "workload": workload,
            "arguments": dict(arguments),
        }
        # Idle threads must sleep and not spin, because the other worker is running.
        environment = {**os.environ, **worker_variables(os.environ), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(rival_worker.__file__).resolve()), json.dumps(asked)],
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            # With a process group of its own, all processes that it starts can be ended together.
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input: IO[str] = self._process.stdin
        self._output: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()
        self._start_seconds = start_seconds
        self.exact: dict[str, int] = {}

    def ready(self) -> Self:
        """Wait until the process has built its workload, and keep the workload's exact numbers."""
        try:
            answer = self._answer(self._start_seconds, "to start")
        except BaseException:
            self.close()
            raise
        self.exact = {quantity: int(value) for quantity, value in answer["exact"].items()}
        return self

    def run(self) -> float:
        """Milliseconds of one run."""
        # Writing fails if the worker has ended. `_answer` then reads the reason.
        with suppress(OSError, ValueError):
            self._input.write("{}\n")
            self._input.flush()
        ms = self._answer(self.run_seconds, "for one run")[self.time]
        if not (isfinite(ms) and ms > 0):
            raise MeasurementError(f"{self._who} returned {ms:g}, which is no time in milliseconds")
        return ms

    def close(self) -> None:
        """End the process and all processes that it started."""
        with suppress(OSError):
            self._input.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    @property
    def _who(self) -> str:
        return f"the workload {self.workload} of the {self.name} revision"

    def _listen(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._output.put(line)
        self._output.put(None)

    def _answer(self, seconds: float, what: str) -> dict[str, Any]:
        try:
            line = self._output.get(timeout=seconds)
        except queue.Empty:
            raise MeasurementError(f"{self._who} took longer than {seconds:g} s {what}") from None
        if line is None:
            raise MeasurementError(f"{self._who} {self._end()}")
        answer = json.loads(line)
        if "error" in answer:
            raise MeasurementError(f"{self._who}: {answer['error']}")
        return answer

    def _end(self) -> str:
        """How the process ended, and the last line that it wrote."""
        code = self._process.wait(timeout=10)
        self._log.seek(0)
        said = [line.strip() for line in self._log if line.strip()]
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"{how}: {said[-1]}" if said else how


class Rivals:
    """The two workers. Use it in a `with` statement, which ends both.

    base, new: the directories of the two revisions.
    workload, arguments: what both run.
    seed: of the order within the pairs.
    time: as in `Worker`.
    start_seconds, run_seconds: the time limits.
    sample: runs both so many times in turn: see `in_turn`.
    """

    sample: Sampler

    def __init__(
        self,
        base: Path,
        new: Path,
        workload: str = DEFAULT,
        arguments: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        time: str = "ms",
        start_seconds: float = START_SECONDS,
        run_seconds: float = RUN_SECONDS,
    ):
        self._trees = {"base": base, "new": new}
        self._workload, self._arguments = workload, arguments or {}
        self._limits, self._time = (start_seconds, run_seconds), time
        self._seed = seed
        self._stack = ExitStack()
        self.workers: dict[str, Worker] = {}

    def __enter__(self) -> Self:
        """Start both workers at once, and warm them up."""
        places = _places(self._trees["new"])
        with ExitStack() as stack:
            for name, tree in self._trees.items():
                other = self._trees["new" if name == "base" else "base"]
                arguments = self._workload, self._arguments_of(name), *self._limits
                worker = Worker(name, tree, other, *arguments, places=places, time=self._time)
                stack.callback(worker.close)
                self.workers[name] = worker
            for worker in self.workers.values():
                worker.ready()
            self.sample = in_turn(self.workers["base"].run, self.workers["new"].run, self._seed)
            self.sample(WARMUPS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End both workers."""
        self._stack.close()

    def _arguments_of(self, name: str) -> Mapping[str, Any]:
        """The workload's arguments on one side. They are the same on both, unless a test plants a difference."""
        del name
        return self._arguments


def in_turn(base: Callable[[], float], new: Callable[[], float], seed: int = 0) -> Sampler:
    """A function that runs both so many times in turn and returns their milliseconds, as (base, new).

    base, new: return the milliseconds of one run.
    seed: of the order within the pairs, which is balanced: see `balanced_orders`.
    """
    runs, orders = (base, new), balanced_orders(seed)

    def sample(pairs: int) -> tuple[list[float], list[float]]:
        times: tuple[list[float], list[float]] = [], []
        for _ in range(pairs):
            for side in next(orders):
                times[side].append(runs[side]())
        return times

    return sample


def _places(tree: Path) -> list[str]:
    """The folders of a tree that this process imports from, as paths from the tree, and `src`.

    Folders of an environment inside the tree are left out.
    """
    found = (Path(entry).resolve() for entry in sys.path)
    inside = [place for place in found if place.is_relative_to(tree.resolve())]
    packages = [place for place in inside if not place.is_relative_to(Path(sys.prefix).resolve())]
    return list(dict.fromkeys(["src", *(place.relative_to(tree.resolve()).as_posix() for place in packages)]))


@contextmanager
def worktree(directory: Path, revision: str) -> Iterator[Path]:
    """A temporary copy of a directory as it was in another revision of its repository.

    Raises StudyError if there is no such revision, or if the directory is in no repository.
    """
    commit = commit_of(directory, revision)
    top = Path(_git(directory, "rev-parse", "--show-toplevel"))
    with tempfile.TemporaryDirectory(prefix="trio-gate-") as place:
        tree = Path(place) / "base"
        _git(directory, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            inside = tree / directory.resolve().relative_to(top.resolve())
            if not inside.is_dir():
                raise StudyError(f"revision {revision!r} has no directory {directory.name}: choose a later base")
            yield inside
        finally:
            _git(directory, "worktree", "remove", "--force", str(tree))


def commit_of(directory: Path, revision: str) -> str:
    """The commit that a revision names. Raises StudyError if it names none."""
    try:
        return _git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except StudyError as error:
        raise StudyError(f"{revision!r} names no commit of the repository at {directory}") from error


def _git(directory: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=directory, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or [f"it ended with {error.returncode}"])[-1]
        raise StudyError(f"git {arguments[0]} in {directory}: {said}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StudyError(f"git {arguments[0]} in {directory}: {one_line(error)}") from error
    return done.stdout.strip()
