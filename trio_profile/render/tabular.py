"""Rows as CSV or Parquet. No number is rounded."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from trio_profile.errors import StudyError

Rows = Sequence[Mapping[str, Any]]
"""All rows have the same columns."""


def csv_text(rows: Rows) -> str:
    """The rows as CSV with a line of column names. What is not known is empty; a truth value is true or false."""
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _written(value) for name, value in row.items()} for row in rows)
    return file.getvalue()


def parquet_bytes(rows: Rows) -> bytes:
    """The rows as a Parquet file. Raises StudyError if the extra `export` is not installed."""
    try:
        import pyarrow  # pyright: ignore[reportMissingImports]
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise StudyError(f"parquet needs the extra 'export' ({error}): pip install 'trio-profile[export]'") from error
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), file)
    return file.getvalue()


def _written(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
