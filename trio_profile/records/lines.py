"""The lines of `measurements.jsonl`, `answers.jsonl` and `requests.jsonl`: from the text of one line to its record."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trio_profile.errors import StoreError
from trio_profile.reading import parse_json, read_bytes
from trio_profile.records.record import FORMAT, Record, first_problem
from trio_profile.records.run import Run
from trio_profile.records.schema import Dense, Header, Measurement, Picture, Round, Session
from trio_profile.records.versions import is_newer_minor
from trio_profile.records.writing import require_regular

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

    def _read_version(self, version: Any) -> None:
        try:
            self.newer = is_newer_minor(version)
        except StoreError as error:
            raise HeaderError(str(error)) from error


def read_whole(path: Path, records: Mapping[str, type[Record]], add: Callable[[Record], None]) -> Any:
    """Read a store whose header comes first, and return its study; None if the file is missing or empty.

    records: as in `LineReader`.
    add: called with each record, in order. A line that was cut off is left out.
    Raises StoreError if the file is no store, has a newer format, or cannot be read.
    """
    data = _content_of(path)
    if not data:
        return None
    reader, study = LineReader(records), None
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            record = reader.parse(line) if line.strip() else None
        except StoreError as error:
            if study is not None:  # a line that was cut off
                continue
            raise StoreError(f"{path}, line {number}: {error}; choose another --out") from error
        if record is not None:
            study = record.study if record.record == "header" else study
            add(record)
    if study is None:
        raise StoreError(f"{path} has no header, so nothing says what was asked; choose another --out")
    if reader.newer:
        raise StoreError(f"{path} has a newer format: upgrade trio-profile, or choose another --out")
    return study


def _content_of(path: Path) -> bytes:
    """Return the content of a store; empty if the file is missing or holds only the beginning of a header.

    Raises StoreError if the file cannot be read.
    """
    require_regular(path)
    try:
        data = read_bytes(path) if path.exists() else b""
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    return b"" if is_cut_off_header(data) else data


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
