"""What sharing a study among workers costs: a claim, as each worker pays it, and the driver of a cluster."""

import resource
import subprocess
import sys
import time

import pytest

from tests.profile.examples import environment, measurement, rounds_of, study
from trio_profile.engine.board import Board
from trio_profile.engine.overview import overview
from trio_profile.records.leases import Leases
from trio_profile.records.run import DENSE, Run
from trio_profile.records.schema import Session
from trio_profile.records.workers import WorkerFile

RUNS = 10_000
WORKERS = 256
LINES = 100
"""Rounds of each run: a million in all."""
FINISHED = 13
"""Runs that end between two looks of the driver, which are a second apart: 256 workers with runs of 20 s."""


def many_runs(directory, name: str) -> Board:
    asked = study(retentions=tuple(number / (RUNS + 1) for number in range(1, RUNS + 1)))
    return Board(asked, directory, Leases(directory, name), processes=1)


@pytest.mark.benchmark(group="workers")
def test_a_claim_among_ten_thousand_runs(benchmark, tmp_path):
    """CPU milliseconds of a claim, while 256 others hold a lease and 256 files are read."""
    mine, files, spent = many_runs(tmp_path, "mine"), [], []
    for number, run in zip(range(WORKERS), mine.todo, strict=False):
        files.append(WorkerFile(tmp_path, f"w{number}"))
        files[-1].open(mine.study, Session(id=f"s{number}", environment=environment()))
        assert Leases(tmp_path, f"w{number}").claim(run, 1)

    def claim_and_finish() -> None:
        start = time.process_time()
        claim = mine.claim("time")
        spent.append(1e3 * (time.process_time() - start))
        assert claim is not None
        key = claim.key
        files[0].keep([], Run(block=key.block, number=key.number, attempt=claim.attempt, worker="w0", session="s0"))
        mine.leases.give_back(str(key), claim.attempt)

    benchmark.pedantic(claim_and_finish, rounds=50)
    benchmark.extra_info.update(claim_cpu_ms=sorted(spent)[len(spent) // 2], runs=RUNS, workers=WORKERS)


def drive(directory) -> None:
    """Look at a study that 256 workers measure, until all is done. Print CPU ms for each run, and the peak in MB."""
    board, files, spent = many_runs(directory, "driver"), [], 0.0
    for number in range(WORKERS):
        files.append(WorkerFile(directory, f"w{number}"))
        files[-1].open(board.study, Session(id=f"s{number}", environment=environment()))
    keys = list(board.todo.values())
    for key in keys[:WORKERS]:
        Leases(directory, f"w{keys.index(key)}").claim(str(key), 1)
    for start in range(0, len(keys), FINISHED):
        for number, key in enumerate(keys[start : start + FINISHED], start):
            name = f"{number % WORKERS}"
            cell = board.cells[key.block][0] if key.block != DENSE else board.cells[keys[1].block][0]
            one = rounds_of(measurement(cell.method, cell.retention, pairs=1))[0]
            line = one.model_copy(update={"session": f"s{name}"}).model_dump_json(exclude_none=True)
            run = Run(block=key.block, number=key.number, attempt=1, worker=f"w{name}", session=f"s{name}", seconds=20)
            with files[number % WORKERS].path.open("a") as file:
                file.write((line + "\n") * LINES + run.model_dump_json(exclude_none=True) + "\n")
        before = time.process_time()
        board.look()
        overview(board)
        spent += time.process_time() - before
    assert board.is_finished
    print(1e3 * spent / len(keys), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)


@pytest.mark.benchmark(group="workers")
def test_the_driver_of_a_million_records(benchmark, tmp_path):
    """CPU milliseconds for each run, and peak megabytes of the driver's process, with what it imports."""
    told: list[str] = []

    def in_a_process() -> None:
        code = f"from pathlib import Path; from {__name__} import drive; drive(Path({str(tmp_path)!r}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        told.append(done.stdout)

    benchmark.pedantic(in_a_process, rounds=1)
    milliseconds, megabytes = map(float, told[0].split())
    benchmark.extra_info.update(cpu_ms_a_run=milliseconds, peak_mb=megabytes, records=RUNS * LINES, workers=WORKERS)
