"""Which runs of a study are done, which are being measured, and which a worker may claim next."""

import os
import re
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from trio_profile import units
from trio_profile.errors import StoreError
from trio_profile.records.files import STUDY
from trio_profile.records.leases import SECONDS, Attempt, Leases
from trio_profile.records.option import WORKERS, option
from trio_profile.records.record import Record
from trio_profile.records.run import DENSE, Run, RunKey, runs_of
from trio_profile.records.schema import Session, Study
from trio_profile.records.study import PROCESSES
from trio_profile.records.workers import Ended, WorkerReader, first_session, is_like, worker_file, worker_files

Phase = Literal["count", "time"]
"""The phase of a process: it counts cells and asks questions, or it times cells. Both change what times it measures."""
PHASES: tuple[Phase, ...] = get_args(Phase)
MOST_LOST = 10
"""After so many attempts in all, a run is given up too: it may be the reason why its workers were lost."""


class Terms(Record):
    """How a worker works. Beyond what the help of its options says:

    engine: the program that starts the worker, such as `ray 2.60.0`; empty for none.
    """

    name: str = option(
        "",
        WORKERS,
        "Name of this worker, and of its file: letters, digits, hyphens and underscores.",
        default_help="host and process",
    )
    limit_seconds: float = option(
        3600.0,
        WORKERS,
        "Seconds without progress after which a process is taken for hung, and its run goes back.",
        gt=0,
    )
    lease_seconds: float = option(SECONDS, WORKERS, "Seconds after which a silent worker is taken for dead.", gt=0)
    attempts: int = option(3, WORKERS, "Failed attempts after which a run is given up.", ge=1)
    engine: str = ""

    @property
    def worker(self) -> str:
        """The worker's name."""
        return self.name or re.sub(r"[^A-Za-z0-9_-]", "-", f"{socket.gethostname()}-{os.getpid()}")


@dataclass(frozen=True)
class Claim:
    """A run that this worker may measure.

    key: which run.
    attempt: how often it was begun, this time included.
    is_last: whether it is given up if this attempt fails too.
    given_up: why it is given up now; None if it is to be measured.
    """

    key: RunKey
    attempt: int
    is_last: bool = False
    given_up: str | None = None


