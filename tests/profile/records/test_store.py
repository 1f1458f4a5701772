import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copy, rmtree

import pytest

from tests.profile.examples import dense, environment, failed, measurement, session, study
from trio_profile.errors import StoreError
from trio_profile.records.record import VERSION
from trio_profile.records.schema import Measurement, Study, TimingLine
from trio_profile.records.store import Store, to_toml


@pytest.fixture
def filled(tmp_path):
    store = Store(tmp_path / "out")
    store.open(study(), session())
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
    filled.open(study(), session(id="second"))
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
    lines[3] = b'{"record": "measurement", "cell": 5}\n'
    filled.path.write_bytes(b"".join(lines))
    contents = filled.read()
    assert len(contents.measurements) == 2
    assert contents.dropped[0].startswith("line 4 dropped: measurement.cell")


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
    assert "--out" not in str(caught.value)
    with pytest.raises(StoreError, match=rf"{says}.*; choose another --out"):
        Store(tmp_path).require(study(), environment())


def test_a_directory_without_a_study_says_how_to_make_one(tmp_path):
    with pytest.raises(StoreError, match="name a directory of `sweep`"):
        Store(tmp_path / "nothing").read()


def test_another_study_is_refused_with_the_fields_that_differ(filled):
    with pytest.raises(StoreError, match=r"another study: seed \(0 there, 1 here\)"):
        filled.open(study(seed=1), session())


def test_another_machine_is_refused_but_another_host_of_its_kind_is_not(filled):
    filled.open(study(), session(id="second", environment=environment(hostname="node-8", commit="other")))
    with pytest.raises(StoreError, match=r"another environment: torch \('2\.11\.0' there"):
        filled.open(study(), session(environment=environment(torch="2.12.0")))


def test_a_file_in_place_of_the_directory_is_refused_in_one_line(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StoreError, match="choose another --out"):
        Store(tmp_path / "out").open(study(), session())


def test_a_later_success_takes_the_place_of_a_failure(filled):
    cell = measurement("trio", 0.5).cell
    filled.append(Measurement(cell=cell, status="failed", reason="out of memory"))
    filled.append(measurement("trio", 0.5))
    found = [m for m in filled.read().measurements if m.cell == cell]
    assert [m.status for m in found] == ["done"]


def test_one_record_is_one_line(filled):
    for line in filled.path.read_text().splitlines():
        assert json.loads(line)["record"] in ("header", "session", "dense", "measurement")


# --- sessions --------------------------------------------------------------------------------------------------------


def test_every_record_names_the_session_that_wrote_it(tmp_path):
    store = Store(tmp_path)
    contents = store.open(study(), session(id="first"))
    for record in (dense().model_copy(update={"session": ""}), failed().model_copy(update={"session": ""})):
        contents.add(store.append(record))
    for found in (contents, store.read()):
        assert [one.id for one in found.sessions] == ["first"]
        assert found.dense.session == "first"
        assert found.measurements[0].session == "first"


def test_two_sessions_of_a_cell_are_timed_apart(filled):
    filled.open(study(), session(id="second"))
    cell = filled.read().measurements[0]
    timing = cell.timings[0].model_copy(update={"session": "second"})
    filled.append(TimingLine(cell=cell.cell, **dict(timing)))
    found = filled.read()
    assert [one.session for one in found.measurements[0].timings] == ["4c1f09aa", "second"]
    assert len(found.measurements[0].pairs) == 2 * len(cell.pairs)


# --- versions --------------------------------------------------------------------------------------------------------

PUBLISHED = Path(__file__).parents[1] / "data"
"""By version of the format: a study of each kind, as that version wrote it."""


def test_a_store_of_version_1_is_read_whole():
    contents = Store(PUBLISHED / "version-1" / "sweep").read()
    assert contents.dropped == []
    assert contents.version == 1
    assert [one.id for one in contents.sessions] == [""]
    [cell] = contents.measurements
    assert cell.status == "done" and cell.timings[0].session == "" and len(cell.pairs) >= 6
    assert contents.environment.commit == "de2341e"


def test_a_store_of_version_1_goes_on_under_a_header_of_this_version(tmp_path):
    copy(PUBLISHED / "version-1" / "sweep" / "measurements.jsonl", tmp_path)
    store = Store(tmp_path)
    old = store.read()
    for name in ("second", "third"):
        store.open(old.study, session(id=name, environment=old.environment))
    found = store.read()
    assert (found.version, found.dropped) == (VERSION, [])
    assert [one.id for one in found.sessions] == ["", "second", "third"]
    assert found.measurements == old.measurements
    headers = [line for line in store.path.read_text().splitlines() if line.startswith('{"record":"header"')]
    assert len(headers) == 2


def newer(directory, version):
    """A store that a later version wrote: a further field in every record at every depth, and a further record."""
    store = Store(directory)
    store.open(study(), session())
    for record in (dense(), measurement("trio", 0.11), failed("trio", 0.22)):
        store.append(record)
    lines = [json.loads(line) for line in store.path.read_text().splitlines()]
    lines[0]["version"] = version
    for line in lines:
        line["further"] = {"a": [1]}
    lines[1]["environment"]["further"] = "x"
    lines[3]["timings"][0]["pairs"][0]["further"] = 2.5
    lines.insert(2, {"record": "worker", "id": 3})
    store.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return store


