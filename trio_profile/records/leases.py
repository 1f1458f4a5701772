"""Leases: which worker measures which run. They are files in a directory that all workers see.

A lease is the file `RUN.ATTEMPT`. Creating it is the claim, and only one worker can create a file. A worker renews its
lease by touching the file, and removes it when the run is kept. If a lease is not renewed in time, its worker is taken
for dead, and another one may claim the next attempt. A worker that was only slow still keeps what it measured: readers
take the earliest attempt that ended. A failed attempt leaves the file `RUN.ATTEMPT.failed`, with the reason.

The clocks of two machines may differ. So the present is read from a file that is touched in the same directory.
"""

import os
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trio_profile.records.writing import cannot_write, make_directory

LEASES = ".leases"
"""The directory of the leases, in that of the study."""
SECONDS = 60.0
"""A lease that was not renewed for so long has expired."""
_FAILED = ".failed"


@dataclass(frozen=True)
class Attempt:
    """The latest attempt at a run.

    number: how often the run was begun, from 1.
    age: seconds since it was renewed.
    failed: whether it failed, and its worker said so.
    failures: how many attempts have failed so. An attempt whose worker was lost is none.
    """

    number: int
    age: float
    failed: bool
    failures: int = 0

    def is_held(self, seconds: float) -> bool:
        """Whether a worker measures the run now. seconds: how long a lease lasts."""
        return not self.failed and self.age < seconds


class Leases:
    """The leases of one study, as one worker sees them.

    directory: of the study.
    worker: name of this worker.
    seconds: how long a lease lasts without being renewed.
    """

    def __init__(self, directory: Path, worker: str, seconds: float = SECONDS) -> None:
        self.directory, self.worker, self.seconds = directory / LEASES, worker, seconds
        if not self.directory.is_dir():
            make_directory(self.directory)

    def attempts(self, among: Collection[str]) -> dict[str, Attempt]:
        """Return the latest attempt at each of some runs that was begun, by the run's name."""
        now, latest = self._time_of_the_files(), dict[str, Attempt]()
        failures = Counter[str]()
        for entry in os.scandir(self.directory):
            name = entry.name.removesuffix(_FAILED)
            run, _, number = name.rpartition(".")
            if run not in among or not number.isdecimal():
                continue
            failed = entry.name != name
            failures[run] += failed
            if run in latest and latest[run].number > int(number):
                continue
            with suppress(FileNotFoundError):  # it was given back a moment ago
                latest[run] = Attempt(int(number), now - entry.stat().st_mtime, failed)
        return {run: replace(attempt, failures=failures[run]) for run, attempt in latest.items()}

    def claim(self, run: str, attempt: int) -> bool:
        """Claim an attempt at a run. Return whether it is ours: False if another worker was faster.

        Raises StoreError if the directory cannot be written.
        """
        is_ours = False
        try:
            with self._path(run, attempt).open("x") as file:
                is_ours = True
                file.write(self.worker)
        except FileExistsError:
            return False
        except OSError as error:
            if is_ours:
                self.give_back(run, attempt)
            raise cannot_write(self.directory, error) from error
        if self._failed(run, attempt).exists():  # another worker began and failed it since we looked
            self._path(run, attempt).unlink(missing_ok=True)
            return False
        return True

    def renew(self, run: str, attempt: int) -> None:
        """Say that this worker still measures a run. If the directory cannot be reached now, the next call may."""
        with suppress(OSError):
            os.utime(self._path(run, attempt))

    def give_back(self, run: str, attempt: int) -> None:
        """Remove a lease: its run is finished, or was interrupted. It does not count as an attempt."""
        self._path(run, attempt).unlink(missing_ok=True)

    def fail(self, run: str, attempt: int, reason: str) -> None:
        """End an attempt that failed. reason: one line."""
        with suppress(OSError):
            self._path(run, attempt).rename(self._failed(run, attempt))
            self._failed(run, attempt).write_text(f"{self.worker}: {reason}")

    def worker_of(self, run: str, attempt: int) -> str:
        """Return the name of the worker that has claimed an attempt; empty if its lease is gone."""
        with suppress(OSError):
            return self._path(run, attempt).read_text(errors="replace")
        return ""

    def reason(self, run: str, attempt: int) -> str:
        """Return why an attempt failed, or that its worker stopped."""
        with suppress(FileNotFoundError):
            return self._failed(run, attempt).read_text(errors="replace").strip()
        return f"{self.worker_of(run, attempt) or 'a worker'}: it stopped without a word"

    def _path(self, run: str, attempt: int) -> Path:
        return self.directory / f"{run}.{attempt}"

    def _failed(self, run: str, attempt: int) -> Path:
        return self.directory / f"{run}.{attempt}{_FAILED}"

    def _time_of_the_files(self) -> float:
        clock = self.directory / "now"
        try:
            clock.touch()
            return clock.stat().st_mtime
        except OSError:  # it can only be read
            return time.time()
