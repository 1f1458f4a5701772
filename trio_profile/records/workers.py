"""A study that several workers measure: one file for each worker, and all of them read as one store.

A worker's file is like `measurements.jsonl`. Only its worker writes to it. The lines of a run are written in one piece,
with a line of the run at their end. Readers take a run as a whole or not at all, and each run once: the earliest
attempt that ended. So a killed worker loses at most the run that it was measuring, and nothing counts twice.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from trio_profile.errors import StoreError
from trio_profile.reading import read_bytes
from trio_profile.records.contents import Contents
from trio_profile.records.files import MEASUREMENTS
from trio_profile.records.leases import LEASES
from trio_profile.records.log import Log, LogReader
from trio_profile.records.run import DENSE, Run, RunKey
from trio_profile.records.schema import Dense, Header, Measurement, Picture, Round, Session, Study
from trio_profile.records.writing import require_regular, write_whole

Measured = Dense | Picture | Measurement | Round
"""A line of a run."""
FIRST = "first-session.json"
"""The file of the first session, among the leases."""
_STEM, _SUFFIX = MEASUREMENTS.split(".")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def worker_file(directory: Path, worker: str) -> Path:
    """Return the path of a worker's file. Raises StoreError for a name that no file should have."""
    if not _NAME.fullmatch(worker):
        raise StoreError(f"worker {worker!r}: a name has up to 80 letters, digits, hyphens and underscores")
    return directory / f"{_STEM}-{worker}.{_SUFFIX}"


def worker_files(directory: Path) -> list[Path]:
    """Return the files of all workers that hold anything, by name."""
    paths = sorted(directory.glob(f"{_STEM}-*.{_SUFFIX}"))
    return [path for path in paths if path.is_file() and path.stat().st_size]


def is_for_workers(directory: Path) -> bool:
    """Return whether workers measure the study in a directory, also before the first one begins."""
    if (directory / MEASUREMENTS).exists():
        return False
    return (directory / LEASES).is_dir() or bool(worker_files(directory))


class WorkerFile(Log):
    """The file of one worker, to write.

    directory: of the study.
    worker: name of the worker.
    """

    def __init__(self, directory: Path, worker: str) -> None:
        self.path = worker_file(directory, worker)
        require_regular(self.path)
        super().__init__(self.path, "finished runs")

    def open(self, study: Study, session: Session) -> None:
        """Begin a session.

        Raises StoreError if one command measures the study in this directory, or if the file cannot be written.
        """
        self._refuse_a_store()
        if not self.path.exists() or not self.path.stat().st_size:
            self.begin(Header(study=study))
        self.append(session)

    def keep(self, lines: Sequence[Measured], run: Run) -> None:
        """Write a run in one piece, and wait until it is on the disk. Raises StoreError as `open`."""
        self._refuse_a_store()
        self.session = run.session
        self.append(*lines, run)

    def _refuse_a_store(self) -> None:
        if self.path.with_name(MEASUREMENTS).exists():
            raise StoreError(f"{self.path.parent} holds {MEASUREMENTS}, so one command measures it: workers cannot")


@dataclass(frozen=True)
class Ended:
    """The end of a run, with its lines."""

    run: Run
    lines: Sequence[Measured] = ()

    @property
    def counted(self) -> set[str]:
        """The ids of the cells whose exact quantities it has found."""
        return {line.cell.id for line in self.lines if isinstance(line, Measurement) and line.status == "counted"}