def test_further_fields_and_records_of_a_newer_minor_version_are_ignored(tmp_path):
    contents = newer(tmp_path, "1.99").read()
    assert contents.dropped == []
    assert contents.dense == dense()
    assert [cell.status for cell in contents.measurements] == ["done", "failed"]


def test_a_store_of_a_newer_minor_version_is_read_but_not_continued(tmp_path):
    store = newer(tmp_path, "1.99")
    before = store.path.read_bytes()
    with pytest.raises(
        StoreError, match=r"newer format 1\.99, which can only be read: upgrade trio-profile, or choose"
    ):
        store.open(study(), session(id="second"))
    assert store.path.read_bytes() == before


def test_an_old_store_is_continued_although_its_wait_policy_is_not_known(tmp_path):
    old = environment(wait_policy="", allocator="")
    store = Store(tmp_path)
    store.open(study(), session(environment=old))
    passive = environment(wait_policy="passive")
    assert len(store.open(study(), session(id="second", environment=passive)).sessions) == 2
    assert store.read().dropped == []
    with pytest.raises(StoreError, match=r"another environment: wait_policy \('passive' there"):
        store.require(study(), environment(wait_policy="active"))


def test_times_without_a_session_get_the_one_that_writes(tmp_path):
    store = Store(tmp_path)
    store.open(study(), session(id="first"))
    cell = measurement().model_copy(update={"session": "first", "status": "counted", "timings": ()})
    store.append(cell)
    store.append(TimingLine(cell=cell.cell, **{**dict(measurement().timings[0]), "session": ""}))
    assert [one.session for one in store.read().measurements[0].timings] == ["first"]


def test_a_newer_major_version_is_refused(tmp_path):
    with pytest.raises(StoreError, match=rf"line 1: format version 2\.0 is newer than {VERSION}: upgrade trio-profile"):
        newer(tmp_path, "2.0").read()


def test_further_fields_of_this_version_are_a_mistake(tmp_path):
    with pytest.raises(StoreError, match=r"line 1: header\.further: Extra inputs are not permitted"):
        newer(tmp_path, VERSION).read()


def test_two_studies_in_one_file_are_refused(filled, tmp_path):
    other = Store(tmp_path / "other")
    other.open(study(seed=1), session())
    filled.path.write_bytes(filled.path.read_bytes() + other.path.read_bytes())
    with pytest.raises(StoreError, match="line 7: a second study begins here, and one file holds one study"):
        filled.read()


# --- disks and directories -------------------------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_the_same_study_goes_on_afterwards(filled, monkeypatch):
    before = filled.path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(
            StoreError, match="No space left on device; free some space, then run the same command again"
        ):
            filled.append(measurement("trio", 0.44))
    assert filled.path.read_bytes() == before
    filled.append(measurement("trio", 0.44))
    assert len(filled.read().measurements) == 4
    assert filled.read().dropped == []


def test_a_file_that_may_not_grow_loses_no_line(filled):
    """The limit on the size of files is met in the middle of a line, as the end of a disk is."""
    size = filled.path.stat().st_size
    code = (
        "import resource, sys; from pathlib import Path; from tests.profile.examples import measurement;"
        "from trio_profile.errors import StoreError; from trio_profile.records.store import Store;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 500}, {size + 500}));"
        "store = Store(Path(sys.argv[1]))\n"
        "try: store.append(measurement('trio', 0.44))\n"
        "except StoreError as error: print(error)"
    )
    root = Path(__file__).parents[3]
    run = subprocess.run(
        [sys.executable, "-c", code, filled.directory], capture_output=True, text=True, cwd=root, check=True
    )
    assert "File too large; finished cells are kept, and the same command goes on" in run.stdout
    assert filled.path.stat().st_size == size


def test_a_directory_that_is_removed_while_measuring_is_one_line(filled):
    rmtree(filled.directory)
    with pytest.raises(StoreError, match=r"was removed while the study ran: run the same command again"):
        filled.append(measurement("trio", 0.44))
    assert not filled.directory.exists()
    assert filled.open(study(), session()).measurements == []


@pytest.mark.parametrize("length", [0, 1, 10, 40, 100])
def test_a_header_that_is_cut_off_is_a_study_that_begins_anew(filled, length):
    filled.path.write_bytes(filled.path.read_bytes()[:length])
    with pytest.raises(StoreError, match="so nothing was measured: run the same command again"):
        filled.read()
    assert not filled.exists()
    assert filled.open(study(), session()).measurements == []
    assert filled.read().dropped == []


def test_a_foreign_file_is_not_taken_for_a_header_that_is_cut_off(tmp_path):
    (tmp_path / "measurements.jsonl").write_bytes(b"my notes")
    with pytest.raises(StoreError, match="choose another --out"):
        Store(tmp_path).open(study(), session())
    assert (tmp_path / "measurements.jsonl").read_bytes() == b"my notes"


@pytest.mark.parametrize(("kind", "make"), [("a directory", os.mkdir), ("a pipe", os.mkfifo)])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind, make):
    make(tmp_path / "measurements.jsonl")
    for use in (lambda store: store.read(), lambda store: store.open(study(), session())):
        with pytest.raises(StoreError, match=f"measurements.jsonl is {kind}, not a regular file"):
            use(Store(tmp_path))


def test_a_study_file_that_is_missing_is_written_again(filled):
    (filled.directory / "study.toml").unlink()
    filled.open(study(), session(id="second"))
    assert (filled.directory / "study.toml").read_text() == to_toml(study())
