import csv
import io
import json
import sys

import pytest

from tests.profile.command import complaint, document
from trio_profile.cli import run


def printed(capsys, *arguments: object) -> str:
    assert run(["export", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_rows_are_printed_and_written(kept, tmp_path, capsys):
    text = printed(capsys, kept, "--format", "csv")
    assert len(list(csv.DictReader(io.StringIO(text)))) == 2
    out = tmp_path / "cells.csv"
    assert printed(capsys, kept, "--out", out) == f"{out}\n"
    assert out.read_text() == text


def test_json_is_the_document_of_show(kept, capsys):
    assert json.loads(printed(capsys, kept, "--format", "json")) == document(capsys, "show", kept)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "parquet"], "parquet is no text, so it is not printed: name a file with --out"),
        (["--figure", "prefill", "--to", "png"], "png is no text"),
        (["--figure", "prefill", "--format", "csv"], "--figure takes --to and --out"),
        (["--format", "csv", "--to", "svg"], "--to is the form of a figure"),
        (["--format", "csv", "--out", "measurements.jsonl"], "is the name of a file of a study"),
        (["--format", "docx"], "'docx'"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_exit_2(arguments, says, kept, capsys, monkeypatch):
    monkeypatch.chdir(kept)
    before = (kept / "measurements.jsonl").read_bytes()
    assert says in complaint(capsys, "export", kept, *arguments)
    assert (kept / "measurements.jsonl").read_bytes() == before


def test_a_missing_extra_is_one_line(kept, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)
    assert "pip install 'trio-profile[export]'" in complaint(capsys, "export", kept, "--figure", "prefill")
