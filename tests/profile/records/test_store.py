import errno
import json
import os
from shutil import rmtree

import pytest

from tests.profile.examples import counted, dense, environment, failed, measurement, rounds_of, session, study
from trio_profile.errors import StoreError
from trio_profile.records.schema import Measurement, Picture
from trio_profile.records.store import Store, to_toml
from trio_profile.records.timing import timings_of


def cell(retention: float) -> Measurement:
    """A cell of two rounds of prefills and one of generations."""
    return measurement("trio", retention, pairs=2)


def fill(store: Store, *cells: Measurement) -> None:
    """Write the counts of each cell and its rounds."""
    for one in cells:
        for record in (counted(one), *rounds_of(one)):
            store.append(record)


@pytest.fixture
def filled(tmp_path):
    store = Store(tmp_path / "out")
    store.open(study(), session())
    store.append(dense())
    fill(store, cell(0.11), cell(0.22), cell(0.33))
    return store


def test_what_was_written_is_read(filled):
    contents = filled.read()
    assert contents.study == study()
    assert contents.environment == environment()
    assert contents.dense == dense()
    assert contents.rounds == rounds_of(cell(0.11), cell(0.22), cell(0.33))
    timings = timings_of(contents.rounds)
    assert [one.timings for one in contents.measurements] == [timings[one.cell.id] for one in contents.measurements]
    assert [counted(one) for one in contents.measurements] == [counted(cell(r)) for r in (0.11, 0.22, 0.33)]
    assert contents.dropped == []


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_kill_loses_at_most_the_last_line(filled, cut):
    data = filled.path.read_bytes()
    filled.path.write_bytes(data[:-cut])
    contents = filled.read()
    whole = 9 if cut == 1 else 8  # the newline alone is no loss
    assert (len(contents.rounds), len(contents.dropped)) == (whole, 9 - whole)
    filled.open(study(), session(id="second"))
    fill(filled, cell(0.44))
    assert [m.cell.retention for m in filled.read().measurements] == [0.11, 0.22, 0.33, 0.44]
    assert len(filled.read().rounds) == whole + 3


def test_every_truncation_is_read_or_refused_in_one_line(filled):
    data = filled.path.read_bytes()
    for length in range(0, len(data), 197):
        filled.path.write_bytes(data[:length])
        try:
            filled.read()
        except StoreError as error:
            assert "\n" not in str(error)


def test_a_damaged_line_in_the_middle_is_dropped_and_said(filled):
    lines = filled.path.read_bytes().splitlines(keepends=True)
    lines[3] = b'{"record": "measurement", "cell": 5}\n'
    filled.path.write_bytes(b"".join(lines))
    contents = filled.read()
    assert [one.cell.retention for one in contents.measurements] == [0.22, 0.33]
    assert contents.dropped[0].startswith("line 4 dropped: measurement.cell")
    assert len(contents.dropped) == 4  # the rounds of this cell have no counts


def test_a_foreign_file_is_refused_by_name_and_stays(tmp_path):
    for content, says in (
        (b"\xff\xfe\x00", "not JSON"),
        (b"my notes", "not JSON"),
        (b"[1, 2]\n", "not a record"),
        (b'{"hello": "world"}\n', "not a record"),
        (b'{"record": "header", "format": "other", "version": "2.0"}\n', "header.format"),
        (b'{"record": "header", "format": "trio-profile", "version": "99.0"}\n', "newer"),
    ):
        (tmp_path / "measurements.jsonl").write_bytes(content)
        with pytest.raises(StoreError, match=says) as caught:
            Store(tmp_path).read()
        assert "\n" not in str(caught.value)
        assert "--out" not in str(caught.value)
        with pytest.raises(StoreError, match=rf"{says}.*; choose another --out"):
            Store(tmp_path).open(study(), session())
        assert (tmp_path / "measurements.jsonl").read_bytes() == content


def test_another_study_or_machine_is_refused_but_another_host_of_its_kind_is_not(filled):
    with pytest.raises(StoreError, match=r"another study: seed \(0 there, 1 here\)"):
        filled.open(study(seed=1), session())
    filled.open(study(), session(id="second", environment=environment(hostname="node-8", commit="other")))
    with pytest.raises(StoreError, match=r"another environment: torch \('2\.11\.0' there"):
        filled.open(study(), session(environment=environment(torch="2.12.0")))


