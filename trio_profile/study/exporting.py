"""A kept study in another form: as text for a paper, as rows for a data frame, or one of its figures."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from trio_profile.errors import StudyError
from trio_profile.installation import missing_extra
from trio_profile.records.files import WRITTEN
from trio_profile.records.writing import write_whole
from trio_profile.report.figures import Picture, picture
from trio_profile.study import running
from trio_profile.study.running import Finished
from trio_profile.study.table_rows import Rows, csv_text, rows_of_kind

Format = Literal["md", "latex", "csv", "parquet", "json"]
ENDINGS: dict[str, Format] = {".md": "md", ".tex": "latex", ".csv": "csv", ".parquet": "parquet", ".json": "json"}
"""The format of a file, by the end of its name."""
PICTURES: dict[str, Picture] = {".svg": "svg", ".pdf": "pdf", ".png": "png"}
"""The form of a figure, by the end of its file's name."""
Form = TypeVar("Form", bound=str)
OF_PAIRS = ("csv", "parquet", "json")
"""The formats in which the raw pairs, or the requests, can be written."""


def exported(
    directory: Path, format: Format, *, pairs: bool = False, requests: bool = False, cells: bool = False
) -> tuple[str | bytes, Finished]:
    """Return a study in a format, and the study.

    pairs: the raw pairs, one row a pair. As JSON: the document with its pairs.
    requests: the requests of `endpoints`, one row a request.
    cells: only the table of all cells; md and latex alone.
    Raises StoreError if the directory holds no study. Raises StudyError if the study has no pairs, requests, cells or
    rows, or if the format needs an extra that is not installed.
    """
    if pairs and requests:
        raise StudyError("--pairs and --requests: export one of them at a time")
    if (pairs or requests) and format not in OF_PAIRS:
        option, formats = "--pairs" if pairs else "--requests", ", ".join(OF_PAIRS)
        raise StudyError(f"{option} takes --format {formats}, not {format}: a page of text cannot hold them")
    if cells and format not in ("md", "latex"):
        raise StudyError(f"--cells takes --format md or latex; {format} holds every cell anyway")
    study = running.read(directory)
    name = study.kind.name
    if requests and not study.kind.requests:
        raise StudyError(f"{directory} holds no requests: a study of kind {name!r} asks no server")
    if pairs and not getattr(study.document, "pairs", ()):
        raise StudyError(f"{directory} holds no pairs: kind {name!r} is not timed cell by cell, or no cell is finished")
    if requests:
        rows = study.kind.load("requests")(directory)
        return json.dumps(rows, ensure_ascii=False) + "\n" if format == "json" else _table(rows, format), study
    if format == "json":
        return _json(study, pairs=pairs), study
    if format in ("md", "latex"):
        return _text(study, format, cells=cells), study
    if pairs:
        return _table(study.kind.load("pairs")(study.document), format), study
    return _table(rows_of_kind(study.kind, study.document), format), study


def figure(directory: Path, name: str, form: Picture) -> tuple[bytes, Finished]:
    """Return one figure of a study's page as the content of a picture file, and the study.

    Raises StudyError if no figure has this name, or if it cannot be drawn here.
    """
    study = running.read(directory)
    return picture(running.findings(study), name, form), study


def write(path: Path, content: str | bytes) -> None:
    """Write an export. Raises StoreError if it cannot be written, StudyError for the name of a study's own file."""
    if path.name in WRITTEN:
        raise StudyError(f"{path} is the name of a file of a study: choose another --out")
    write_whole(path, content)


def form_of(path: Path | None, option: Form | None, endings: Mapping[str, Form], default: Form | None = None) -> Form:
    """Return the form of an export: that of the option, or the one that the name of the file says.

    endings: the form by the end of a file's name.
    default: without an option and without an end. None: one of them is needed.
    Raises StudyError if neither says the form, or if they contradict each other.
    """
    ending = "" if path is None else path.suffix.lower()
    named = endings.get(ending)
    if named and option and named != option:
        raise StudyError(f"{path} is named as {named}, and the option says {option}: change one of them")
    form = option or named or (None if ending else default)
    if form is None:
        raise StudyError(f"{path or 'the output'} names no form: choose {', '.join(endings.values())}")
    return form


def _table(rows: Rows, format: Format) -> str | bytes:
    return csv_text(rows) if format == "csv" else parquet_bytes(rows)


def _json(study: Finished, *, pairs: bool) -> str:
    if not pairs:
        return study.document.model_dump_json(indent=2) + "\n"
    from trio_profile.judge.pairs import json_with_pairs

    return json_with_pairs(study.document) + "\n"


def _text(study: Finished, format: Format, *, cells: bool) -> str:
    """The report with the table of all cells first, or this table alone."""
    from trio_profile.report.latex import latex
    from trio_profile.report.markdown import markdown

    report, kind = running.findings(study), study.kind
    table = kind.load("paper_table")(study.document) if kind.paper_table else None
    if cells and table is None:
        raise StudyError(f"a study of kind {kind.name!r} has no cells: leave --cells out")
    pages: Sequence[Any] = [table] if cells else report.pages
    if table is not None and table.id not in {page.id for page in pages}:
        pages = [table, *pages]
    return (latex if format == "latex" else markdown)(replace(report, pages=pages), only_tables=cells)


def parquet_bytes(rows: Rows) -> bytes:
    """The rows as a Parquet file. Raises StudyError if the extra `export` is not installed."""
    try:
        import pyarrow  # pyright: ignore[reportMissingImports]
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise StudyError(missing_extra("parquet", "export", error)) from error
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), file)
    return file.getvalue()
