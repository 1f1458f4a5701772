"""A study as one flat table, for spreadsheets and data frames: one row an entry.

A value with an interval becomes three columns: `prefill_speedup`, `prefill_speedup_low`, `prefill_speedup_high`. A
record inside a record adds its name: `retention_realised`. Every row has every column. docs/how-to/export.md lists
them.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from trio_profile.errors import StudyError
from trio_profile.records.documents import Document
from trio_profile.records.estimate import Estimate
from trio_profile.records.schema import Study
from trio_profile.study.kind import Kind

Value = str | int | float | bool | None
Flat = dict[str, Value]
"""A row: the value of each column."""
Rows = Sequence[Mapping[str, Any]]
"""All rows have the same columns. No number is rounded when they are written."""

OF_THE_STUDY = ("model", "device", "dtype", "attention", "batch", "new_tokens", "seed")
"""The columns that say what was asked. They are the same in every row."""


def rows_of_kind(kind: Kind, document: Any) -> Rows:
    """Return a document as rows, as its kind makes them. Raises StudyError if it has none."""
    return kind.load("rows")(document) if ":" in kind.rows else rows_of(document, kind.rows)


def rows_of(document: Document, entries: str) -> list[Flat]:
    """Return a document as rows: one for each entry of a list. All rows have the same columns.

    entries: name of the list; empty if the document has none.
    Raises StudyError for a document without entries.
    """
    records: Sequence[BaseModel] = getattr(document, entries, ()) if entries else ()
    if not records:
        raise StudyError("this study has no rows for a table: choose --format json, md or latex")
    return filled([flat(type(record), record) for record in records])


def flat(kind: type[BaseModel], record: BaseModel | None, prefix: str = "") -> Flat:
    """Return a record as columns. The columns depend on its class alone, apart from the entries of its tables.

    kind: the class of the record.
    record: None leaves every column empty.
    prefix: of the columns' names.
    """
    columns: Flat = {}
    for name, field in kind.model_fields.items():
        value = None if record is None else getattr(record, name)
        columns |= _columns(f"{prefix}{name}", field.annotation, value)
    for name, value in (getattr(record, "model_extra", None) or {}).items():  # a quantity without a field
        columns |= _columns(f"{prefix}{name}", type(value), value)
    return columns


def _columns(name: str, annotation: Any, value: Any) -> Flat:
    """The columns of one field. annotation: of the field."""
    if get_origin(annotation) is dict:
        _, kind = get_args(annotation)
        if not (isinstance(kind, type) and issubclass(kind, Estimate)):
            return {name: text_of(value)}
        entries = [_columns(f"{name}.{key}", kind, part) for key, part in (value or {}).items()]
        return {column: part for entry in entries for column, part in entry.items()}
    kind = _class_in(annotation)
    if kind is None:
        return {name: text_of(value)}
    if issubclass(kind, Estimate):
        low, high = (None, None) if value is None else value.ci95
        return {name: None if value is None else value.value, f"{name}_low": low, f"{name}_high": high}
    return flat(kind, value, f"{name}_")


def _class_in(annotation: Any) -> type[BaseModel] | None:
    """The record class of an annotation such as `Ratio | None`; None for plain values and for lists."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)


def text_of(value: Any) -> Value:
    """A value as a table can hold it. Lists become texts: `92 54 22`."""
    if isinstance(value, dict):
        return ", ".join(f"{name} = {part}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return " ".join(part.model_dump_json() if isinstance(part, BaseModel) else str(text_of(part)) for part in value)
    return value


def of_study(study: Study) -> Flat:
    """The columns that say what was asked. They are the same in every row."""
    return {name: getattr(study, name) for name in OF_THE_STUDY}


def filled(rows: Sequence[Flat]) -> list[Flat]:
    """The rows with all columns of any row, in the order in which the columns first appear."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def csv_text(rows: Rows) -> str:
    """The rows as CSV with a line of column names. What is not known is empty; a truth value is true or false."""
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _written(value) for name, value in row.items()} for row in rows)
    return file.getvalue()


def _written(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
