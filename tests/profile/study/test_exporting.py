"""Kept studies in other forms."""

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest

from tests.profile.kept import KEPT
from tests.profile.study.test_table_rows import ROWS
from trio_profile.errors import StudyError
from trio_profile.installation import install_command
from trio_profile.study import exporting, running
from trio_profile.study.exporting import ENDINGS, PICTURES, exported, form_of, parquet_bytes
from trio_profile.study.kinds import KINDS


@pytest.fixture
def kept(tmp_path):
    """A function that returns a directory with a small study of a kind."""

    def make(kind: str) -> Path:
        (tmp_path / kind).mkdir()
        KEPT[kind](tmp_path / kind)
        return tmp_path / kind

    return make


def text_of(directory: Path, format, **options) -> str:
    content, _ = exported(directory, format, **options)
    assert isinstance(content, str)
    return content


@pytest.mark.parametrize("kind", KEPT)
def test_every_kind_is_exported_as_text_and_as_rows(kind, kept):
    directory = kept(kind)
    assert json.loads(text_of(directory, "json")) == json.loads(running.read(directory).document.model_dump_json())
    assert text_of(directory, "md").startswith("## ")
    assert "\\section*" in text_of(directory, "latex")
    assert len(list(csv.reader(io.StringIO(text_of(directory, "csv"))))) > 1


def test_the_table_of_all_cells_comes_first_or_alone(kept):
    directory = kept("sweep")
    whole, alone = text_of(directory, "md"), text_of(directory, "md", cells=True)
    assert whole.index("Table of all cells") < whole.index("### Verdict")
    assert "Verdict" not in alone and "##" not in alone and "averaged over all decoder layers" in alone and "[" in alone
    latex = text_of(directory, "latex", cells=True)
    assert latex.count("\\begin{longtable}") == 1 and "\\section" not in latex


def test_pairs_are_rows_or_columns_of_the_document(kept):
    directory = kept("compare")
    rows = list(csv.DictReader(io.StringIO(text_of(directory, "csv", pairs=True))))
    assert len(rows) == 4 * 8 and {row["method"] for row in rows} == {"trio", "random"}
    document = json.loads(text_of(directory, "json", pairs=True))
    assert [len(cell["times"]["prefill_ms"]) for cell in document["pairs"]] == [8] * 4
    times = {ms for cell in document["pairs"] for ms in cell["times"]["prefill_ms"]}
    assert {float(row["prefill_ms"]) for row in rows} == times


REFUSED = [
    ("sweep", "md", {"pairs": True}, "--pairs takes --format csv, parquet, json, not md"),
    ("sweep", "csv", {"cells": True}, "--cells takes --format md or latex; csv holds every cell anyway"),
    ("sweep", "csv", {"pairs": True, "requests": True}, "--pairs and --requests: export one of them at a time"),
    ("sweep", "csv", {"requests": True}, "holds no requests: a study of kind 'sweep' asks no server"),
    ("layers", "csv", {"pairs": True}, "holds no pairs: kind 'layers' is not timed"),
    ("flops", "latex", {"cells": True}, "a study of kind 'flops' has no cells"),
]


@pytest.mark.parametrize(("kind", "format", "options", "says"), [case for case in REFUSED if case[0] in KINDS])
def test_what_does_not_go_together_is_refused(kind, format, options, says, kept):
    with pytest.raises(StudyError, match=says):
        exported(kept(kind), format, **options)


def test_the_end_of_a_file_s_name_says_its_form():
    assert {ending: form_of(Path(f"x{ending}"), None, ENDINGS) for ending in ENDINGS} == ENDINGS
    assert form_of(Path("x.CSV"), None, ENDINGS) == "csv"
    assert form_of(Path("x.txt"), "json", ENDINGS) == form_of(Path("x.JSON"), "json", ENDINGS) == "json"
    assert form_of(None, None, PICTURES, "svg") == form_of(Path("x"), None, PICTURES, "svg") == "svg"
    with pytest.raises(StudyError, match=r"x\.csv is named as csv, and the option says json: change one of them"):
        form_of(Path("x.csv"), "json", ENDINGS)
    for path in (None, Path("x.doc")):
        with pytest.raises(StudyError, match="names no form: choose md, latex, csv, parquet, json"):
            form_of(path, None, ENDINGS)
    with pytest.raises(StudyError, match=r"x\.jpg names no form: choose svg, pdf, png"):
        form_of(Path("x.jpg"), None, PICTURES, "svg")


def test_a_file_of_the_study_is_never_overwritten(kept):
    directory = kept("sweep")
    for name in ("measurements.jsonl", "study.toml", "report.html"):
        with pytest.raises(StudyError, match=f"{name} is the name of a file of a study: choose another --out"):
            exporting.write(directory / name, "x")
    exporting.write(directory / "cells.csv", "x")
    assert (directory / "cells.csv").read_text() == "x"


@pytest.mark.parametrize("kind", KEPT)
def test_a_page_holds_the_csv_that_export_prints(kept, kind):
    directory = kept(kind)
    page = Path(running.write_report_again(directory).document.report).read_text(encoding="utf-8")
    held = re.search(r'id="csv">(.*?)</script>', page)
    try:
        printed, _ = exported(directory, "csv")
    except StudyError:
        assert held is None
    else:
        assert held and json.loads(held[1]) == printed


# --- rows ------------------------------------------------------------------------------------------------------------


def test_parquet_reads_back_with_types():
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(parquet_bytes(ROWS)))
    assert table.to_pylist() == ROWS
    assert [str(field.type) for field in table.schema][:4] == ["string", "double", "int64", "bool"]


def test_without_pyarrow_parquet_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StudyError, match=f"parquet needs the extra 'export' .*{re.escape(install_command('export'))}$"):
        parquet_bytes(ROWS)
