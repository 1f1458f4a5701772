"""The files of a study: the append-only store `measurements.jsonl`, `study.toml`, and documents.

The store has one record on each line. Each record is written in one piece and flushed to the disk before the next cell
begins. So a killed process loses at most the cell that it was measuring. If the last line is cut off, the reader drops
it and reports it.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import ValidationError

from trio_profile.errors import StoreError
from trio_profile.records.files import MEASUREMENTS, STUDY
from trio_profile.records.schema import FORMAT, VERSION, Dense, Environment, Header, Measurement, Record, Study

_Document = TypeVar("_Document", bound=Record)
_RECORDS = {"header": Header, "dense": Dense, "measurement": Measurement}


@dataclass
class Contents:
    """The contents of a store.

    study, environment: from the header.
    dense: the dense model's quantities; None if they are not measured yet.
    measurements: one record for each cell.
    dropped: one sentence for each line that could not be read.
    """

    study: Study
    environment: Environment
    dense: Dense | None = None
    measurements: list[Measurement] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


class Store:
    """One directory that holds one study."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.path = directory / MEASUREMENTS

    def exists(self) -> bool:
        """Return whether the directory holds a store."""
        return self.path.is_file() and self.path.stat().st_size > 0

    def read(self) -> Contents:
        """Read all complete records. The last record of a cell replaces its earlier ones.

        Raises StoreError if there is no store, if the file is not a store, or if its version is newer.
        """
        if not self.path.is_file():
            raise StoreError(
                f"{self.directory} holds no {MEASUREMENTS}: name a directory of `sweep`, `compare` or `ablate`"
            )
        contents: Contents | None = None
        latest: dict[str, Measurement] = {}
        dropped: list[str] = []
        for number, line in enumerate(self.path.read_bytes().split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                record = _parse(line)
            except StoreError as error:
                if contents is None:
                    raise StoreError(f"{self.path}, line {number}: {error}; choose another --out") from error
                dropped.append(f"line {number} dropped: {error}")
                continue
            if isinstance(record, Header):
                contents = contents or Contents(record.study, record.environment)
            elif contents is None:
                raise StoreError(f"{self.path} has no header, so it is not a store; choose another --out")
            elif isinstance(record, Dense):
                contents.dense = record
            else:
                latest[record.cell.id] = record
        if contents is None:
            raise StoreError(f"{self.path} is empty: choose another --out, or remove it")
        contents.measurements = list(latest.values())
        contents.dropped = dropped
        return contents

    def open(self, study: Study, environment: Environment) -> Contents:
        """Create the store, or continue one with the same study and the same kind of machine. Return its contents.

        Raises StoreError if the study or the environment differs (it names the fields), or if nothing can be written.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if self.exists():
                contents = self.read()
                require_same("study", contents.study.model_dump(), study.model_dump(), self.directory)
                require_same("environment", contents.environment.identity, environment.identity, self.directory)
                self._end_last_line()
                return contents
            (self.directory / STUDY).write_text(to_toml(study), encoding="utf-8")
            self.append(Header(study=study, environment=environment))
        except OSError as error:
            raise StoreError(f"cannot write to {self.directory}: {error.strerror}; choose another --out") from error
        return Contents(study, environment)

    def append(self, record: Header | Dense | Measurement) -> None:
        """Write one record, and wait until it is on the disk. Raises StoreError if it cannot be written."""
        try:
            with self.path.open("ab") as file:
                file.write(record.model_dump_json(exclude_none=True).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot write to {self.path}: {error.strerror}; finished cells are kept") from error

    def _end_last_line(self) -> None:
        """End a line that was cut off, so that the next record starts on a new line."""
        with self.path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def to_toml(study: Study, fields: set[str] | None = None) -> str:
    """Return a study as TOML, without the fields that are None. fields: those that its kind takes; None takes all."""
    return tomli_w.dumps(study.model_dump(exclude_none=True, include=fields))


def _parse(line: bytes) -> Header | Dense | Measurement:
    """Return the record of one line. Raises StoreError with the reason if the line holds none."""
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise StoreError("it is not JSON, or it is cut off") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("record"), str) or raw["record"] not in _RECORDS:
        raise StoreError(f"it is not a record of {FORMAT}")
    if raw["record"] == "header" and isinstance(raw.get("version"), int) and raw["version"] > VERSION:
        raise StoreError(f"format version {raw['version']} is newer than {VERSION}: upgrade trio-profile")
    try:
        return _RECORDS[raw["record"]].model_validate_json(line)
    except ValidationError as error:
        field, message = first_problem(error)
        raise StoreError(f"{raw['record']}.{field}: {message}") from error


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return the path of the first invalid field, with dots, and pydantic's message about it."""
    first = error.errors()[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"]


def require_same(what: str, stored: dict, given: dict, directory: Path) -> None:
    """Raise StoreError if what a directory holds differs from what is given now. The message names the fields.

    what: `study` or `environment`.
    """
    differences = [
        _difference(name, stored.get(name), value) for name, value in given.items() if stored.get(name) != value
    ]
    if differences:
        raise StoreError(f"{directory} holds another {what}: {'; '.join(differences)}; choose another --out")


def _difference(name: str, stored: Any, given: Any) -> str:
    """Return how a field differs, in one line. Of a table it names only the entries that differ."""
    if not (isinstance(stored, dict) and isinstance(given, dict)):
        return f"{name} ({stored!r} there, {given!r} here)"
    groups = (
        ([entry for entry in stored if entry not in given], "only there"),
        ([entry for entry in given if entry not in stored], "only here"),
        ([entry for entry in stored if entry in given and stored[entry] != given[entry]], "with other values"),
    )
    parts = [f"{', '.join(map(str, entries))} {where}" for entries, where in groups if entries]
    return f"{name} ({'; '.join(parts)})"


def write_document(path: Path, document: Record) -> None:
    """Write a document as JSON. Raises StoreError if it cannot be written."""
    write_whole(path, document.model_dump_json(indent=2) + "\n")


def _refuse_newer(path: Path, text: bytes) -> None:
    """Raise StoreError for a document that a newer trio-profile wrote."""
    try:
        version = json.loads(text).get("version")
    except (ValueError, AttributeError):
        return  # no document; reading it says why
    if isinstance(version, int) and version > VERSION:
        raise StoreError(f"{path}: format version {version} is newer than {VERSION}: upgrade trio-profile")


def read_document(path: Path, kind: type[_Document]) -> _Document:
    """Read a document of the class `kind`.

    Raises StoreError if the file is missing, if it is not such a document, or if its version is newer.
    """
    try:
        text = path.read_bytes()
        _refuse_newer(path, text)
        return kind.model_validate_json(text)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        field, message = first_problem(error)
        where = field or "the file"
        raise StoreError(f"{path} is no {kind.__name__} of this version: {where}: {message.lower()}") from error


@contextmanager
def record_writer(path: Path) -> Iterator[Callable[[Record], None]]:
    """Yield a function that writes one record to the file, on a line of its own.

    The first record replaces the file's old content. If no record is written, the file stays as it was.
    Raises StoreError if the file cannot be written.
    """
    try:
        file = path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; choose another --out") from error
    was_cleared = False

    def write(record: Record) -> None:
        nonlocal was_cleared
        if not was_cleared:
            file.truncate(0)
            was_cleared = True
        print(record.model_dump_json(), file=file)

    with file:
        yield write


def make_directory(directory: Path) -> None:
    """Make a directory, if it is missing. Raises StoreError if it cannot be made."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {directory}: {error.strerror}; choose another --out") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file completely or not at all. Its directory is made if it is missing.

    Raises StoreError if the file cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; choose another --out") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
