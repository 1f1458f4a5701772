"""Leases: one worker at a run, and another one after it if it dies."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trio_profile.errors import StoreError
from trio_profile.records.leases import LEASES, Leases

RUN = "at-0.11.1"


@pytest.fixture
def workers(tmp_path) -> tuple[Leases, Leases]:
    return Leases(tmp_path, "one", seconds=60), Leases(tmp_path, "two", seconds=60)


def silent_for(leases: Leases, attempt: int, seconds: float) -> None:
    """Make a lease look as if its worker had renewed it so long ago."""
    path = leases.directory / f"{RUN}.{attempt}"
    renewed = path.stat().st_mtime - seconds
    os.utime(path, (renewed, renewed))


def test_of_many_workers_one_gets_an_attempt(tmp_path):
    workers = [Leases(tmp_path, f"w{number}") for number in range(32)]
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda leases: leases.claim(RUN, 1), workers))
    assert won.count(True) == 1


def test_a_lease_that_is_not_renewed_expires(workers):
    one, two = workers
    assert one.claim(RUN, 1)
    assert two.attempts({RUN})[RUN].is_held(60)
    silent_for(one, 1, 61)
    assert not two.attempts({RUN})[RUN].is_held(60)
    one.renew(RUN, 1)
    assert two.attempts({RUN})[RUN].is_held(60)


def test_a_claim_that_cannot_be_written_leaves_the_lease_of_another_worker(workers, monkeypatch):
    def fail(*_args, **_options):
        raise OSError(errno.EMFILE, "Too many open files")

    one, two = workers
    assert one.claim(RUN, 1)
    with monkeypatch.context() as patch, pytest.raises(StoreError, match="Too many open files"):
        patch.setattr(Path, "open", fail)
        two.claim(RUN, 1)
    assert one.worker_of(RUN, 1) == "one"


def test_the_latest_attempt_counts(workers):
    one, two = workers
    assert one.claim(RUN, 1)
    silent_for(one, 1, 61)
    assert two.claim(RUN, 2)
    one.renew(RUN, 1)  # it was only slow, and comes too late
    found = one.attempts({RUN})[RUN]
    assert (found.number, found.is_held(60)) == (2, True)


def test_a_failed_attempt_has_its_reason_and_a_lost_one_its_worker(workers):
    one, two = workers
    assert one.claim(RUN, 1)
    assert two.reason(RUN, 1) == "one: it stopped without a word"
    one.fail(RUN, 1, "killed by SIGKILL")
    found = two.attempts({RUN})[RUN]
    assert (found.number, found.failed, found.is_held(60)) == (1, True, False)
    assert (found.failures, two.reason(RUN, 1)) == (1, "one: killed by SIGKILL")
    assert not two.claim(RUN, 1)
    assert two.attempts({RUN})[RUN].failed


def test_what_was_given_back_does_not_count(workers):
    one, two = workers
    assert one.claim(RUN, 1)
    one.give_back(RUN, 1)
    assert two.attempts({RUN}) == {}
    assert two.claim(RUN, 1)


def test_only_the_runs_that_are_asked_for_are_looked_at(workers):
    one, _ = workers
    assert one.claim(RUN, 1)
    assert one.claim("at-0.22.1", 1)
    (one.directory / "at-0.11.x").touch()
    assert set(one.attempts({RUN})) == {RUN}
    assert one.directory.name == LEASES
