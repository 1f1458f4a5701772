import json

import pytest

from tests.profile.command import complaint, document
from tests.profile.examples import dense, environment, failed, measurement, study
from trio_profile.cli import run
from trio_profile.records.store import Store


@pytest.fixture
def stored(tmp_path):
    """Keeps measurements as a sweep would; the directory."""

    def keep(*measurements):
        store = Store(tmp_path)
        store.open(study(), environment())
        for record in (dense(), *measurements):
            store.append(record)
        return str(tmp_path)

    return keep


def doubtful():
    return measurement(noise=0.2, pairs=7, stopped="budget")


def test_sound_cells_pass_without_a_doubt(stored, capsys):
    directory = stored(measurement(noise=0.002), failed(retention=0.9))
    assert run(["check", directory, "--strict"]) == 0
    assert "1 cell measured, 1 failed: 0 doubted, 1 sound." in capsys.readouterr().out


def test_doubts_exit_with_1_only_if_strict_is_asked_for(stored, capsys):
    directory = stored(doubtful())
    assert run(["check", directory]) == 0
    assert "1 cell measured: 1 doubted, 0 sound." in capsys.readouterr().out
    assert run(["check", directory, "--strict"]) == 1


def test_the_json_is_one_document(stored, capsys):
    found = document(capsys, "check", stored(doubtful()))
    assert set(found) == {"format", "version", "environment", "study", "doubts"}
    assert found["environment"]["device_name"] == "NVIDIA H200"
    budget = next(doubt for doubt in found["doubts"] if doubt["kind"] == "budget")
    assert budget["cell"] == {"method": "trio", "retention": 0.11, "options": {}}
    assert budget["found"] > budget["threshold"] == found["study"]["precision"]
    assert "7 pairs" in budget["sentence"] and budget["next_step"]
    assert document(capsys, "check", stored(), "--strict", code=1) == found


def test_a_torn_last_line_is_dropped_and_said(stored, tmp_path, capsys):
    directory = stored(measurement(noise=0.002))
    with (tmp_path / "measurements.jsonl").open("ab") as file:
        file.write(b'{"record": "measurem')
    assert run(["check", directory]) == 0
    assert "warning: line 4 dropped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "holds no measurements.jsonl"), (b"", "is empty"), (b'{"a": 1}\n', "line 1"), (b"\xff\x00\n", "line 1")],
)
def test_a_directory_without_measurements_is_refused_in_one_line(content, says, tmp_path, capsys):
    if content is not None:
        (tmp_path / "measurements.jsonl").write_bytes(content)
    assert says in complaint(capsys, "check", str(tmp_path))


def test_times_that_were_edited_by_hand_are_refused_in_one_line(stored, tmp_path, capsys):
    directory = stored(measurement())
    file = tmp_path / "measurements.jsonl"
    lines = file.read_text().splitlines()
    record = json.loads(lines[-1])
    record["pairs"][0]["prefill_ms"] = 0
    file.write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")
    assert "time of 0 ms or less" in complaint(capsys, "check", directory)
