import json

import pytest

from tests.profile.command import complaint, document
from tests.profile.documents import keep
from tests.profile.examples import failed, in_processes, measurement, study
from trio_profile.cli import run


@pytest.fixture
def stored(tmp_path):
    """Keeps measurements as a sweep would; the directory."""

    return lambda *measurements: str(keep(tmp_path, study(), measurements).directory)


def doubtful():
    return in_processes(measurement(noise=0.2, pairs=7, stopped="budget"), 1)


def test_sound_cells_pass_without_a_doubt(stored, capsys):
    directory = stored(in_processes(measurement(noise=0.002)), failed(retention=0.9))
    assert run(["check", directory, "--strict"]) == 0
    assert "1 cell measured, 1 failed. No cell is doubted." in capsys.readouterr().out


def test_a_built_in_model_has_its_banner(stored, capsys):
    assert run(["check", stored(measurement(noise=0.002))]) == 0
    assert "The weights of llava-1.5-7b are random numbers." in capsys.readouterr().out


def test_doubts_exit_with_1_only_if_strict_is_asked_for(stored, capsys):
    directory = stored(doubtful())
    assert run(["check", directory]) == 0
    printed = capsys.readouterr().out
    assert "1 cell measured. Doubts about single cells: 1 of 1 (" in printed
    assert "Doubts about the whole study: " in " ".join(printed.split())
    assert run(["check", directory, "--strict"]) == 1


def test_the_json_is_one_document(stored, capsys):
    directory = stored(doubtful())
    found = document(capsys, "check", directory)
    assert set(found) == {"format", "version", "sessions", "environment", "study", "doubts"}
    assert found["environment"]["device_name"] == "NVIDIA H200"
    budget = next(doubt for doubt in found["doubts"] if doubt["kind"] == "budget")
    assert budget["cell"] == {"method": "trio", "retention": 0.11, "options": {}}
    assert budget["found"] > budget["threshold"] == found["study"]["precision"]
    assert "7 pairs" in budget["sentence"] and budget["next_step"]
    assert document(capsys, "check", directory, "--strict", code=1) == found


def test_a_torn_last_line_is_dropped_and_said(stored, tmp_path, capsys):
    directory = stored(measurement(noise=0.002))
    with (tmp_path / "measurements.jsonl").open("ab") as file:
        file.write(b'{"record": "measurem')
    assert run(["check", directory]) == 0
    assert "warning: line 5 dropped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "holds no measurements.jsonl"), (b"", "is empty"), (b'{"a": 1}\n', "line 1"), (b"\xff\x00\n", "line 1")],
)
def test_a_directory_without_measurements_is_refused_in_one_line(content, says, tmp_path, capsys):
    if content is not None:
        (tmp_path / "measurements.jsonl").write_bytes(content)
    assert says in complaint(capsys, "check", str(tmp_path))


def test_a_cell_with_a_time_of_zero_is_dropped_by_line_and_field(stored, tmp_path, capsys):
    directory = stored(measurement())
    file = tmp_path / "measurements.jsonl"
    lines = file.read_text().splitlines()
    record = json.loads(lines[-1])
    record["timings"][0]["pairs"][0]["prefill_ms"] = 0
    file.write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")
    assert run(["check", directory]) == 0
    assert "line 4 dropped: measurement.timings.0.pairs.0.prefill_ms: " in capsys.readouterr().err
