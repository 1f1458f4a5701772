"""A study as one flat table, for spreadsheets and data frames: one row a cell, or one row a pair.

A value with an interval becomes three columns: `prefill_speedup`, `prefill_speedup_low`, `prefill_speedup_high`. A
record inside a record adds its name: `retention_realised`. Every cell has every column. docs/how-to/export.md lists
them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from trio_profile.analysis.cells import CellSummary, DenseSummary
from trio_profile.analysis.doubts import Doubt, doubted_cells
from trio_profile.analysis.evaluation import Evaluation, TaskSummary
from trio_profile.analysis.grid import GridDocument
from trio_profile.analysis.layers import LayersDocument, LayerTimes
from trio_profile.analysis.pairs import COLUMNS
from trio_profile.errors import StudyError
from trio_profile.records.documents import Document
from trio_profile.records.estimate import Estimate
from trio_profile.records.schema import Study

Value = str | int | float | bool | None
Flat = dict[str, Value]
"""A row: the value of each column."""

OF_THE_STUDY = ("model", "device", "dtype", "attention", "batch", "new_tokens", "seed")
"""The columns that say what was asked. They are the same in every row."""


def rows_of(document: Document, entries: str = "") -> list[Flat]:
    """Return a document as rows: one for each cell, or for each entry of a list. All rows have the same columns.

    An evaluation has a row for each cell and task.

    entries: name of the list, for a document without cells.
    Raises StudyError for a document that has neither.
    """
    if isinstance(document, GridDocument):
        groups = {id(row): group.name for group in getattr(document, "groups", ()) for row in group.rows}
        named = [({"group": groups[id(cell)]} if groups else {}, cell) for cell in document.summaries]
        return _filled([{**group, **_cell_row(document, cell)} for group, cell in named])
    if isinstance(document, Evaluation):
        return _filled([*_evaluated(document)])
    if isinstance(document, LayersDocument):
        return _filled(
            [
                {"method": cell.method, "retention": cell.retention.nominal, **flat(LayerTimes, layer)}
                for cell in document.cells
                for layer in cell.layers
            ]
        )
    records: Sequence[BaseModel] = getattr(document, entries, ()) if entries else ()
    if not records:
        raise StudyError("this study has no rows for a table: choose --format json, md or latex")
    return _filled([flat(type(record), record) for record in records])


def pair_rows(document: GridDocument) -> list[Flat]:
    """Return the raw pairs of a document: one row a pair, in the order of measurement within each cell and session."""
    rows: list[Flat] = []
    for cell in document.pairs:
        of_cell = {"method": cell.method, "retention": cell.retention, "options": _text(cell.options)}
        numbers: Counter[tuple[int, str]] = Counter()
        for place, (session, phase) in enumerate(zip(cell.session, cell.phase, strict=True)):
            numbers[session, phase] += 1
            rows.append(
                {
                    **_of_study(document.study),
                    **of_cell,
                    "session": session,
                    "phase": phase,
                    "pair": numbers[session, phase],
                    **{name: cell.times[name][place] if name in cell.times else None for name in COLUMNS},
                    "clock_mhz": None if cell.clock_mhz is None else cell.clock_mhz[place],
                    "disturbed": cell.disturbed[place],
                }
            )
    return rows


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
            return {name: _text(value)}
        entries = [_columns(f"{name}.{key}", kind, part) for key, part in (value or {}).items()]
        return {column: part for entry in entries for column, part in entry.items()}
    kind = _class_in(annotation)
    if kind is None:
        return {name: _text(value)}
    if issubclass(kind, Estimate):
        low, high = (None, None) if value is None else value.ci95
        return {name: None if value is None else value.value, f"{name}_low": low, f"{name}_high": high}
    return flat(kind, value, f"{name}_")


def _class_in(annotation: Any) -> type[BaseModel] | None:
    """The record class of an annotation such as `Ratio | None`; None for plain values and for lists."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)


def _text(value: Any) -> Value:
    """A value as a table can hold it. Lists become texts: `92 54 22`."""
    if isinstance(value, dict):
        return ", ".join(f"{name} = {part}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return " ".join(part.model_dump_json() if isinstance(part, BaseModel) else str(_text(part)) for part in value)
    return value


def _cell_row(document: GridDocument, cell: CellSummary) -> Flat:
    """One cell: what was asked, where, the cell's own quantities, and the dense model's."""
    speedup, agreement = cell.prefill_speedup, cell.top1_agreement
    return {
        "kind": document.study.verb,
        **_of_study(document.study),
        "device_name": document.environment.device_name,
        "commit": document.environment.commit,
        "pairs": None if speedup is None else speedup.samples,
        "processes": None if speedup is None else speedup.sessions,
        "stopped": None if speedup is None else speedup.stopped,
        "questions": None if agreement is None else agreement.samples,
        "doubts": _doubts(document.doubts, cell),
        **flat(type(cell), cell),
        **flat(DenseSummary, document.dense, "dense_"),
    }


def _evaluated(document: Evaluation) -> Iterator[Flat]:
    """Yield each task of each row: what was asked, the score of its column, and the task's own quantities."""
    columns = {column.task: column.name for column in document.benchmarks}
    for row in [*([document.dense] if document.dense is not None else []), *document.cells]:
        scores = {score.benchmark: score for score in row.benchmarks}
        for task in row.tasks:
            score = scores.get(columns.get(task.task, ""))
            low, high = (score and score.ci95) or (None, None)
            yield {
                "kind": document.study.verb,
                "suite": document.suite,
                **_of_study(document.study),
                "device_name": document.environment.device_name,
                "commit": document.environment.commit,
                "method": "dense" if row.cell is None else row.cell.method,
                "nominal_retention": row.cell and row.cell.retention,
                "options": row.cell and _text(row.cell.options),
                "benchmark": columns.get(task.task),
                "score": score and score.value,
                "dense_score": score and score.dense,
                "score_share": score and score.share,
                "score_difference": score and score.difference,
                "score_difference_low": low,
                "score_difference_high": high,
                **flat(TaskSummary, task),
                "average": row.average,
            }


def _of_study(study: Study) -> Flat:
    return {name: getattr(study, name) for name in OF_THE_STUDY}


def _doubts(doubts: Sequence[Doubt], cell: CellSummary) -> str:
    """The kinds of doubt about a cell, and those about the whole study."""
    own = doubted_cells(doubts, [cell.cell]).get(cell.cell.id, ())
    return " ".join(dict.fromkeys([*own, *(doubt.kind for doubt in doubts if doubt.cell is None)]))


def _filled(rows: Sequence[Flat]) -> list[Flat]:
    """The rows with all columns of any row, in the order in which the columns first appear."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]
