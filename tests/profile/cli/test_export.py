import csv
import io
import sys

import pytest

from tests.profile.command import complaint
from trio_profile.cli import run
from trio_profile.installation import install_command


def printed(capsys, *arguments: object) -> str:
    assert run(["export", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_rows_are_printed_and_written(kept, tmp_path, capsys):
    text = printed(capsys, kept, "--format", "csv")
    assert len(list(csv.DictReader(io.StringIO(text)))) == 2
    out = tmp_path / "cells.csv"
    assert printed(capsys, kept, "--out", out) == f"{out}\n"
    assert out.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "parquet"], "parquet is no text, so it is not printed: name a file with --out"),
        (["--figure", "prefill", "--format", "csv"], "--figure takes --out, not --format"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_exit_2(arguments, says, kept, capsys):
    assert says in complaint(capsys, "export", kept, *arguments)


def test_a_missing_extra_is_one_line(kept, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)
    assert install_command("export") in complaint(capsys, "export", kept, "--figure", "prefill")
