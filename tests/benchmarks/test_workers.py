"""What sharing a study among workers costs: one claim of 10,000 runs, as a worker pays it."""

import time

import pytest

from tests.profile.examples import environment, study
from trio_profile.records.leases import Leases
from trio_profile.records.run import Run
from trio_profile.records.schema import Session
from trio_profile.records.workers import WorkerFile
from trio_profile.studies.board import Board

RUNS = 10_000


@pytest.mark.benchmark(group="workers")
def test_a_claim_among_ten_thousand_runs(benchmark, tmp_path):
    """CPU milliseconds of a claim, while 256 others hold a lease and 256 files are read."""
    asked = study(retentions=tuple(number / (RUNS + 1) for number in range(1, RUNS + 1)))
    mine, files, spent = Board(asked, tmp_path, Leases(tmp_path, "mine"), processes=1), [], []
    for number, run in zip(range(256), mine.todo, strict=False):
        files.append(WorkerFile(tmp_path, f"w{number}"))
        files[-1].open(asked, Session(id=f"s{number}", environment=environment()))
        assert Leases(tmp_path, f"w{number}").claim(run, 1)

    def claim_and_finish() -> None:
        start = time.process_time()
        claim = mine.claim("time")
        spent.append(1e3 * (time.process_time() - start))
        assert claim is not None
        key = claim.key
        files[0].append([], Run(block=key.block, number=key.number, attempt=claim.attempt, worker="w0", session="s0"))
        mine.leases.give_back(str(key), claim.attempt)

    benchmark.pedantic(claim_and_finish, rounds=50)
    benchmark.extra_info.update(claim_cpu_ms=sorted(spent)[len(spent) // 2], runs=RUNS, workers=256)
