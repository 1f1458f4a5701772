"""The append-only log of a study: `measurements.jsonl`, `answers.jsonl` or `requests.jsonl`.

A log has one record on each line. It begins with a header, and each session adds a line. Records are written in one
piece and flushed to the disk. So a killed process loses at most what it was measuring. If the last line is cut off, the
reader drops it. docs/reference/format.md describes the files.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from trio_profile.errors import StoreError
from trio_profile.reading import open_regular, parse_json
from trio_profile.records.differences import require_same, require_same_environment, require_same_inputs
from trio_profile.records.record import FORMAT, VERSION, Record, first_problem, is_newer_minor
from trio_profile.records.schema import (
    Answers,
    Dense,
    Environment,
    FileDigest,
    Header,
    Measurement,
    Picture,
    Round,
    Session,
    Study,
)
from trio_profile.records.writing import append_line, cannot_write, require_regular, write_whole


def records_of(*classes: type[Record]) -> dict[str, type[Record]]:
    """Return the classes of a file's records, by the name that each line says."""
    return {cls.model_fields["record"].default: cls for cls in classes}


RECORDS = records_of(Header, Session, Dense, Picture, Measurement, Answers, Round)


class HeaderError(StoreError):
    """A header says that the lines after it cannot be read."""


class LogReader:
    """Reads a log.

    path: of the file.
    records: the classes of the file's records, by the name that each line says.
    study: what the latest header asks; None before a header was read.
    version: of the format, by this header. newer: whether it is a newer minor version than this reader's.
    dropped: one sentence for each line that could not be read.
    """

    def __init__(self, path: Path, records: Mapping[str, type[Record]] = RECORDS) -> None:
        self.path, self.records = path, records
        self.study: Any = None
        self.version, self.newer, self.dropped = VERSION, False, list[str]()
        self._number = 0

    def read(self, add: Callable[[Any], None]) -> None:
        """Read all lines.

        add: is called with each record but a header, in order. A line is dropped if it raises StoreError.
        Raises StoreError if the file cannot be read, or if it does not begin with a header of this format.
        """
        require_regular(self.path)
        try:
            with open_regular(self.path) as file:
                for self._number, line in enumerate(file, start=1):  # a file may be larger than the memory
                    if line.strip():
                        self._read_line(line, add)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from error

    def read_to_continue(
        self, contents: Any, study: Any, environment: Environment, inputs: Mapping[str, FileDigest]
    ) -> None:
        """Read all lines into `contents`, if this program can continue them.

        contents: what the log holds, with its `sessions`. It is empty.
        study: what is asked now.
        inputs: the digests of the files as they are now. What has none is not compared.
        Raises StoreError if the file is no log, cannot be read or has a newer version, because its study may have
        settings that this program does not know. Raises it too if the study, the kind of machine or a file that is
        measured differs; the message names what differs.
        """
        try:
            self.read(contents.add)
        except StoreError as error:
            raise StoreError(f"{error}; choose another --out") from error
        if self.newer:
            raise StoreError(
                f"{self.path} has the newer format {self.version}, which can only be read: upgrade trio-profile, "
                "or choose another --out"
            )
        require_same("study", _identity(self.study), _identity(study), self.path.parent)
        require_same_environment(contents.sessions, environment, self.path.parent)
        require_same_inputs(study, contents.sessions, inputs, self.path.parent)

    def _read_line(self, line: bytes, add: Callable[[Any], None]) -> None:
        try:
            record = self.parse(line)
            if record is not None and record.record == "header":
                if self.study is not None and _identity(record.study) != _identity(self.study):
                    raise HeaderError("a second study begins here, and one file holds one study")
                self.study, self.version = record.study, record.version
            elif self.study is None:
                raise HeaderError("the file has no header, so it is not a store")
            elif record is not None:
                add(record)
        except StoreError as error:
            if self.study is None or isinstance(error, HeaderError):
                raise StoreError(f"{self.path}, line {self._number}: {error}") from error
            self.dropped.append(f"line {self._number} dropped: {error}")

    def parse(self, line: bytes) -> Any:
        """Return the record of a line. None for a kind of record that only a newer minor version has.

        Raises StoreError with the reason if the line holds no record. Raises HeaderError for another major version.
        """
        raw = _load(line)
        kind = raw.get("record") if isinstance(raw, dict) else None
        if kind == "header":
            try:
                self.newer = is_newer_minor(raw.get("version"))
            except StoreError as error:
                raise HeaderError(str(error)) from error
        if not isinstance(kind, str) or kind not in self.records:
            if self.newer and isinstance(kind, str):
                return None
            raise StoreError(f"it is not a record of {FORMAT}")
        try:
            return self.records[kind].model_validate_json(line, extra="ignore")
        except ValidationError as error:
            field, message = first_problem(error)
            raise StoreError(f"{'.'.join(filter(None, (kind, field)))}: {message}") from error


def _identity(study: Any) -> dict[str, Any]:
    """Return what two headers of one file have in common: a later one may say that the study is measured longer."""
    return study.identity() if isinstance(study, Study) else study.model_dump()


def is_begun(path: Path) -> bool:
    """Return whether a log holds anything. Raises StoreError if something else has the name of the file."""
    require_regular(path)
    return path.exists() and path.stat().st_size > 0


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


class ContinuedLog(Log):
    """A log that each session of a study continues. It is read when it is opened.

    records: as in `LogReader`.
    contents: what the log holds, with its `sessions`.
    """

    records: ClassVar[Mapping[str, type[Record]]]

    def __init__(self, path: Path | None, finished: str, header: Any, session: Session, contents: Any) -> None:
        """Read what the file holds into `contents`, which is empty. Raises the errors of `read_to_continue`.

        header: of the study.
        session: the one that begins.
        """
        super().__init__(path, finished, session.id)
        self._header, self._opened, self.contents = header, session, contents
        if path is not None and is_begun(path):
            reader = LogReader(path, self.records)
            reader.read_to_continue(contents, header.study, session.environment, session.inputs)

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
