"""A worker: it measures runs of a study that other workers measure too, until none is left.

The worker itself measures nothing. It starts one process after another (`worker.py`), renews the lease of the run that
a process is at, and ends a process that takes too long. It is safe to kill at any time.
"""

import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trio_profile import units
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.inputs.host import command_line
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.differences import require_same
from trio_profile.records.files import MEASUREMENTS, STUDY
from trio_profile.records.leases import SECONDS, Leases
from trio_profile.records.lock import lock_directory, lock_file
from trio_profile.records.run import runs_of
from trio_profile.records.schema import Study
from trio_profile.records.store import Store, to_toml
from trio_profile.records.study import PROCESSES
from trio_profile.records.workers import worker_file
from trio_profile.records.writing import make_directory, write_whole
from trio_profile.studies import asked, fresh
from trio_profile.studies.board import MOST_ATTEMPTS, PHASES, Board, Phase
from trio_profile.studies.kinds import KINDS, find

LIMIT_SECONDS = 3600.0
"""A run that takes longer is taken for hung."""
PAUSE_SECONDS = 1.0
"""How long a worker waits before it looks again for a run that it can claim."""
MOST_FAILING = 3
"""A worker stops after so many different runs in a row have failed on it: the fault may be its machine."""


@dataclass(frozen=True)
class Terms:
    """How a worker works.

    name: of its file; letters, digits, hyphens and underscores. Empty: host and process number.
    lease_seconds: how long a lease lasts without being renewed.
    limit_seconds: a run that takes longer is ended, and goes back.
    most_attempts: after so many attempts that failed, a run is recorded as failed.
    """

    name: str = ""
    lease_seconds: float = SECONDS
    limit_seconds: float = LIMIT_SECONDS
    most_attempts: int = MOST_ATTEMPTS

    @property
    def worker(self) -> str:
        """The worker's name."""
        return self.name or re.sub(r"[^A-Za-z0-9_-]", "-", f"{socket.gethostname()}-{os.getpid()}")


def work(directory: Path, terms: Terms | None = None, watch: Watch = ignore) -> Contents:
    """Measure runs of the study in a directory until none is left. Return what all workers measured.

    A run whose process dies, fails or hangs goes back, and any worker may claim it again. This worker waits while
    others are at the last runs, because one of them may die.

    Raises StoreError if the directory holds no study for workers, if another worker has the same name, or if this
    machine is unlike that of the first session. Raises MeasurementError if runs keep failing on this worker.
    """
    terms = terms or Terms()
    study = study_for_workers(directory)
    worker_file(directory, terms.worker)  # refuses a name that is no name
    fresh.require_known_methods(study)
    with lock_file(directory / f".lock-{terms.worker}", lambda: f"another worker is called {terms.worker!r}"):
        leases = Leases(directory, terms.worker, terms.lease_seconds)
        board = Board(study, directory, leases, study.processes or PROCESSES, terms.most_attempts)
        failing: dict[str, str] = {}
        while True:
            board.look()
            if board.is_finished:
                break
            phase: Phase | None = next((phase for phase in PHASES if board.free(phase)), None)
            if phase is None:
                watch(Step(f"other workers are at the last {units.number_of(len(board.todo), 'run')}"))
                time.sleep(PAUSE_SECONDS)
                continue
            process = _Process(study, directory, terms, leases, watch)
            process.run(phase, board.processes)
            if process.finished:
                failing.clear()
            if process.failed is not None:
                failing |= {process.failed[0]: process.failed[1]}
            if len(failing) == MOST_FAILING:
                told = "; ".join(f"{run}: {reason}" for run, reason in failing.items())
                raise MeasurementError(f"{len(failing)} runs in a row failed on this worker ({told}): mend it")
    return Store(directory).read()


