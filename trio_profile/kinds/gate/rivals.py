"""Two revisions of a repository, each in its own process, timed in turn on the same workload.

    with worktree(repository, "main") as base, rivals(base, repository, "package.module:function") as (_, sample):
        base_ms, new_ms = sample(30)

Two revisions that are measured one after the other differ by what the machine did meanwhile: by 26 % between two jobs
of the same code, by 0.3 % within one job [field.md, headline]. Alternating runs cancel this difference.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from math import isfinite
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, TypeAlias

from trio_profile.errors import MeasurementError, StudyError
from trio_profile.kinds.gate import rival_worker
from trio_profile.kinds.gate.rival_worker import one_line
from trio_profile.process import worker_variables
from trio_profile.stats.orders import balanced_orders

START_SECONDS, RUN_SECONDS = 300.0, 120.0
"""The time limits of a worker: to import and build its workload, and for one run of it."""
WARMUPS = 2
Sampler: TypeAlias = Callable[[int], tuple[list[float], list[float]]]
"""Runs so many pairs and returns their milliseconds, as (base, new)."""
ONE_THREAD = 1.1
"""Work that keeps at most so many cores busy is done by one thread."""
_GIT_SECONDS = 120


class Worker:
    """A process that imports from one tree and runs one workload. Its errors become MeasurementError, in one line.

    It starts at once. Wait for it with `ready` before the first run, and end it with `close`.

    name: `base` or `new`, for messages.
    tree: the directory that it imports from.
    other: the other revision's directory, from which nothing may be imported.
    workload, arguments: what to run.
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
        places: Sequence[str] = ("src",),
        time: str = "ms",
    ):
        self._who, self._time = f"the workload {workload} of the {name} revision", time
        request = pickle.dumps((tree.resolve(), other.resolve(), places, workload, dict(arguments)))
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by close
        self._connection, theirs = Pipe()
        # Idle threads must sleep and not spin, because the other worker is running.
        environment = {**os.environ, **worker_variables(os.environ), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(rival_worker.__file__).resolve()), str(theirs.fileno())],
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[theirs.fileno()],
            # With a process group of its own, all processes that it starts can be ended together.
            start_new_session=True,
        )
        theirs.close()
        with suppress(OSError):  # if the worker has ended, `ready` reads the reason
            self._connection.send_bytes(request)
        self.exact: dict[str, int] = {}
        self.busy_cores = 0.0

    def ready(self) -> None:
        """Wait until the process has built its workload, and keep the workload's exact numbers."""
        self.exact = self._answer(START_SECONDS, "to start")["exact"]

    def run(self) -> float:
        """Milliseconds of one run. `busy_cores` then says how many cores it kept busy."""
        with suppress(OSError):  # if the worker has ended, `_answer` reads the reason
            self._connection.send(None)
        answer = self._answer(RUN_SECONDS, "for one run")
        ms, self.busy_cores = answer[self._time], answer["busy_cores"]
        if not (isfinite(ms) and ms > 0):
            raise MeasurementError(f"{self._who} returned {ms:g}, which is no time in milliseconds")
        return ms

    def keep_on(self, core: int) -> None:
        """Run all threads of the process on one core from now on."""
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(ProcessLookupError):  # the thread has ended
                os.sched_setaffinity(int(thread.name), {core})

    def close(self) -> None:
        """End the process and all processes that it started."""
        self._connection.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()

    def _answer(self, seconds: float, task: str) -> dict[str, Any]:
        try:
            if not self._connection.poll(seconds):
                raise MeasurementError(f"{self._who} took longer than {seconds:g} s {task}")
            answer = self._connection.recv()
        except (EOFError, OSError):
            raise MeasurementError(f"{self._who} {self._end()}") from None
        if "error" in answer:
            raise MeasurementError(f"{self._who}: {answer['error']}")
        return answer

    def _end(self) -> str:
        """How the process ended, and the last line that it wrote."""
        code = self.process.wait(timeout=10)
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        end = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"{end}: {lines[-1]}" if lines else end


@contextmanager
def rivals(
    base: Path, new: Path, workload: str, arguments: Mapping[str, Any] | None = None, *, seed: int = 0, time: str = "ms"
) -> Iterator[tuple[list[Worker], Sampler]]:
    """The two workers, base and new, and a function that runs both in turn: see `in_turn`. Both end with the block.

    base, new: the directories of the two revisions.
    workload, arguments: what both run.
    seed: of the order within the pairs, and of the core.
    time: as of `Worker`.
    """
    places, sides = _places(new), (("base", base, new), ("new", new, base))
    with ExitStack() as stack:
        workers = [
            stack.enter_context(closing(Worker(*side, workload, arguments or {}, places, time))) for side in sides
        ]
        for worker in workers:
            worker.ready()
        sample = in_turn(workers[0].run, workers[1].run, seed)
        sample(WARMUPS)
        keep_on_one_core(workers, seed)
        yield workers, sample


def keep_on_one_core(workers: Sequence[Worker], seed: int) -> None:
    """Keep all workers on the same core if the work of each is done by one thread. seed: chooses the core.

    Each process stays where it started, and the cores of a shared machine differ: the same code was up to 15 % slower
    on one of two, and up to 2 % on the same.
    """
    if sys.platform == "linux" and all(worker.busy_cores <= ONE_THREAD for worker in workers):
        cores = sorted(os.sched_getaffinity(0))
        for worker in workers:
            worker.keep_on(cores[seed % len(cores)])


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
    tree, environment = tree.resolve(), Path(sys.prefix).resolve()
    places = [place for place in map(Path.resolve, map(Path, sys.path)) if place.is_relative_to(tree)]
    packages = (place.relative_to(tree).as_posix() for place in places if not place.is_relative_to(environment))
    return list(dict.fromkeys(["src", *packages]))


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
        message = (error.stderr.strip().splitlines() or [f"it ended with {error.returncode}"])[-1]
        raise StudyError(f"git {arguments[0]} in {directory}: {message}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StudyError(f"git {arguments[0]} in {directory}: {one_line(error)}") from error
    return done.stdout.strip()
