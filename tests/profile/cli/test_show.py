import pytest

from tests.profile.command import complaint, document
from tests.profile.documents import keep
from tests.profile.examples import in_processes, measurement, study
from trio_profile.cli import run
from trio_profile.records.study import Study


def test_a_study_is_shown_and_nothing_is_written(kept, capsys):
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    for form in ([], ["--all"], ["--json"], ["--markdown"], ["--latex"]):
        assert run(["show", str(kept), *form]) == 0
        assert "llava-1.5-7b" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before


def test_a_sweep_is_shown_in_40_lines_with_its_verdict_its_table_and_its_break_even(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    cells = [in_processes(measurement(retention=retention, noise=0.01, pairs=12)) for retention in Study().retentions]
    directory = keep(tmp_path, study(retentions=Study().retentions), cells).directory
    monkeypatch.chdir(directory.parent)  # the last lines name the directory, and a temporary one has a long name
    assert run(["show", directory.name]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) <= 40, printed
    for part in ("prefill is", "11.0 %", "99.0 %", "Break-even", "--all prints every table"):
        assert part in " ".join(printed.split())


# --- what is doubtful ------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    """Keeps measurements as a sweep would; the directory."""

    return lambda *measurements: str(keep(tmp_path, study(), measurements).directory)


def doubtful():
    """A cell with too few rounds, in one process."""
    return in_processes(measurement(pairs=5), 1)


def test_doubts_exit_with_1_only_if_strict_is_asked_for(stored, tmp_path, capsys):
    sound = keep(tmp_path / "sound", study(), [in_processes(measurement(noise=0.002))]).directory
    assert run(["show", "--doubts", str(sound), "--strict"]) == 0
    directory = stored(doubtful())
    assert run(["show", "--doubts", directory]) == 0
    printed = capsys.readouterr().out
    assert "1 cell measured. 2 doubts are about the whole study." in printed
    assert run(["show", "--doubts", directory, "--strict"]) == 1


def test_the_json_is_one_document(stored, capsys):
    directory = stored(doubtful())
    found = document(capsys, "show", "--doubts", directory)
    assert set(found) == {"format", "version", "sessions", "environment", "study", "doubts"}
    assert found["environment"]["device_name"] == "NVIDIA H200"
    rounds = next(doubt for doubt in found["doubts"] if doubt["kind"] == "rounds")
    assert rounds["cell"] is None
    assert (rounds["found"], rounds["threshold"]) == (5, 6)
    assert "5 rounds" in rounds["sentence"] and rounds["next_step"]
    assert document(capsys, "show", "--doubts", directory, "--strict", code=1) == found


def test_a_directory_without_measurements_is_refused_in_one_line(tmp_path, capsys):
    assert "holds no measurements.jsonl" in complaint(capsys, "show", "--doubts", tmp_path)
