"""Documents: what a verb prints with `--json`, and the file of a study that is measured in one go."""

from importlib import import_module
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from trio_profile.errors import StoreError
from trio_profile.reading import parse_json, read_bytes
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.record import FORMAT, VERSION, Record, Version, first_problem, is_newer_minor
from trio_profile.records.schema import Environment, Session
from trio_profile.records.study import Kept, Study
from trio_profile.records.writing import write_whole

NOTEBOOK = "trio_profile.study.notebook"
"""The module that draws a document for a notebook. It is imported when a notebook asks for it."""


class Document(Record):
    """The beginning of every document.

    format, version: the format of the document.
    sessions: when, where and by what it was measured, or written if nothing was measured.
    conclusion: what follows. It is derived from the other fields whenever a document is read, and no file has it.
    """

    format: Literal["trio-profile"] = FORMAT
    version: Version = VERSION
    sessions: tuple[Session, ...] = ()
    conclusion: Conclusion | None = None

    def _repr_html_(self) -> str | None:
        """The first sentences and the first table, for a notebook. None if the document has no report."""
        return import_module(NOTEBOOK).html_of(self)


class StudyDocument(Document):
    """The document of a study that runs a model.

    environment: the machine of the first session.
    study: what was asked.
    """

    environment: Environment
    study: Kept[Study]


_Document = TypeVar("_Document", bound=Record)


def write_document(path: Path, document: Record) -> None:
    """Write a document as JSON. Raises StoreError if it cannot be written."""
    write_whole(path, document.model_dump_json(indent=2, exclude={"conclusion"}) + "\n")


def read_document(path: Path, kind: type[_Document]) -> _Document:
    """Read a document of the class `kind`. Fields that it does not have are ignored.

    Raises StoreError if the file is missing, if it is not such a document, or if its major version is another one.
    """
    try:
        text = read_bytes(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    try:
        _require_version(text)
        return kind.model_validate_json(text, extra="ignore")
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from error
    except ValidationError as error:
        field, message = first_problem(error)
        where = field or "the file"
        raise StoreError(f"{path} is no {path.stem} document of trio-profile: {where}: {message.lower()}") from error


def _require_version(text: bytes) -> None:
    """Raise StoreError if a file is not JSON, or a document of another major version."""
    try:
        raw = parse_json(text)
    except ValueError as error:
        raise StoreError(f"it is no document: {error}") from error
    if isinstance(raw, dict):
        is_newer_minor(raw.get("version"))
