"""The files of several workers, read as one store: each run once, as a whole or not at all."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.profile import examples
from tests.profile.examples import dense, environment, study
from tests.profile.working import Worker
from trio_profile.errors import StoreError
from trio_profile.records.contents import Contents
from trio_profile.records.leases import LEASES
from trio_profile.records.run import DENSE
from trio_profile.records.schema import Measurement, Round, Session
from trio_profile.records.store import Store
from trio_profile.records.workers import FIRST, agree, first_session, worker_file, worker_files

ASKED = study(retentions=(0.11, 0.33))


def counted(retention: float) -> Measurement:
    return examples.counted(examples.measurement(retention=retention)).model_copy(update={"session": ""})


FAILED = counted(0.11).model_copy(update={"status": "failed", "reason": "out of memory"})


def times(retention: float) -> list[Round]:
    """Two rounds of a cell, in the session that writes them."""
    cell = examples.measurement(retention=retention, pairs=1)
    return [one.model_copy(update={"session": ""}) for one in examples.rounds_of(cell)]


def read(directory) -> Contents:
    return Store(directory).read()


def runs(contents: Contents) -> list[str]:
    return [f"{run.key} {run.worker} {run.attempt}" for run in contents.runs]


@pytest.fixture
def two(tmp_path):
    """Two workers have shared the counts; the second began its file first."""
    second, first = Worker(tmp_path, "b", ASKED), Worker(tmp_path, "a", ASKED)
    first.keep(DENSE, 0, dense().model_copy(update={"session": ""}))
    first.keep("cells-1", 0, counted(0.11))
    second.keep("cells-2", 0, counted(0.33))
    return first, second


def test_the_files_are_one_store(tmp_path, two):
    first, second = two
    second.keep("cells-1", 1, *times(0.11))
    first.keep("cells-2", 1, *times(0.33))
    first.keep("cells-1", 2, *times(0.11))
    found = read(tmp_path)
    assert found.dropped == []
    assert found.dense is not None
    assert {cell.cell.retention: len(cell.timings) for cell in found.cells.values()} == {0.11: 2, 0.33: 1}
    assert runs(found) == [
        "dense.0 a 1",
        "cells-1.0 a 1",
        "cells-2.0 b 1",
        "cells-1.1 b 1",
        "cells-2.1 a 1",
        "cells-1.2 a 1",
    ]
    assert {session.id for session in found.sessions} == {"s-a", "s-b"}
    assert Store(tmp_path).exists()


def test_a_run_that_two_workers_measured_counts_once(tmp_path, two):
    """The first attempt was taken for dead, and yet it ended."""
    first, second = two
    second.keep("cells-1", 1, *times(0.11), attempt=2)
    first.keep("cells-1", 1, *times(0.11), attempt=1)
    found = read(tmp_path)
    (kept,) = found.cells[counted(0.11).cell.id].timings
    assert kept.session == "s-a"
    assert "cells-1.1 a 1" in runs(found)
    assert "cells-1.1 b 2" not in runs(found)


def test_a_measured_run_counts_more_than_one_that_was_given_up(tmp_path, two):
    first, second = two
    first.keep("cells-1", 1, FAILED, attempt=4, failed="given up")
    assert read(tmp_path).cells[FAILED.cell.id].status == "failed"
    second.keep("cells-1", 1, *times(0.11), attempt=5)
    assert read(tmp_path).cells[FAILED.cell.id].status == "done"


@pytest.mark.parametrize("failing", [1, 2])
def test_a_cell_that_failed_in_one_process_keeps_the_times_of_the_others(tmp_path, two, failing):
    first, _ = two
    for number in (1, 2):
        first.keep("cells-1", number, *([FAILED] if number == failing else times(0.11)))
    found = read(tmp_path)
    cell = found.cells[FAILED.cell.id]
    assert (found.dropped, cell.status, cell.reason, len(cell.timings)) == ([], "done", "out of memory", 1)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_a_run_that_was_cut_off_does_not_count(tmp_path, two, share):
    _, second = two
    whole = second.file.path.read_bytes()
    second.keep("cells-1", 1, *times(0.11))
    longer = second.file.path.read_bytes()
    second.file.path.write_bytes(longer[: len(whole) + round(share * (len(longer) - len(whole)))])
    assert all(not cell.timings for cell in read(tmp_path).cells.values())
    again = Worker(tmp_path, "c", ASKED)
    again.keep("cells-1", 1, *times(0.11), attempt=2)
    assert len(read(tmp_path).cells[counted(0.11).cell.id].timings) == 1
    # The same worker goes on after the cut line.
    Worker(tmp_path, "b", ASKED, "s-later").keep("cells-2", 1, *times(0.33))
    assert len(read(tmp_path).cells[counted(0.33).cell.id].timings) == 1


def test_unlike_machines_are_not_pooled(tmp_path, two):
    stranger = Worker(tmp_path, "z", ASKED, device_name="another GPU")
    stranger.keep("cells-1", 1, *times(0.11))
    found = read(tmp_path)
    assert all(not cell.timings for cell in found.cells.values())
    assert any("another kind of machine" in text for text in found.dropped)
    assert "cells-1.1 z 1" not in runs(found)


def test_of_sessions_that_begin_together_one_is_the_first(tmp_path):
    sessions = [Session(id=f"s{number}", environment=environment()) for number in range(16)]
    with ThreadPoolExecutor(16) as pool:
        agreed = list(pool.map(lambda session: agree(tmp_path, session), sessions))
    assert len({session.id for session in agreed}) == 1
    assert first_session(tmp_path) == agreed[0]
    assert [path.name for path in (tmp_path / LEASES).iterdir()] == [FIRST]


def test_measurements_are_compared_with_the_first_session_that_began(tmp_path, two):
    """Also if it has finished nothing yet."""
    agree(tmp_path, Session(id="first", environment=environment(device_name="another GPU")))
    found = read(tmp_path)
    assert found.cells == {}
    assert len(found.dropped) == 2


def test_a_file_of_the_first_session_that_says_nothing_is_refused(tmp_path, two):
    (tmp_path / LEASES).mkdir()
    (tmp_path / LEASES / FIRST).write_text("{")
    with pytest.raises(StoreError, match="cannot be read: remove it"):
        read(tmp_path)


def test_files_of_two_studies_are_refused(tmp_path, two):
    Worker(tmp_path, "z", study(retentions=(0.5,))).keep(DENSE, 0, dense().model_copy(update={"session": ""}))
    with pytest.raises(StoreError, match="are of two studies"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "a b", "ä", "x" * 81])
def test_a_worker_has_a_name_that_any_file_can_have(tmp_path, name):
    with pytest.raises(StoreError, match="a name has up to 80 letters"):
        worker_file(tmp_path, name)


def test_an_empty_file_holds_nothing(tmp_path):
    worker_file(tmp_path, "a").touch()
    assert worker_files(tmp_path) == []
    assert not Store(tmp_path).exists()
