"""A study that several workers measure: one file for each worker, and all of them read as one store.

A worker's file is like `measurements.jsonl`. Only its worker writes to it. The lines of a run are written in one piece,
with a line of the run at their end. Readers take a run as a whole or not at all, and each run once: the earliest
attempt that ended. So a killed worker loses at most the run that it was measuring, and nothing counts twice.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from trio_profile.errors import StoreError
from trio_profile.reading import open_regular, read_bytes
from trio_profile.records.contents import Contents
from trio_profile.records.files import MEASUREMENTS
from trio_profile.records.leases import LEASES, retried
from trio_profile.records.log import HeaderError, LineReader, Log
from trio_profile.records.run import DENSE, Run, RunKey
from trio_profile.records.schema import Dense, Header, Measurement, Picture, Round, Session, Study
from trio_profile.records.writing import require_regular, write_whole

Measured = Dense | Picture | Measurement | Round
"""A line of a run."""
_FinishedRun = tuple[Run, list[Measured]]
"""A run, with its lines."""
FIRST = "first-session.json"
"""The file of the first session, among the leases."""
_STEM, _SUFFIX = MEASUREMENTS.split(".")
_PROGRESS = tuple(f'{{"record":"{name}"'.encode() for name in ("header", "session", "measurement", "run"))
"""How the lines begin that tell what is finished."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def worker_file(directory: Path, worker: str) -> Path:
    """Return the path of a worker's file. Raises StoreError for a name that no file should have."""
    if not _NAME.fullmatch(worker):
        raise StoreError(f"worker {worker!r}: a name has up to 80 letters, digits, hyphens and underscores")
    return directory / f"{_STEM}-{worker}.{_SUFFIX}"


def worker_files(directory: Path) -> list[Path]:
    """Return the files of all workers that hold anything, by name."""
    try:
        with os.scandir(directory) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.name.startswith(f"{_STEM}-")
                and entry.name.endswith(f".{_SUFFIX}")
                and entry.is_file()
                and entry.stat().st_size
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [directory / name for name in sorted(names)]


def is_for_workers(directory: Path) -> bool:
    """Return whether workers measure the study in a directory, also before the first one begins."""
    if (directory / MEASUREMENTS).exists():
        return False
    return (directory / LEASES).is_dir() or bool(worker_files(directory))


class WorkerFile:
    """The file of one worker, to write.

    directory: of the study.
    worker: name of the worker.
    """

    def __init__(self, directory: Path, worker: str) -> None:
        self.path = worker_file(directory, worker)
        require_regular(self.path)
        self._log = Log(self.path, "finished runs")

    def open(self, study: Study, session: Session) -> None:
        """Begin a session.

        Raises StoreError if one command measures the study in this directory, or if the file cannot be written.
        """
        self._refuse_a_store()
        if not self.path.exists() or not self.path.stat().st_size:
            self._log.begin(Header(study=study))
        self._log.append(session)

    def append(self, lines: Sequence[Measured], run: Run) -> None:
        """Write a run in one piece, and wait until it is on the disk. Raises StoreError as `open`."""
        self._refuse_a_store()
        self._log.session = run.session
        self._log.append(*lines, run)

    def _refuse_a_store(self) -> None:
        if self.path.with_name(MEASUREMENTS).exists():
            raise StoreError(f"{self.path.parent} holds {MEASUREMENTS}, so one command measures it: workers cannot")


@dataclass
class WorkerReader:
    """Reads a worker's file. It can be asked again and again, and then reads what is new.

    path: the file.
    study: what its header asks; None before the header was read.
    sessions: the sessions so far, by id.
    runs: the finished runs so far, with their lines.
    dropped: one sentence for each line that could not be read.
    """

    path: Path
    study: Study | None = None
    sessions: dict[str, Session] = field(default_factory=dict)
    runs: list[_FinishedRun] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    _reader: LineReader = field(default_factory=LineReader)
    _pending: list[Measured] = field(default_factory=list)
    _offset: int = 0
    _number: int = 0

    def read(self) -> None:
        """Read the lines that are new and complete. Raises StoreError if the file is no store of this version."""
        try:
            if self.path.stat().st_size == self._offset:
                return
            with open_regular(self.path) as file:
                file.seek(self._offset)
                for line in file:  # one at a time: a file may be larger than the memory
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    self._number += 1
                    if line.strip():
                        self._read_line(line)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from error

    def _read_line(self, line: bytes) -> None:
        where = f"{self.path.name}, line {self._number}"
        try:
            record = self._reader.parse(line)
        except HeaderError as error:
            raise StoreError(f"{self.path}, line {self._number}: {error}") from error
        except StoreError as error:
            self.dropped.append(f"{where} dropped: {error}")
            return
        match record:
            case Header():
                if self.study is not None and self.study != record.study:
                    raise StoreError(f"{where}: a second study begins here, and one file holds one study")
                self.study = record.study
            case Session():
                self._pending.clear()
                self.sessions[record.id] = record
            case Run():
                self._end(record, self._pending)
                self._pending = []
            case Dense() | Picture() | Measurement() | Round():
                self._pending.append(record)

    def _end(self, run: Run, lines: list[Measured]) -> None:
        self.runs.append((run, lines))