class Board:
    """The runs of one study.

    study: what is measured.
    directory: of the study.
    leases: of this worker.
    processes: how many processes time each cell.
    most_attempts: after so many attempts that failed, a run is given up.

    What `look` has seen so far:
    todo: the runs that are left, by their names, longest first.
    done: the runs that are measured or given up. given_up: those that were given up.
    counted: the ids of the cells whose exact quantities are known.
    spent: how many runs were measured, and their seconds.
    """

    def __init__(self, study: Study, directory: Path, leases: Leases, processes: int, most_attempts: int = 3) -> None:
        self.study, self.directory, self.leases = study, directory, leases
        self.processes, self.most_attempts = processes, most_attempts
        self.cells = study.blocks()
        self.todo = {str(key): key for key in sorted(runs_of(study, processes), key=self._longest_first)}
        self.done: set[RunKey] = set()
        self.given_up: dict[RunKey, Run] = {}
        self.spent = 0, 0.0
        self.counted: set[str] = set()
        self._first: Session | None = None
        self._readers: dict[Path, WorkerReader] = {}

    @property
    def is_finished(self) -> bool:
        """Whether every run is measured or given up, as far as `look` has seen."""
        return not self.todo

    def look(self) -> None:
        """Read what the workers have finished since the last look.

        What ran on another kind of machine than the first session does not count.
        Raises StoreError if a file is of another study.
        """
        for path in worker_files(self.directory):
            reader = self._readers.setdefault(path, WorkerReader(path))
            had_begun = reader.study is not None
            reader.look()
            if not had_begun and reader.study not in (None, self.study):
                raise StoreError(f"{path} is of another study than {self.directory / STUDY}: move one of them away")
            ends, reader.ends = reader.ends, []  # a study may have a million times, which are not kept here
            for end in ends:
                if end.run.failed is None:
                    self.spent = self.spent[0] + 1, self.spent[1] + end.run.seconds
                if self._is_like_the_first(end.run, reader):
                    self.finish(end)

    def finish(self, end: Ended) -> None:
        """Note that a run is measured or given up."""
        run = end.run
        if run.failed is None:
            self.given_up.pop(run.key, None)
        elif run.key not in self.done:
            self.given_up[run.key] = run
        self.counted |= end.counted
        self.done.add(run.key)
        self.todo.pop(str(run.key), None)

    def phase(self, key: RunKey) -> Phase:
        """Return the phase in which a process measures this run."""
        return "count" if key.number == 0 and self.processes > 1 else "time"

    def claim(self, phase: Phase, timed: Collection[str] = (), failed_here: Collection[str] = ()) -> Claim | None:
        """Claim the longest run that is free and whose counts are known. None if there is none.

        timed: names of blocks that this process has timed already. Another process must time them again.
        failed_here: names of runs that failed on this worker. They are claimed if nothing else is free.
        """
        self.look()
        todo = dict(self.todo)
        attempts, names = self.leases.attempts(todo), list(todo)
        if failed_here:
            names.sort(key=failed_here.__contains__)  # else the order stays
        for name in names:
            key = todo[name]
            if key.block in timed or not self._is_free(key, phase, attempts):
                continue
            last = attempts.get(name, Attempt(0, 0.0, failed=False))
            if not self.leases.claim(name, last.number + 1):
                continue
            self.look()  # its worker may have finished it, and removed the lease, after we looked
            if key not in self.done:
                return self._claim(key, last.number, last.failures)
            self.leases.give_back(name, last.number + 1)
        return None

    def _claim(self, key: RunKey, so_far: int, failures: int) -> Claim:
        """Return the claim of a run whose lease is ours.

        so_far: how often it was begun before. failures: how many of these attempts have failed.
        """
        counts = self.given_up.get(RunKey(key.block, 0)) if key.number > 0 else None
        if counts is not None:
            reason = counts.failed
        elif failures >= self.most_attempts or so_far >= max(MOST_LOST, self.most_attempts):
            attempts = units.number_of(so_far, "attempt")
            reason = f"given up after {attempts}; the last one, by {self.leases.reason(str(key), so_far)}"
        else:
            reason = None
        return Claim(key, so_far + 1, failures + 1 >= self.most_attempts, reason)

    def is_free(self, phase: Phase) -> bool:
        """Whether a worker could claim anything now."""
        attempts = self.leases.attempts(self.todo)
        return any(self._is_free(key, phase, attempts) for key in self.todo.values())

    def _is_free(self, key: RunKey, phase: Phase, attempts: Mapping[str, Attempt]) -> bool:
        last = attempts.get(str(key))
        is_held = last is not None and last.is_held(self.leases.seconds)
        return self.phase(key) == phase and self._is_ready(key) and not is_held

    def _is_ready(self, key: RunKey) -> bool:
        """Whether its cells are counted, if it only times them."""
        return key.number == 0 or self.processes == 1 or RunKey(key.block, 0) in self.done

    def _is_like_the_first(self, run: Run, reader: WorkerReader) -> bool:
        """Return whether a run is on the same kind of machine as the first session."""
        if self._first is None:
            self._first = first_session(self.directory)
        session = reader.sessions.get(run.session)
        return session is not None and (self._first is None or is_like(session, self._first))

    def _longest_first(self, key: RunKey) -> tuple[bool, int, float, str]:
        cells = self.cells.get(key.block, [])
        longest = max((cell.retention for cell in cells), default=0.0)
        return key.block != DENSE, -len(cells), -longest, str(key)


def board_of(study: Study, directory: Path, terms: Terms) -> Board:
    """Return the runs of a study, as a worker with these terms sees them.

    Raises StoreError for a name that no file should have.
    """
    worker_file(directory, terms.worker)
    leases = Leases(directory, terms.worker, terms.lease_seconds)
    return Board(study, directory, leases, study.processes or PROCESSES, terms.attempts)
