"""Several kept studies become one page."""

from pathlib import Path

import pytest

from tests.profile.documents import KEPT, keep
from tests.profile.examples import environment, measurement, study
from trio_profile.errors import StoreError, StudyError
from trio_profile.studies.side_by_side import names_of, write


@pytest.fixture
def kept(tmp_path, monkeypatch) -> list[Path]:
    """Two sweeps on two machines, and a working directory without them."""
    directories = []
    for name, device in (("first", "NVIDIA H200"), ("second", "NVIDIA A100")):
        directory = tmp_path / "runs" / name
        keep(directory, study(retentions=(0.11,)), [measurement(pairs=12)], where=environment(device_name=device))
        directories.append(directory)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return directories


def test_the_page_stands_in_the_working_directory_and_no_study_changes(kept, tmp_path):
    before = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    document, warnings = write(kept)
    assert warnings == [] and document.report == "report-first-second.html"
    text = Path("report-first-second.html").read_text()
    assert "NVIDIA H200 in first, NVIDIA A100 in second" in text and "first and second" in text
    assert {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()} == before


def test_another_file_may_be_named_and_a_foreign_one_is_kept(kept, tmp_path):
    out = tmp_path / "both" / "page.html"
    assert write(kept, out)[0].report == str(out) and out.is_file()
    write(kept, out)
    out.write_text("<title>mine</title>")
    with pytest.raises(StoreError, match="was not written by trio-profile"):
        write(kept, out)


def test_another_kind_is_refused(kept, tmp_path):
    (tmp_path / "layers").mkdir()
    KEPT["layers"](tmp_path / "layers")
    with pytest.raises(StudyError, match="layers is a study of kind 'layers'; several on a page must be sweep"):
        write([kept[0], tmp_path / "layers"])


def test_a_record_that_cannot_be_read_is_told_with_its_study(kept):
    with (kept[1] / "measurements.jsonl").open("ab") as file:
        file.write(b'{"record": "measurem')
    _, [warning] = write(kept)
    assert warning.startswith("second: line") and "dropped" in warning


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a", "runs/b"], ["a", "b"]),
        (["a/sweep", "b/sweep", "c"], ["a/sweep", "b/sweep", "c"]),
        (["x/a/sweep", "y/a/sweep"], ["x/a/sweep", "y/a/sweep"]),
    ],
)
def test_a_study_has_as_many_parts_of_its_path_as_tell_it_from_the_others(paths, names):
    assert names_of([Path(path) for path in paths]) == names


def test_the_file_of_many_studies_has_a_short_name(kept, monkeypatch):
    monkeypatch.setattr("trio_profile.studies.side_by_side._LONGEST_NAME", 8)
    assert write(kept)[0].report == "report-first-se.html"