@dataclass(frozen=True)
class Ended:
    """The end of a run, without what it measured.

    counted: ids of the cells whose exact quantities it has found.
    has_failures: whether it was given up, or one of its cells has failed.
    """

    run: Run
    counted: frozenset[str]
    has_failures: bool


@dataclass
class ProgressReader(WorkerReader):
    """Reads which runs a worker has finished, and keeps nothing else of them: a study may have a million times.

    ends: the finished runs so far. `runs` stays empty.
    headers: what each header says, and whether a newer version wrote it. Readers of one study share it: then a header
        is read once, not once for each worker.
    """

    ends: list["Ended"] = field(default_factory=list)
    headers: dict[bytes, tuple[Study | None, bool]] = field(default_factory=dict)

    def _read_line(self, line: bytes) -> None:
        if not line.startswith(_PROGRESS):
            return
        is_header = line.startswith(_PROGRESS[0])
        if is_header and line in self.headers:
            self.study, self._reader.newer = self.headers[line]
            return
        super()._read_line(line)
        if is_header:
            self.headers[line] = self.study, self._reader.newer

    def _end(self, run: Run, lines: list[Measured]) -> None:
        cells = [line for line in lines if isinstance(line, Measurement)]
        counted = frozenset(one.cell.id for one in cells if one.status == "counted")
        self.ends.append(Ended(run, counted, any(one.status == "failed" for one in cells)))


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
    """Return what all workers measured, as one store. Raises StoreError if a file cannot be read, and as `merge`."""
    readers = [WorkerReader(path) for path in files]
    for reader in readers:
        reader.read()
    return merge(readers, directory)


def merge(readers: Sequence[WorkerReader], directory: Path) -> Contents:
    """Return what all workers measured, as one store. Only the first session is read.

    Measurements of unlike machines are not pooled: those that differ from the first session are left out, and
    `Contents.dropped` says so.

    Raises StoreError if the files are of two studies, or if none has a header.
    """
    begun = [reader for reader in readers if reader.study is not None]
    if not begun:
        raise StoreError(f"{directory} holds no study: no worker has begun")
    first = begun[0]
    assert first.study is not None
    for reader in begun:
        if reader.study != first.study:
            raise StoreError(f"{reader.path} and {first.path} are of two studies: move one of them away")
    contents = Contents(first.study, dropped=[text for reader in begun for text in reader.dropped])
    ends = [end for reader in begun for end in reader.runs]
    _add_sessions(contents, begun, {run.session for run, _ in ends}, directory)
    kept = {session.id for session in contents.sessions}
    each = _each_once([end for end in ends if end[0].session in kept], retried(directory))
    contents.runs.extend(run for run, _ in each)
    told = [(run, line) for run, lines in each for line in lines]
    # Failures come last. A cell that failed in one process keeps the times of the others, with the reason.
    for run, line in sorted(told, key=lambda one: isinstance(one[1], Measurement) and one[1].status == "failed"):
        try:
            contents.add(line)
        except StoreError as error:
            contents.dropped.append(f"run {run.key} of {run.worker}: {error}")
    return contents


def _add_sessions(contents: Contents, readers: Sequence[WorkerReader], measured: set[str], directory: Path) -> None:
    """Add the sessions that measured something, if their machine is like the first. measured: their ids."""
    sessions = [one for reader in readers for one in reader.sessions.values() if one.id in measured]
    sessions.sort(key=lambda session: str(session.started))
    first = first_session(directory) or (sessions[0] if sessions else None)
    for session in sessions:
        if first is not None and not is_like(session, first):
            host = session.environment.hostname
            contents.dropped.append(f"left out: session {session.id!r} on {host} ran on another kind of machine")
        else:
            contents.add(session)


def _each_once(ends: Sequence[_FinishedRun], again: Mapping[str, int]) -> list[_FinishedRun]:
    """Return each run once, counts before times: of several ends the earliest attempt that was measured.

    again: the runs that were measured again, with the last attempt that counts no longer, if a later one has ended.
    """

    def worse(end: _FinishedRun) -> tuple[bool, bool, int, str]:
        run = end[0]
        return run.attempt <= again.get(str(run.key), 0), run.failed is not None, run.attempt, run.worker

    best: dict[RunKey, _FinishedRun] = {}
    for end in sorted(ends, key=worse):
        best.setdefault(end[0].key, end)
    return sorted(best.values(), key=lambda end: (end[0].number, end[0].block != DENSE, end[0].block))
