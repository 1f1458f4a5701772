import pytest

from tests.profile.command import complaint, document
from tests.profile.examples import dense, measurement, session, study
from trio_profile.cli import run
from trio_profile.records.store import Store


@pytest.fixture
def kept(tmp_path):
    """A directory that holds the measurements of a sweep."""
    store = Store(tmp_path)
    store.open(study(), session())
    for record in (dense(), measurement(retention=0.11), measurement(retention=0.55)):
        store.append(record)
    return tmp_path


def test_a_study_is_shown_and_nothing_is_written(kept, capsys):
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    for form in ([], ["--all"], ["--json"], ["--markdown"], ["--latex"]):
        assert run(["show", str(kept), *form]) == 0
        assert "llava-1.5-7b" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before


def test_all_prints_more_than_the_first_tables(kept, capsys):
    assert run(["show", str(kept)]) == 0
    short = capsys.readouterr().out
    said = f"trio-profile show {kept} --all prints every table."
    assert "".join(said.split()) in "".join(short.split())  # a line may end within it, and within the path
    assert run(["show", str(kept), "--all"]) == 0
    assert len(capsys.readouterr().out) > 1.5 * len(short)


def test_the_document_is_the_one_that_report_prints(kept, capsys):
    shown = document(capsys, "show", kept)
    reported = document(capsys, "report", kept)
    assert shown | {"report": reported["report"]} == reported


def test_a_torn_last_line_is_dropped_with_a_warning(kept, capsys):
    with (kept / "measurements.jsonl").open("ab") as file:
        file.write(b'{"record": "measurem')
    assert run(["show", str(kept)]) == 0
    assert "warning: line 6 dropped" in capsys.readouterr().err


def test_a_directory_without_a_study_is_refused_in_one_line(tmp_path, capsys):
    assert str(tmp_path) in complaint(capsys, "show", tmp_path)
