"""A worker: it measures runs of a study that other workers measure too, until none is left.

The worker itself measures nothing. It lets one process after another measure (`worker.py`), renews the lease of the run
that a process is at, and ends a process that takes too long. It is safe to kill at any time.
"""

import errno
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from trio_profile import units
from trio_profile.engine.board import PHASES, Assignment, Phase, Terms, board_of
from trio_profile.engine.processes import Server
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.inputs.host import command_line
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.leases import Leases
from trio_profile.records.lock import lock_file
from trio_profile.records.schema import Study
from trio_profile.records.store import Store
from trio_profile.records.workers import worker_file

PAUSE_SECONDS = 1.0
"""How long a worker waits before it looks again for a run that it can claim."""
MOST_FAILING = 3
"""A worker stops after so many different runs in a row have failed on it: the fault may be its machine."""


def work(
    study: Study,
    directory: Path,
    terms: Terms | None = None,
    watch: Watch = ignore,
    *,
    stopped: Callable[[], bool] = lambda: False,
    command: str = "",
    keep_refusals: bool = False,
) -> Contents:
    """Measure runs of the study in a directory until none is left. Return what all workers measured.

    A run whose process dies, fails or hangs goes back, and any worker may claim it again. This worker waits while
    others measure the last runs, because one of them may die.

    stopped: whether the worker is to end now. It gives its run back and raises KeyboardInterrupt, as after Ctrl-C.
    command: the command line that the user gave; empty for that of this process.
    keep_refusals: whether a refused cell becomes a record. Otherwise its error is raised.
    Raises StoreError if another worker has the same name, or if this machine is unlike that of the first session.
    Raises MeasurementError if runs keep failing on this worker.
    """
    terms = terms or Terms()
    terms = replace(terms, name=terms.worker)  # its processes have other numbers
    worker_file(directory, terms.worker)  # refuses a name that no file should have
    with lock_file(directory / f".lock-{terms.worker}", lambda: f"another worker is called {terms.worker!r}"):
        if terms.retry:
            board_of(study, directory, terms).retry()
        board = board_of(study, directory, terms)
        for run, attempt in board.leases.mine():
            board.leases.expire(run, attempt)
        failing: dict[str, str] = {}
        while True:
            board.look()
            if board.is_finished:
                break
            if stopped():
                raise KeyboardInterrupt
            phase: Phase | None = next((phase for phase in PHASES if board.is_free(phase)), None)
            if phase is None:
                watch(Step(f"other workers measure the last {units.number_of(len(board.todo), 'run')}"))
                time.sleep(PAUSE_SECONDS)
                continue
            assignment = Assignment(
                study=study,
                directory=directory,
                terms=terms,
                phase=phase,
                failed_here=tuple(failing),
                command=command or command_line(),
                keep_refusals=keep_refusals,
            )
            process = _Process(assignment, board.leases, watch, stopped)
            process.run()
            if process.measured:
                failing.clear()
            failing |= process.failed
            _require_few_failures(failing)
    return Store(directory).read()


def _require_few_failures(failing: dict[str, str]) -> None:
    """Raise MeasurementError if too many runs in a row failed on this worker. failing: why, by the name of the run."""
    if len(failing) >= MOST_FAILING:
        reasons = "; ".join(f"{run}: {reason}" for run, reason in failing.items())
        raise MeasurementError(
            f"{len(failing)} runs in a row failed on this worker ({reasons}): mend the cause, or record the failures "
            "with --attempts 1"
        )


@dataclass
class _Process:
    """One process of a worker, and the lease of the run that it measures.

    stopped: as in `work`.
    claimed: the run, and which attempt it is; None between two runs.
    measured: how many runs the process has measured.
    failed: why runs failed, by their names.
    """

    assignment: Assignment
    leases: Leases
    watch: Watch
    stopped: Callable[[], bool] = lambda: False
    claimed: tuple[str, int] | None = None
    measured: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    _heard: float = field(default_factory=time.monotonic)
    _too_long: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Run the process until it finds nothing to claim, or until a run fails.

        An error outside of a run is raised: it would meet every run. So is an error of the directory, such as a full
        disk: the run goes back, and nobody is to blame.
        """
        try:
            with Server() as server:
                keeper = threading.Thread(target=self._keep, args=(server.close,), daemon=True)
                keeper.start()
                try:
                    for answer in server.ask("work", self.assignment.model_dump(mode="json")).answers():
                        self._heed(answer)
                finally:
                    self._ended.set()
                    keeper.join()
        except (KeyboardInterrupt, SystemExit, StoreError):
            self._give_back()
            raise
        except Exception as error:  # whatever it is, the run goes back with it
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._give_back()
                raise
            if self.stopped():
                self._give_back()
                raise KeyboardInterrupt from error
            self._fail(error)

    def _heed(self, answer: dict[str, object]) -> None:
        if "claimed" in answer:
            self.claimed = str(answer["claimed"]), int(str(answer["attempt"]))
        elif "finished" in answer:
            self.claimed, self.measured = None, self.measured + bool(answer["was_measured"])
        else:
            self.watch(Step(*answer["step"]))  # pyright: ignore[reportGeneralTypeIssues]
        self._heard = time.monotonic()

    def _give_back(self) -> None:
        """Give the run back. Nobody is to blame."""
        for run, attempt in self.leases.mine():
            self.leases.give_back(run, attempt)

    def _fail(self, error: Exception) -> None:
        """Give the run back, with the reason. Raises the error if no run was claimed."""
        limit = f"it showed no progress for {units.duration(self.assignment.terms.limit_seconds)}"
        reason = limit if self._too_long else " ".join(str(error).split())[:300]
        mine = self.leases.mine()
        if not mine and self._too_long:
            raise MeasurementError(f"a process could not begin: {reason}") from error
        if not mine:
            raise error
        for run, attempt in mine:
            self.leases.fail(run, attempt, reason)
            self.failed[run] = reason

    def _keep(self, kill: Callable[[], None]) -> None:
        """Renew the lease while a run is measured, and end a process that hangs: it shows no progress for too long."""
        while not self._ended.wait(min(self.assignment.terms.lease_seconds / 4, 1.0)):
            self._too_long = time.monotonic() - self._heard > self.assignment.terms.limit_seconds
            if self._too_long or self.stopped():
                kill()
                return
            if (claimed := self.claimed) is not None:
                self.leases.renew(*claimed)
