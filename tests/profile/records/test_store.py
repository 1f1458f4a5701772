import json

import pytest

from tests.profile.examples import dense, environment, measurement, study
from trio_profile.errors import StoreError
from trio_profile.records.schema import Measurement, Study
from trio_profile.records.store import Store, to_toml


@pytest.fixture
def filled(tmp_path):
    store = Store(tmp_path / "out")
    store.open(study(), environment())
    store.append(dense())
    for retention in (0.11, 0.22, 0.33):
        store.append(measurement("trio", retention))
    return store


def test_what_was_written_is_read(filled):
    contents = filled.read()
    assert contents.study == study()
    assert contents.environment == environment()
    assert contents.dense == dense()
    assert contents.measurements == [measurement("trio", r) for r in (0.11, 0.22, 0.33)]
    assert contents.dropped == []


def test_study_toml_stands_beside_it_and_reads_back(filled):
    import tomllib

    assert Study(**tomllib.loads((filled.directory / "study.toml").read_text())) == study()
    assert to_toml(study()) == (filled.directory / "study.toml").read_text()


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_kill_loses_at_most_the_last_line(filled, cut):
    data = filled.path.read_bytes()
    filled.path.write_bytes(data[:-cut])
    contents = filled.read()
    whole = 3 if cut == 1 else 2  # the newline alone is no loss
    assert len(contents.measurements) == whole
    assert len(contents.dropped) == 3 - whole
    filled.open(study(), environment())
    filled.append(measurement("trio", 0.44))
    assert [m.cell.retention for m in filled.read().measurements][-1] == 0.44
    assert len(filled.read().measurements) == whole + 1


def test_every_truncation_is_read_or_refused_in_one_line(filled):
    data = filled.path.read_bytes()
    for length in range(0, len(data), 97):
        filled.path.write_bytes(data[:length])
        try:
            filled.read()
        except StoreError as error:
            assert "\n" not in str(error)


def test_a_damaged_line_in_the_middle_is_dropped_and_said(filled):
    lines = filled.path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"record": "measurement", "cell": 5}\n'
    filled.path.write_bytes(b"".join(lines))
    contents = filled.read()
    assert len(contents.measurements) == 2
    assert contents.dropped[0].startswith("line 3 dropped: measurement.cell")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[1, 2]\n", "not a record"),
        (b'{"record": ["header"]}\n', "not a record"),
        (b'{"hello": "world"}\n', "not a record"),
        (b'{"record": "header", "format": "other", "version": 1}\n', "header.format"),
        (b'{"record": "header", "format": "trio-profile", "version": 99}\n', "newer"),
    ],
)
def test_a_foreign_file_is_refused_by_name(tmp_path, content, says):
    (tmp_path / "measurements.jsonl").write_bytes(content)
    with pytest.raises(StoreError, match=says) as caught:
        Store(tmp_path).read()
    assert "\n" not in str(caught.value)
    assert "--out" in str(caught.value)


def test_a_directory_without_a_study_says_how_to_make_one(tmp_path):
    with pytest.raises(StoreError, match="name a directory of `sweep`"):
        Store(tmp_path / "nothing").read()


def test_another_study_is_refused_with_the_fields_that_differ(filled):
    with pytest.raises(StoreError, match=r"another study: seed \(0 there, 1 here\)"):
        filled.open(study(seed=1), environment())


def test_another_machine_is_refused_but_another_host_of_its_kind_is_not(filled):
    filled.open(study(), environment(hostname="node-8", commit="other"))
    with pytest.raises(StoreError, match=r"another environment: torch \('2\.11\.0' there"):
        filled.open(study(), environment(torch="2.12.0"))


def test_a_file_in_place_of_the_directory_is_refused_in_one_line(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StoreError, match="choose another --out"):
        Store(tmp_path / "out").open(study(), environment())


def test_a_later_success_takes_the_place_of_a_failure(filled):
    cell = measurement("trio", 0.5).cell
    filled.append(Measurement(cell=cell, status="failed", reason="out of memory"))
    filled.append(measurement("trio", 0.5))
    found = [m for m in filled.read().measurements if m.cell == cell]
    assert [m.status for m in found] == ["done"]


def test_one_record_is_one_line(filled):
    for line in filled.path.read_text().splitlines():
        assert json.loads(line)["record"] in ("header", "dense", "measurement")
