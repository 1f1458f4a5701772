"""Which runs a worker may claim, and in which order."""

import os

import pytest

from tests.profile.examples import study
from trio_profile.records.leases import Leases
from trio_profile.records.run import DENSE, Run, RunKey
from trio_profile.records.schema import Session
from trio_profile.records.workers import WorkerFile
from trio_profile.studies.board import Board, Claim
from tests.profile.examples import environment

ASKED = study(methods=("trio", "random"), retentions=(0.11, 0.33))


class Workers:
    """Workers on one directory. They finish their runs at once."""

    def __init__(self, directory, processes: int = 2):
        self.directory, self.processes = directory, processes

    def board(self, name: str) -> Board:
        return Board(ASKED, self.directory, Leases(self.directory, name), self.processes)

    def finish(self, name: str, claim: Claim, failed: str | None = None) -> None:
        file, session = WorkerFile(self.directory, name), f"session-{name}"
        file.open(ASKED, Session(id=session, environment=environment()))
        run = Run(
            block=claim.key.block,
            number=claim.key.number,
            attempt=claim.attempt,
            worker=name,
            session=session,
            failed=failed,
        )
        file.append([], run)


@pytest.fixture
def workers(tmp_path) -> Workers:
    return Workers(tmp_path)


def test_the_dense_model_comes_first_then_the_longest_block(workers):
    board = workers.board("one")
    claimed = [board.claim("count") for _ in range(4)]
    assert [claim and claim.key for claim in claimed] == [
        RunKey(DENSE, 0),
        RunKey("at-0.33", 0),
        RunKey("at-0.11", 0),
        None,
    ]


def test_a_block_is_timed_after_it_is_counted_and_once_in_a_process(workers):
    board = workers.board("one")
    assert board.claim("time") is None
    while (claim := board.claim("count")) is not None:
        workers.finish("one", claim)
    timed, names = set[str](), []
    while (claim := board.claim("time", timed)) is not None:
        timed.add(claim.key.block)
        names.append(str(claim.key))
        workers.finish("one", claim)
    assert names == ["at-0.33.1", "at-0.11.1"]
    assert not board.is_finished and board.free("time")
    while (claim := board.claim("time")) is not None:
        workers.finish("one", claim)
    board.look()
    assert board.is_finished


def test_a_study_of_one_process_is_counted_and_timed_in_it(tmp_path):
    workers = Workers(tmp_path, processes=1)
    board = workers.board("one")
    assert board.claim("count") is None
    keys = [claim.key for claim in iter(lambda: board.claim("time"), None)]
    assert keys == [RunKey(DENSE, 0), RunKey("at-0.33", 1), RunKey("at-0.11", 1)]


def test_two_workers_never_have_the_same_run(workers):
    one, two = workers.board("one"), workers.board("two")
    claims = [board.claim("count") for board in (one, two, one, two)]
    assert sorted(str(claim.key) for claim in claims if claim) == ["at-0.11.0", "at-0.33.0", "dense.0"]


def test_a_run_goes_back_three_times_and_is_then_given_up(workers):
    board = workers.board("one")
    for attempt in (1, 2, 3):
        claim = board.claim("count")
        assert claim == Claim(RunKey(DENSE, 0), attempt, None)
        board.leases.fail(str(claim.key), claim.attempt, f"fault {attempt}")
    claim = board.claim("count")
    assert claim == Claim(RunKey(DENSE, 0), 4, "given up after 3 attempts; the last one, by one: fault 3")


def test_the_run_of_a_silent_worker_goes_to_another(workers):
    one, two = workers.board("one"), workers.board("two")
    lost = one.claim("count")
    assert lost is not None
    path = one.leases.directory / f"{lost.key}.1"
    os.utime(path, (path.stat().st_mtime - 100,) * 2)
    assert two.claim("count") == Claim(lost.key, 2, None)
    workers.finish("one", lost)  # it was only slow
    two.look()
    assert lost.key in two.done
