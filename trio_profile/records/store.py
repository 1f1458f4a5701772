"""The append-only store of a study: `measurements.jsonl`, one record a line, and `study.toml` beside it.

Documents that are computed in one go are kept whole (`keep`, `kept`).

A record is written in one piece and flushed to the disk before the next cell begins, so that a kill at any moment loses
at the most the cell in flight; a last line that was cut off is dropped when the store is read, and said to be.
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
from trio_profile.records.schema import FORMAT, VERSION, Dense, Environment, Header, Measurement, Record, Study

MEASUREMENTS = "measurements.jsonl"
STUDY = "study.toml"

_Kept = TypeVar("_Kept", bound=Record)
_records = {"header": Header, "dense": Dense, "measurement": Measurement}


@dataclass
class Contents:
    """What a store holds. `dropped` says what could not be read, a line each."""

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
        """Whether anything was measured here."""
        return self.path.is_file() and self.path.stat().st_size > 0

    def read(self) -> Contents:
        """All whole records, failures superseded by later successes of the same cell.

        Raises StoreError when there is no store, when it is not ours, or when it is of a later version.
        """
        if not self.path.is_file():
            raise StoreError(
                f"{self.directory} holds no {MEASUREMENTS}: run `trio-profile sweep --out {self.directory}` first"
            )
        lines = self.path.read_bytes().split(b"\n")
        contents: Contents | None = None
        latest: dict[str, Measurement] = {}
        dropped: list[str] = []
        for number, line in enumerate(lines, start=1):
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
                raise StoreError(
                    f"{self.path} begins without a header: it is not a store of ours; choose another --out"
                )
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
        """Begin a store, or go on with one that holds the same study on the same kind of machine.

        Raises StoreError naming the fields in which study or environment differ, or why nothing can be written.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if self.exists():
                contents = self.read()
                _require_same("study", contents.study.model_dump(), study.model_dump(), self.directory)
                _require_same("environment", contents.environment.identity, environment.identity, self.directory)
                self._mend_last_line()
                return contents
            (self.directory / STUDY).write_text(to_toml(study), encoding="utf-8")
            self.append(Header(study=study, environment=environment))
        except OSError as error:
            raise StoreError(f"cannot write to {self.directory}: {error.strerror}; choose another --out") from error
        return Contents(study, environment)

    def append(self, record: Header | Dense | Measurement) -> None:
        """Write one record to the disk, whole."""
        with self.path.open("ab") as file:
            file.write(record.model_dump_json(exclude_none=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _mend_last_line(self) -> None:
        """End a line that a kill cut off, so that the next record begins on its own."""
        with self.path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def to_toml(study: Study) -> str:
    """A study as TOML; fields that are None are left out."""
    return tomli_w.dumps(study.model_dump(exclude_none=True))


def _parse(line: bytes) -> Header | Dense | Measurement:
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise StoreError("it is not JSON, or cut off") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("record"), str) or raw["record"] not in _records:
        raise StoreError(f"it is not a record of {FORMAT}")
    if raw["record"] == "header" and isinstance(raw.get("version"), int) and raw["version"] > VERSION:
        raise StoreError(f"format version {raw['version']} is newer than {VERSION}: upgrade trio-profile")
    try:
        return _records[raw["record"]].model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{raw['record']}.{where}: {first['msg']}") from error


def _require_same(what: str, there: dict, here: dict, directory: Path) -> None:
    differ = [_difference(name, there.get(name), here[name]) for name in here if there.get(name) != here[name]]
    if differ:
        raise StoreError(f"{directory} holds another {what}: {'; '.join(differ)}; choose another --out")


def _difference(name: str, there: Any, here: Any) -> str:
    """What differs, in one line: of a table the entries alone."""
    if not (isinstance(there, dict) and isinstance(here, dict)):
        return f"{name} ({there!r} there, {here!r} here)"
    parts = [
        f"{', '.join(map(str, entries))} {where}"
        for entries, where in (
            ([entry for entry in there if entry not in here], "only there"),
            ([entry for entry in here if entry not in there], "only here"),
            ([entry for entry in there if entry in here and there[entry] != here[entry]], "with other values"),
        )
        if entries
    ]
    return f"{name} ({'; '.join(parts)})"


def keep(path: Path, document: Record) -> None:
    """Write a document as JSON. Raises StoreError when it cannot be written."""
    write_whole(path, document.model_dump_json(indent=2) + "\n")


def kept(path: Path, kind: type[_Kept]) -> _Kept:
    """A document of this kind. Raises StoreError for a file that is missing, not ours, or of a later version."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise StoreError(f"{path} is no {kind.__name__} of this version: {where}: {first['msg'].lower()}") from error


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Record], None]]:
    """Begin a file of records, one a line, and yield what writes the next, there to be read at once.

    What the file held before goes with the first record, and not before: whatever ends without any leaves it alone.
    Raises StoreError when it cannot be written.
    """
    try:
        file = path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; choose another --out") from error
    begun = False

    def write(record: Record) -> None:
        nonlocal begun
        if not begun:
            file.truncate(0)
            begun = True
        print(record.model_dump_json(), file=file)

    with file:
        yield write


def make_directory(directory: Path) -> None:
    """Make a directory that is to be written to, so that one that cannot be is found before anything is measured.

    Raises StoreError.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {directory}: {error.strerror}; choose another --out") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all, and its directory if missing. Raises StoreError when it cannot be written."""
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
