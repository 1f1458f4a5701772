"""Which runs of a study are done, which are being measured, and which a worker may claim next."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from trio_profile import units
from trio_profile.records.leases import Attempt, Leases
from trio_profile.records.run import DENSE, RunKey, blocks_of, runs_of
from trio_profile.records.schema import Session, Study
from trio_profile.records.workers import ProgressReader, worker_files

Phase = Literal["count", "time"]
"""What a process does: it counts cells and asks questions, or it times cells. Both change what times it measures."""
PHASES: tuple[Phase, ...] = get_args(Phase)
MOST_ATTEMPTS = 3
"""After so many attempts that failed, a run is given up."""


@dataclass(frozen=True)
class Claim:
    """A run that this worker may measure.

    key: which run.
    attempt: how often it was begun, this time included.
    blame: why the earlier attempts failed, if there were too many. Then the run is not measured but recorded as failed.
    """

    key: RunKey
    attempt: int
    blame: str | None = None


class Board:
    """The runs of one study.

    study: what is measured.
    directory: of the study.
    leases: of this worker.
    processes: how many processes time each cell.
    most_attempts: after so many attempts that failed, a run is given up.
    """

    def __init__(
        self, study: Study, directory: Path, leases: Leases, processes: int, most_attempts: int = MOST_ATTEMPTS
    ) -> None:
        self.directory, self.leases, self.most_attempts = directory, leases, most_attempts
        self.processes = processes
        self.cells = blocks_of(study)
        self.todo = {str(key): key for key in sorted(runs_of(study, processes), key=self._longest_first)}
        self.done: set[RunKey] = set()
        self._readers: dict[Path, ProgressReader] = {}

    @property
    def is_finished(self) -> bool:
        """Whether every run is measured or given up, as far as `look` has seen."""
        return not self.todo

    def look(self) -> None:
        """Read what the workers have finished since the last look. Raises StoreError if a file is of another study."""
        for path in worker_files(self.directory):
            reader = self._readers.setdefault(path, ProgressReader(path))
            seen = len(reader.runs)
            reader.read()
            for run, _ in reader.runs[seen:]:
                self.finish(run.key)

    def finish(self, key: RunKey) -> None:
        """Note that a run is measured or given up."""
        self.done.add(key)
        self.todo.pop(str(key), None)

    @property
    def counted(self) -> set[str]:
        """The ids of the cells whose exact quantities are known, as far as `look` has seen."""
        return {name for reader in self._readers.values() for name in reader.counted}

    @property
    def sessions(self) -> list[Session]:
        """The sessions of all workers that finished a run, as far as `look` has seen."""
        ended = {run.session for reader in self._readers.values() for run, _ in reader.runs}
        return [one for reader in self._readers.values() for one in reader.sessions.values() if one.id in ended]

    def phase(self, key: RunKey) -> Phase:
        """What a process does that measures this run."""
        return "count" if key.number == 0 and self.processes > 1 else "time"

    def claim(self, phase: Phase, without: Collection[str] = ()) -> Claim | None:
        """Claim the longest run that is free and whose counts are known. None if there is none.

        without: names of blocks that this process has timed already. Another process must time them again.
        """
        self.look()
        attempts = self.leases.attempts(self.todo)
        for name, key in list(self.todo.items()):
            if self.phase(key) != phase or key.block in without or not self._is_ready(key):
                continue
            last = attempts.get(name)
            if last is not None and last.is_held(self.leases.seconds):
                continue
            number = last.number + 1 if last else 1
            if not self.leases.claim(name, number):
                continue
            self.look()  # its worker may have finished it, and removed the lease, after we looked
            if key not in self.done:
                return Claim(key, number, self._blame(name, last))
            self.leases.give_back(name, number)
        return None

    def free(self, phase: Phase) -> bool:
        """Whether a worker could claim anything now."""
        attempts = self.leases.attempts(self.todo)
        return any(
            self.phase(key) == phase
            and self._is_ready(key)
            and not (name in attempts and attempts[name].is_held(self.leases.seconds))
            for name, key in self.todo.items()
        )

    def _is_ready(self, key: RunKey) -> bool:
        """Whether its cells are counted, if it only times them. The dense model is measured first of all."""
        if key == RunKey(DENSE, 0):
            return True
        return key.number == 0 or self.processes == 1 or RunKey(key.block, 0) in self.done

    def _blame(self, name: str, last: Attempt | None) -> str | None:
        if last is None or last.number < self.most_attempts:
            return None
        reason = self.leases.reason(name, last.number)
        return f"given up after {units.number_of(last.number, 'attempt')}; the last one, by {reason}"

    def _longest_first(self, key: RunKey) -> tuple[bool, int, float, str]:
        cells = self.cells.get(key.block, [])
        longest = max((cell.retention for cell in cells), default=0.0)
        return key.block != DENSE, -len(cells), -longest, str(key)