class WorkerReader(LogReader):
    """Reads a worker's file. It can be asked again and again, and then reads what is new.

    sessions: the sessions so far, by id.
    ends: the finished runs so far. Whoever has used them may empty the list.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sessions: dict[str, Session] = {}
        self.ends: list[Ended] = []
        self._lines: list[Measured] = []

    def look(self) -> None:
        """Read the lines that are new and complete. Raises StoreError if the file is no store of this version."""
        self.read(self._add, cut_off=False)

    def _add(self, record: Session | Run | Measured) -> None:
        if isinstance(record, Run):
            self.ends.append(Ended(record, self._lines))
            self._lines = []
        elif isinstance(record, Session):
            self._lines = []
            self.sessions[record.id] = record
        else:
            self._lines.append(record)


def agree(directory: Path, session: Session) -> Session:
    """Return the first session of the study: the given one, if no worker was faster.

    All others are compared with it. So of two unlike machines that begin together, one is refused.
    Raises StoreError if it cannot be written or read.
    """
    path, mine = directory / LEASES / FIRST, directory / LEASES / f".{FIRST}.{session.id}"
    text = session.model_dump_json(exclude_none=True)
    if not path.exists():
        write_whole(mine, text)
        try:
            os.link(mine, path)  # of several workers one succeeds, and none reads half a file
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            write_whole(path, text)
        finally:
            mine.unlink(missing_ok=True)
    return first_session(directory) or session


def first_session(directory: Path) -> Session | None:
    """Return the session that the others are compared with; None before a worker has begun.

    Raises StoreError if it cannot be read.
    """
    path = directory / LEASES / FIRST
    try:
        return Session.model_validate_json(read_bytes(path))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StoreError(f"{path} cannot be read: remove it, and the next worker writes it anew") from error


def is_like(session: Session, first: Session) -> bool:
    """Return whether a session ran on the same kind of machine as the first one."""
    return session.environment.identity == first.environment.identity


def read_workers(files: Sequence[Path], directory: Path) -> Contents:
    """Return what all workers measured, as one store.

    Measurements of unlike machines are not pooled: those that differ from the first session are left out, and
    `Contents.dropped` says so.

    Raises StoreError if a file cannot be read, if the files are of two studies, or if none has a header.
    """
    readers = [WorkerReader(path) for path in files]
    for reader in readers:
        reader.look()
    begun = [reader for reader in readers if reader.study is not None]
    if not begun:
        raise StoreError(f"{directory} holds no study: no worker has begun")
    first = begun[0]
    for reader in begun:
        if reader.study != first.study:
            raise StoreError(f"{reader.path} and {first.path} are of two studies: move one of them away")
    dropped = [f"{reader.path.name}, {text}" for reader in begun for text in reader.dropped]
    contents = Contents(first.study, dropped=dropped)
    ends = [end for reader in begun for end in reader.ends]
    _add_sessions(contents, begun, {end.run.session for end in ends}, directory)
    kept = {session.id for session in contents.sessions}
    each = _each_once([end for end in ends if end.run.session in kept])
    contents.runs.extend(end.run for end in each)
    lines = [(end.run, line) for end in each for line in end.lines]
    # Failures come last. A cell that failed in one process keeps the times of the others, with the reason.
    for run, line in sorted(lines, key=lambda pair: isinstance(pair[1], Measurement) and pair[1].status == "failed"):
        try:
            contents.add(line)
        except StoreError as error:
            contents.dropped.append(f"run {run.key} of {run.worker}: {error}")
    return contents


def _add_sessions(contents: Contents, readers: Sequence[WorkerReader], measured: set[str], directory: Path) -> None:
    """Add the sessions that measured something, if their machine is like the first. measured: their ids."""
    sessions = [session for reader in readers for session in reader.sessions.values() if session.id in measured]
    sessions.sort(key=lambda session: str(session.started))
    first = first_session(directory) or (sessions[0] if sessions else None)
    for session in sessions:
        if first is not None and not is_like(session, first):
            host = session.environment.hostname
            contents.dropped.append(f"left out: session {session.id!r} on {host} ran on another kind of machine")
        else:
            contents.add(session)


def _each_once(ends: Sequence[Ended]) -> list[Ended]:
    """Return each run once, counts before times: of several ends the earliest attempt that was measured."""
    best: dict[RunKey, Ended] = {}
    for end in sorted(ends, key=lambda end: (end.run.failed is not None, end.run.attempt, end.run.worker)):
        best.setdefault(end.run.key, end)
    return sorted(best.values(), key=lambda end: (end.run.number, end.run.block != DENSE, end.run.block))