def prepare(study: Study, directory: Path) -> int:
    """Write a study for workers into a directory, which is made if it is missing. Return the number of its runs.

    Raises StoreError if the directory holds another study, or one that is measured by one command.
    """
    make_directory(directory)
    fresh.require_known_methods(study)
    with lock_directory(directory):
        if (directory / MEASUREMENTS).exists() or (directory / STUDY).exists():
            require_same("study", study_for_workers(directory).model_dump(), study.model_dump(), directory)
        else:
            write_whole(directory / STUDY, to_toml(study))
    return len(runs_of(study, study.processes or PROCESSES))


def study_for_workers(directory: Path) -> Study:
    """Return the study in a directory, if workers can measure it.

    Raises StoreError or StudyError with the way to such a study.
    """
    if not (directory / STUDY).is_file():
        raise StoreError(
            f"{directory} holds no {STUDY}: make one with `trio-profile sweep … --engine workers --out DIR`"
        )
    study = asked.stored(directory / STUDY)
    if find(study.verb).file != MEASUREMENTS:
        names = ", ".join(kind.name for kind in KINDS.values() if kind.file == MEASUREMENTS)
        raise StoreError(f"{directory} holds a study of kind {study.verb!r}: workers measure {names}")
    if (directory / MEASUREMENTS).exists():
        raise StoreError(
            f"{directory} holds {MEASUREMENTS}, so one command measures it: run `trio-profile {study.verb}`"
        )
    return study


@dataclass
class _Process:
    """One process of a worker, and the lease of the run that it is at.

    claimed: the run, and which attempt it is; None between two runs.
    finished: how many runs the process has finished.
    failed: the run that failed, with the reason; None if none did.
    """

    study: Study
    directory: Path
    terms: Terms
    leases: Leases
    watch: Watch
    claimed: tuple[str, int] | None = None
    finished: int = 0
    failed: tuple[str, str] | None = None
    began: float = 0.0
    too_long: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self, phase: Phase, processes: int) -> None:
        """Run the process until it finds nothing to claim, or until a run fails.

        An error outside of a run is raised: it would meet every run.
        """
        request = {
            "study": self.study.model_dump(mode="json"),
            "directory": str(self.directory),
            "worker": self.terms.worker,
            "phase": phase,
            "processes": processes,
            "lease_seconds": self.terms.lease_seconds,
            "most_attempts": self.terms.most_attempts,
            "command": command_line(),
        }
        with fresh.start() as process:
            keeper = threading.Thread(target=self._keep, args=(process.kill,), daemon=True)
            keeper.start()
            try:
                for answer in fresh.ask(process, "worker", request):
                    self._heed(answer)
            except (KeyboardInterrupt, SystemExit):
                if self.claimed is not None:
                    self.leases.give_back(*self.claimed)
                raise
            except Exception as error:  # whatever it is, the run goes back with it
                if self.claimed is None:
                    raise
                self._fail(error)
            finally:
                self._ended.set()
                keeper.join()

    def _heed(self, answer: dict[str, object]) -> None:
        if "step" in answer:
            self.watch(Step(*answer["step"]))  # pyright: ignore[reportGeneralTypeIssues]
        elif "claimed" in answer:
            self.began = time.monotonic()
            self.claimed = str(answer["claimed"]), int(str(answer["attempt"]))
        else:
            self.claimed, self.finished = None, self.finished + 1

    def _fail(self, error: Exception) -> None:
        """Give the run back, with the reason."""
        assert self.claimed is not None
        limit = f"it took longer than {units.duration(self.terms.limit_seconds)}"
        reason = limit if self.too_long else " ".join(str(error).split())[:300]
        self.leases.fail(*self.claimed, reason)
        self.failed = self.claimed[0], reason

    def _keep(self, kill: Callable[[], None]) -> None:
        """Renew the lease while the process is at a run, and end a process that hangs."""
        while not self._ended.wait(min(self.terms.lease_seconds / 4, 1.0)):
            if (claimed := self.claimed) is None:
                continue
            if time.monotonic() - self.began > self.terms.limit_seconds:
                self.too_long = True
                kill()
                return
            self.leases.renew(*claimed)
