"""A worker: it measures runs of a study that other workers measure too, until none is left.

It claims one run after another, lets a process of its own measure it, and renews the lease meanwhile. A process that
counts and asks questions times nothing, and no process times a block twice: both would make its times unlike those of
the other processes. A worker is safe to kill at any time.
"""

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trio_profile import units
from trio_profile.engine.board import PHASES, Board, Claim, Phase, Terms, board_of
from trio_profile.engine.orders import Allowance, Order, Part, Share
from trio_profile.engine.processes import Child, Server, carry_out
from trio_profile.engine.shares import Parts
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.inputs.host import command_line
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.differences import require_same_environment, require_same_inputs
from trio_profile.records.leases import LEASES
from trio_profile.records.lock import lock_file
from trio_profile.records.run import DENSE, Run
from trio_profile.records.schema import Measurement, Session, Study
from trio_profile.records.store import Store
from trio_profile.records.workers import FIRST, Measured, WorkerFile, agree

PAUSE_SECONDS = 1.0
"""How long a worker waits before it looks again for a run that it can claim."""
MOST_FAILING = 3
"""A worker stops after so many different runs in a row have failed on it: the fault may be its machine."""
_UNLIKE = f"measure on that kind of machine; if it was the wrong one, remove {LEASES}/{FIRST}"
"""The way out for a machine that is unlike that of the first session."""


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
    terms = terms.model_copy(update={"name": terms.worker})  # its processes have other numbers
    file = WorkerFile(directory, terms.worker)  # refuses a name that no file should have
    with lock_file(directory / f".lock-{terms.worker}", lambda: f"another worker is called {terms.worker!r}"):
        board = board_of(study, directory, terms)
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
            order = Order(
                study=study,
                command=command or command_line(),
                keep_refusals=keep_refusals,
                engine=terms.engine,
            )
            _Process(order, terms, board, file, phase, failing, watch, stopped).run()
            if len(failing) >= MOST_FAILING:
                reasons = "; ".join(f"{run}: {reason}" for run, reason in failing.items())
                raise MeasurementError(
                    f"{len(failing)} runs in a row failed on this worker ({reasons}): mend the cause, or record the "
                    "failures with --attempts 1"
                )
    return Store(directory).read()


@dataclass
class _Process:
    """One process of a worker, and the lease of the run that it measures.

    order: what every order of this worker has in common.
    phase: whether the process counts or times.
    failing: why runs have failed on this worker since it last measured one, by their names. It is changed here.
    stopped: as in `work`.
    claim: the run that is measured now; None between two runs.
    session: of the process; None before it has loaded the model.
    """

    order: Order
    terms: Terms
    board: Board
    file: WorkerFile
    phase: Phase
    failing: dict[str, str]
    watch: Watch
    stopped: Callable[[], bool] = lambda: False
    claim: Claim | None = None
    session: Session | None = None
    _heard: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Run the process until it finds nothing to claim, or until a run fails.

        An error outside of a run is raised: it would meet every run. So is an error of the directory, such as a full
        disk: the run goes back, and nobody is to blame.
        """
        with Server() as server:
            child, timed = server.fork(), set[str]()
            try:
                self._ask(child, self.order)
                while (claim := self.board.claim(self.phase, timed, self.failing)) is not None:
                    self.claim = claim
                    if self._measure(child, claim):
                        return  # what raised may have harmed the process
                    if claim.key.number > 0:
                        timed.add(claim.key.block)
            except (KeyboardInterrupt, SystemExit, StoreError):
                self._give_back()
                raise
            except Exception as error:  # whatever it is, the run goes back with it
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    self._give_back()
                    raise
                self._fail(error)

    def _measure(self, child: Child, claim: Claim) -> bool:
        """Measure a run and keep it. Return whether one of its cells failed in its last attempt."""
        start = time.perf_counter()
        lines = self._lines(child, claim)
        assert self.session is not None
        ended = Run(
            block=claim.key.block,
            number=claim.key.number,
            attempt=claim.attempt,
            worker=self.terms.worker,
            session=self.session.id,
            seconds=time.perf_counter() - start,
            failed=claim.given_up,
        )
        self.file.keep(lines, ended)
        self._give_back()
        if claim.given_up is None:
            self.failing.clear()
        return claim.is_last and any(isinstance(line, Measurement) and line.status == "failed" for line in lines)

    def _lines(self, child: Child, claim: Claim) -> list[Measured]:
        """Return the lines of a run: what was measured, or that the run was given up."""
        key, study = claim.key, self.order.study
        cells = {cell.id: cell for cell in self.board.cells.get(key.block, ())}
        only_times = key.number > 0 and self.board.processes > 1
        if only_times:
            cells = {name: cell for name, cell in cells.items() if name in self.board.counted}
        if (reason := claim.given_up) is not None:
            return [Measurement(cell=cell, status="failed", reason=reason[:300]) for cell in cells.values()]
        is_dense = key.block == DENSE
        share = Share(counts=tuple(cells), answers=tuple(cells), dense=is_dense, picture=is_dense)
        allowance = Allowance(left=study.seconds, whole=study.seconds, processes=self.board.processes)
        fields = {
            "keep_faults": claim.is_last,
            "share": None if only_times else share,
            "times": tuple(cells) if key.number > 0 else (),
            "allowance": allowance if key.number > 0 else None,
            "number": key.number,
        }
        parts = Parts(1)
        parts_measured = self._ask(child, self.order.model_copy(update=fields))
        return [record for part in parts_measured for record in parts.add(part)]

    def _ask(self, child: Child, order: Order) -> list[Part]:
        """Give an order to the process, and return what it has measured. It begins the session of the process."""
        measured = list[Part]()
        for _, event in carry_out([order], [child], self._look_after, min(self.terms.lease_seconds / 4, 1.0)):
            self._heard = time.monotonic()
            if isinstance(event, Session):
                self._open(event)
            elif isinstance(event, Step):
                self.watch(event)
            else:
                measured.append(event)
        return measured

    def _open(self, session: Session) -> None:
        """Begin the session. Raises StoreError if this machine is unlike the first one, or if a file has changed."""
        directory = self.board.directory
        first = agree(directory, session)
        require_same_environment([first], session.environment, directory, _UNLIKE)
        require_same_inputs(self.order.study, [first], session.inputs, directory)
        self.file.open(self.order.study, session)
        self.session = session

    def _look_after(self) -> None:
        """Renew the lease. Raises MeasurementError if the process hangs, KeyboardInterrupt if the worker is to end."""
        if self.stopped():
            raise KeyboardInterrupt
        if time.monotonic() - self._heard > self.terms.limit_seconds:
            limit = f"it showed no progress for {units.duration(self.terms.limit_seconds)}"
            raise MeasurementError(limit if self.claim else f"a process could not begin: {limit}")
        if self.claim is not None:
            self.board.leases.renew(str(self.claim.key), self.claim.attempt)

    def _give_back(self) -> None:
        """Give the run back: it is kept, or it was interrupted and nobody is to blame."""
        if self.claim is not None:
            self.board.leases.give_back(str(self.claim.key), self.claim.attempt)
        self.claim = None

    def _fail(self, error: Exception) -> None:
        """Give the run back, with the reason. Raises the error if no run was claimed."""
        if self.claim is None:
            raise error
        run, reason = str(self.claim.key), " ".join(str(error).split())[:300]
        self.board.leases.fail(run, self.claim.attempt, reason)
        self.failing[run] = reason
