"""The append-only log of a study: `measurements.jsonl`, `answers.jsonl` or `requests.jsonl`.

A log has one record on each line. It begins with a header, and each session adds a line. Records are written in one
piece and flushed to the disk. So a killed process loses at most what it was measuring. If the last line is cut off, the
reader drops it. docs/reference/format.md describes the files.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import ValidationError

from trio_profile.errors import StoreError
from trio_profile.reading import parse_json, read_bytes
from trio_profile.records.differences import require_same, require_same_environment
from trio_profile.records.record import FORMAT, Record, first_problem, is_newer_minor
from trio_profile.records.run import Run
from trio_profile.records.schema import Dense, Header, Measurement, Picture, Round, Session
from trio_profile.records.writing import append_line, cannot_write, require_regular, write_whole

Line = Header | Session | Dense | Picture | Measurement | Round | Run
RECORDS: dict[str, type[Line]] = {
    "header": Header,
    "session": Session,
    "dense": Dense,
    "picture": Picture,
    "measurement": Measurement,
    "round": Round,
    "run": Run,
}
_BEGINNING = b'{"record":"header"'
"""How the header line of every store begins."""


class HeaderError(StoreError):
    """A header says that the lines after it cannot be read."""


class LineReader:
    """Reads the lines of one file in their order.

    records: the classes of the file's records, by the name that each line says.
    newer: whether the latest header has a newer minor version than this reader.
    """

    def __init__(self, records: Mapping[str, type[Record]] = RECORDS) -> None:
        self.records = records
        self.newer = False

    def parse(self, line: bytes) -> Any:
        """Return the record of a line. None for a kind of record that only a newer minor version has.

        Raises StoreError with the reason if the line holds no record. Raises HeaderError for another major version.
        """
        raw = _load(line)
        kind = raw.get("record") if isinstance(raw, dict) else None
        if kind == "header":
            self._read_version(raw.get("version"))
        if not isinstance(kind, str) or kind not in self.records:
            if self.newer and isinstance(kind, str):
                return None
            raise StoreError(f"it is not a record of {FORMAT}")
        try:
            return self.records[kind].model_validate_json(line, extra="ignore" if self.newer else None)
        except ValidationError as error:
            field, message = first_problem(error)
            raise StoreError(f"{'.'.join(filter(None, (kind, field)))}: {message}") from error

    def read(self, path: Path, content: bytes, add: Callable[[Any], None]) -> list[str]:
        """Read a whole log. Return one sentence for each line that was dropped.

        path: of the file, for the messages.
        add: called with each record, in order. A line is dropped if it raises StoreError.
        Raises StoreError if the log does not begin with a header of this format, or if `add` raises HeaderError.
        """
        has_header, dropped = False, list[str]()
        for number, line in enumerate(content.split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                record = self.parse(line)
                has_header = has_header or (record is not None and record.record == "header")
                if not has_header:
                    raise HeaderError("the file has no header, so it is not a store")
                if record is not None:
                    add(record)
            except StoreError as error:
                if not has_header or isinstance(error, HeaderError):
                    raise StoreError(f"{path}, line {number}: {error}") from error
                dropped.append(f"line {number} dropped: {error}")
        return dropped

    def _read_version(self, version: Any) -> None:
        try:
            self.newer = is_newer_minor(version)
        except StoreError as error:
            raise HeaderError(str(error)) from error


def read_content(path: Path) -> bytes:
    """Return the content of a log; empty if the file is missing. Raises StoreError if it cannot be read."""
    require_regular(path)
    try:
        return read_bytes(path) if path.exists() else b""
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def is_cut_off_header(data: bytes) -> bool:
    """Return whether a file holds nothing but the beginning of a header: nothing was measured."""
    begins = data[: len(_BEGINNING)]
    return b"\n" not in data and _BEGINNING.startswith(begins) and not _is_json(data)


def _is_json(data: bytes) -> bool:
    try:
        _load(data)
    except StoreError:
        return False
    return True


def _load(line: bytes) -> Any:
    """Return what a line of JSON says. Raises StoreError if it is not JSON, or nested too deeply."""
    try:
        return parse_json(line)
    except ValueError as error:
        raise StoreError("it is not JSON, or it is cut off") from error


class Log:
    """An append-only file of records, to write.

    path: of the file; None writes nothing.
    finished: what stays in the file if nothing more can be written, such as `finished cells`.
    session: id of the session that writes. Records without a session get this one.
    """

    def __init__(self, path: Path | None, finished: str, session: str = "") -> None:
        self._path, self._finished, self.session = path, finished, session

    def begin(self, header: Record) -> None:
        """Write a new file that has only a header. Raises StoreError if it cannot be written."""
        if self._path is not None:
            write_whole(self._path, _text(header) + "\n")

    def append(self, *records: Record) -> list[Any]:
        """Write records in one piece, and wait until they are on the disk. Return them with their session.

        Raises StoreError if they cannot be written. What was written before is kept.
        """
        written = [
            record.model_copy(update={"session": self.session}) if getattr(record, "session", None) == "" else record
            for record in records
        ]
        if self._path is None or not records:
            return written
        try:
            append_line(self._path, "\n".join(map(_text, written)).encode())
        except FileNotFoundError as error:
            raise StoreError(
                f"{self._path} was removed while the study ran: run the same command again, or choose another --out"
            ) from error
        except OSError as error:
            raise cannot_write(self._path, error, f"{self._finished} are kept, and the same command goes on") from error
        return written


def _text(record: Record) -> str:
    return record.model_dump_json(exclude_none=True)


class _LogContents(Protocol):
    """What a log holds, in memory."""

    sessions: list[Session]

    def add(self, record: Any) -> None: ...


_C = TypeVar("_C", bound=_LogContents)


class ContinuedLog(Log, Generic[_C]):
    """A log that each session of a study continues. It is read when it is opened.

    records: as in `LineReader`.
    empty: the class of the contents.
    contents: what the log holds.
    """

    records: ClassVar[Mapping[str, type[Record]]]
    empty: ClassVar[type]

    def __init__(self, path: Path | None, finished: str, header: Any, session: Session) -> None:
        """Read what the file holds.

        header: of the study.
        session: the one that begins.
        Raises StoreError if the file is no log, cannot be read or has a newer format, or if it must be kept and holds
        another study or another kind of machine.
        """
        super().__init__(path, finished, session.id)
        self._header, self._opened = header, session
        self.contents: _C = self.empty()
        if path is None or (study := self._read(path, LineReader(self.records))) is None:
            return
        if self.must_keep(is_same_study=study == header.study):
            require_same("study", study.model_dump(), header.study.model_dump(), path.parent)
            require_same_environment(self.contents.sessions, session.environment, path.parent)
        else:
            self.contents = self.empty()

    @abstractmethod
    def must_keep(self, *, is_same_study: bool) -> bool:
        """Return whether the file may not be replaced by an empty one."""

    def start(self) -> None:
        """Write the session, and before the first one the header. Raises StoreError if the file cannot be written."""
        if not self.contents.sessions:
            self.begin(self._header)
        self.append(self._opened)

    def append(self, *records: Record) -> list[Any]:
        """Write records as `Log.append` does, and add them to the contents."""
        written = super().append(*records)
        for record in written:
            self.contents.add(record)
        return written

    def _read(self, path: Path, reader: LineReader) -> Any:
        """Read the file, and return its study; None if the file is missing, or has nothing but a part of a header."""
        content, studies = read_content(path), list[Any]()
        if not content or is_cut_off_header(content):
            return None

        def add(record: Any) -> None:
            if record.record == "header":
                studies.append(record.study)
            else:
                self.contents.add(record)

        try:
            reader.read(path, content, add)
        except StoreError as error:
            raise StoreError(f"{error}; choose another --out") from error
        if not studies:
            raise StoreError(f"{path} has no header, so nothing says what was asked; choose another --out")
        if reader.newer:
            raise StoreError(f"{path} has a newer format: upgrade trio-profile, or choose another --out")
        return studies[-1]
