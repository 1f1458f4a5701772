"""Rows as CSV and as Parquet."""

import csv
import io
import sys

import pytest

from tests import needs
from trio_profile.errors import StudyError
from trio_profile.render.tabular import csv_text, parquet_bytes

ROWS = [
    {"name": 'a "b", c', "value": 0.1 + 0.2, "count": 2**53 + 1, "first": True, "missing": None},
    {"name": "x\ny", "value": 1.5e-9, "count": 3, "first": False, "missing": None},
]


def test_csv_reads_back_with_every_digit():
    text = csv_text(ROWS)
    assert text.splitlines()[0] == "name,value,count,first,missing"
    found = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in found] == [row["name"] for row in ROWS]
    assert [float(row["value"]) for row in found] == [row["value"] for row in ROWS]
    assert int(found[0]["count"]) == 2**53 + 1 and found[0]["first"] == "true" and found[0]["missing"] == ""


def test_no_rows_are_an_empty_table():
    assert csv_text([]).strip() == ""


def test_parquet_reads_back_with_types():
    parquet = needs.package("pyarrow.parquet", "export")
    table = parquet.read_table(io.BytesIO(parquet_bytes(ROWS)))
    assert table.to_pylist() == ROWS
    assert [str(field.type) for field in table.schema][:4] == ["string", "double", "int64", "bool"]


def test_without_pyarrow_parquet_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StudyError, match=r"parquet needs the extra 'export' .*pip install 'trio-profile\[export\]'"):
        parquet_bytes(ROWS)