def test_a_study_may_be_measured_longer_but_is_the_same_study(filled):
    for longer in (study(seconds=90), study(seconds=90, precision=0.01), study(processes=3)):
        assert filled.open(longer, session(id=f"{longer.seconds}{longer.processes}{longer.precision}")).rounds
        assert filled.read().study == longer and filled.read().dropped == []
        assert (filled.directory / "study.toml").read_text() == to_toml(longer)
    assert len(filled.read().measurements) == 3


def test_a_later_success_takes_the_place_of_a_failure(filled):
    filled.append(failed("trio", 0.5))
    fill(filled, cell(0.5))
    found = [m for m in filled.read().measurements if m.cell == cell(0.5).cell]
    assert [(m.status, m.reason) for m in found] == [("done", None)]


# --- sessions --------------------------------------------------------------------------------------------------------


def test_every_record_names_the_session_that_wrote_it(tmp_path):
    store = Store(tmp_path)
    contents = store.open(study(), session(id="first"))
    for record in (dense(), failed(), Picture(visual_tokens=4)):
        contents.add(*store.append(record.model_copy(update={"session": ""})))
    for found in (contents, store.read()):
        assert [one.id for one in found.sessions] == ["first"]
        assert {found.dense.session, found.measurements[0].session, found.picture.session} == {"first"}


# --- versions --------------------------------------------------------------------------------------------------------


def newer(directory):
    """A store that a later version wrote: a further field in every record at every depth, and a further record."""
    store = Store(directory)
    store.open(study(), session())
    store.append(dense())
    fill(store, cell(0.11))
    store.append(failed("trio", 0.22))
    lines = [json.loads(line) for line in store.path.read_text().splitlines()]
    lines[0]["version"] = "2.99"
    for line in lines:
        line["newer"] = {"a": [1]}
    lines[1]["environment"]["newer"] = "x"
    lines[4]["runs"][0]["newer"] = 2.5
    lines.insert(2, {"record": "worker", "id": 3})
    store.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return store


def test_a_store_of_a_newer_minor_version_is_read_without_what_is_new_but_not_continued(tmp_path):
    store = newer(tmp_path)
    contents, before = store.read(), store.path.read_bytes()
    assert contents.dropped == []
    assert contents.dense == dense()
    assert [cell.status for cell in contents.measurements] == ["done", "failed"]
    with pytest.raises(StoreError, match=r"newer format 2\.99, which can only be read: upgrade trio-profile"):
        store.open(study(), session(id="second"))
    assert store.path.read_bytes() == before


def test_two_studies_in_one_file_are_refused(filled, tmp_path):
    other = Store(tmp_path / "other")
    other.open(study(seed=1), session())
    filled.path.write_bytes(filled.path.read_bytes() + other.path.read_bytes())
    with pytest.raises(StoreError, match="line 16: a second study begins here, and one file holds one study"):
        filled.read()


# --- disks and directories -------------------------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_the_same_study_goes_on_afterwards(filled, monkeypatch):
    before = filled.path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device; free some space, then run the same"):
            filled.append(counted(cell(0.44)))
    assert filled.path.read_bytes() == before
    fill(filled, cell(0.44))
    assert len(filled.read().measurements) == 4
    assert filled.read().dropped == []


def test_a_directory_that_is_removed_while_measuring_is_one_line(filled):
    rmtree(filled.directory)
    with pytest.raises(StoreError, match=r"was removed while the study ran: run the same command again"):
        filled.append(measurement("trio", 0.44))
    assert not filled.directory.exists()
    assert filled.open(study(), session()).measurements == []


def test_an_empty_file_is_a_study_that_begins_anew(filled):
    filled.path.write_bytes(b"")
    with pytest.raises(StoreError, match=r"holds no measurements\.jsonl"):
        filled.read()
    assert not filled.exists()
    assert filled.open(study(), session()).measurements == []
    assert filled.read().dropped == []
