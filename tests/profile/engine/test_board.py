"""Which runs a worker may claim, and in which order."""

import os

import pytest

from tests.profile.examples import environment, study
from tests.profile.working import Worker
from trio_profile.engine.board import Board, Claim
from trio_profile.errors import StoreError
from trio_profile.records.leases import Leases
from trio_profile.records.run import DENSE, RunKey
from trio_profile.records.schema import Session
from trio_profile.records.workers import Measured, agree

ASKED = study(methods=("trio", "random"), retentions=(0.11, 0.33))


@pytest.fixture(autouse=True)
def _blocks_of_one_retention(monkeypatch) -> None:
    """The cells at 11 % are the first block, those at 33 % the second."""
    monkeypatch.setattr("trio_profile.records.study.MOST_CELLS", 2)


class Workers:
    """Workers on one directory. They finish their runs at once."""

    def __init__(self, directory, processes: int = 2):
        self.directory, self.processes = directory, processes

    def board(self, name: str) -> Board:
        return Board(ASKED, self.directory, Leases(self.directory, name), self.processes)

    def finish(self, name: str, claim: Claim, *lines: Measured, failed: str | None = None) -> None:
        key = claim.key
        Worker(self.directory, name, ASKED).keep(key.block, key.number, *lines, attempt=claim.attempt, failed=failed)


@pytest.fixture
def workers(tmp_path) -> Workers:
    return Workers(tmp_path)


def test_the_dense_model_comes_first_then_the_longest_block(workers):
    board = workers.board("one")
    claimed = [board.claim("count") for _ in range(4)]
    keys = [RunKey(DENSE, 0), RunKey("cells-2", 0), RunKey("cells-1", 0)]
    assert [claim and claim.key for claim in claimed] == [*keys, None]


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
    assert names == ["cells-2.1", "cells-1.1"]
    assert not board.is_finished and board.is_free("time")
    while (claim := board.claim("time")) is not None:
        workers.finish("one", claim)
    board.look()
    assert board.is_finished


def test_a_study_of_one_process_is_counted_and_timed_in_it(tmp_path):
    workers = Workers(tmp_path, processes=1)
    board = workers.board("one")
    assert board.claim("count") is None
    keys = [claim.key for claim in iter(lambda: board.claim("time"), None)]
    assert keys == [RunKey(DENSE, 0), RunKey("cells-2", 1), RunKey("cells-1", 1)]


def test_two_workers_never_have_the_same_run(workers):
    one, two = workers.board("one"), workers.board("two")
    claims = [board.claim("count") for board in (one, two, one, two)]
    assert sorted(str(claim.key) for claim in claims if claim) == ["cells-1.0", "cells-2.0", "dense.0"]


def test_a_run_that_was_finished_a_moment_ago_is_not_claimed_again(workers):
    one, two = workers.board("one"), workers.board("two")
    claim = one.claim("count")
    looked = two.look

    def finished_after_the_look() -> None:
        looked()
        if claim.key not in one.done:
            workers.finish("one", claim)
            one.leases.give_back(str(claim.key), claim.attempt)
            one.done.add(claim.key)

    two.look = finished_after_the_look
    other = two.claim("count")
    assert other is not None and other.key != claim.key
    assert str(claim.key) not in two.leases.attempts({str(claim.key)})


def test_a_run_goes_back_three_times_and_is_then_given_up(workers):
    board = workers.board("one")
    for attempt in (1, 2, 3):
        claim = board.claim("count")
        assert claim == Claim(RunKey(DENSE, 0), attempt, is_last=attempt == 3)
        board.leases.fail(str(claim.key), claim.attempt, f"fault {attempt}")
    claim = board.claim("count")
    assert claim == Claim(RunKey(DENSE, 0), 4, True, "given up after 3 attempts; the last one, by one: fault 3")


def test_the_run_of_a_silent_worker_goes_to_another(workers):
    one, two = workers.board("one"), workers.board("two")
    lost = one.claim("count")
    assert lost is not None
    path = one.leases.directory / f"{lost.key}.1"
    os.utime(path, (path.stat().st_mtime - 100,) * 2)
    assert two.claim("count") == Claim(lost.key, 2)
    workers.finish("one", lost)  # it was only slow
    two.look()
    assert lost.key in two.done


def test_a_lost_worker_is_no_failure_but_ten_of_them_are(workers):
    board = workers.board("one")
    for attempt in range(1, 11):
        claim = board.claim("count")
        assert claim == Claim(RunKey(DENSE, 0), attempt)
        os.utime(board.leases.directory / f"{claim.key}.{attempt}", (0, 0))
    claim = board.claim("count")
    assert claim is not None
    assert claim.given_up == "given up after 10 attempts; the last one, by one: it stopped without a word"


def test_a_run_that_failed_here_comes_last(workers):
    board = workers.board("one")
    claimed = [board.claim("count", failed_here=("dense.0", "cells-2.0")) for _ in range(3)]
    assert [str(claim.key) for claim in claimed if claim] == ["cells-1.0", "dense.0", "cells-2.0"]


def test_times_of_a_block_whose_counts_were_given_up_are_given_up_too(workers):
    board = workers.board("one")
    while (claim := board.claim("count")) is not None:
        workers.finish("one", claim, failed="given up: no memory" if claim.key.block == "cells-2" else None)
    claim = board.claim("time")
    assert claim is not None
    assert (str(claim.key), claim.given_up) == ("cells-2.1", "given up: no memory")


def test_a_run_on_another_kind_of_machine_is_not_done(workers, tmp_path):
    board = workers.board("one")
    first = Session(id="first", environment=environment(device_name="another GPU"))
    assert agree(tmp_path, first) == first
    claim = board.claim("count")
    workers.finish("one", claim)
    board.look()
    assert board.done == set()


def test_a_file_of_another_study_is_refused(workers, tmp_path):
    other = study(retentions=(0.5,))
    Worker(tmp_path, "z", other)
    with pytest.raises(StoreError, match=r"measurements-z\.jsonl is of another study than .*study\.toml"):
        workers.board("one").look()
