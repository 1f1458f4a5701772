"""`kill -9` at 100 random moments: nothing is lost, and nothing is doubled.

The workers here are forks that claim, wait a moment and keep what they measured, by the code of real workers. They run
no model, so that a hundred of them can die in seconds. `test_supervisor.py` kills real ones.
"""

import os
import random
import signal
import time
from pathlib import Path

from tests.profile.examples import counted, dense, environment, measurement, rounds_of, study
from trio_profile.engine.board import Board, Claim
from trio_profile.records.leases import Leases
from trio_profile.records.run import DENSE, Run
from trio_profile.records.schema import Session
from trio_profile.records.store import Store
from trio_profile.records.workers import Measured, WorkerFile

KILLS = 100
RETENTIONS = tuple(part / 100 for part in range(5, 95))
"""Each is a block of its own here."""
PROCESSES = 3
ASKED = study(retentions=RETENTIONS)
LEASE_SECONDS = 0.2
KILLING = "killing"
"""While this file is there, workers take their time. So all 100 die before the study is finished."""


def lines_of(claim: Claim, board: Board, session: str) -> list[Measured]:
    """What a run would have measured."""
    if claim.key.block == DENSE:
        return [dense().model_copy(update={"session": session})]
    found: list[Measured] = []
    for cell in board.cells[claim.key.block]:
        made = measurement(cell.method, cell.retention, pairs=3)
        if claim.key.number == 0:
            found.append(counted(made).model_copy(update={"session": session}))
        else:
            found += [one.model_copy(update={"session": session}) for one in rounds_of(made)]
    return found


def toy_worker(directory: Path, name: str) -> None:
    """Measure runs until none is left."""
    board = Board(ASKED, directory, Leases(directory, name, LEASE_SECONDS), PROCESSES, most_attempts=KILLS)
    while not board.is_finished:
        for phase in ("count", "time"):
            session, timed = f"{name}-{phase}-{time.monotonic_ns()}", set[str]()
            file = WorkerFile(directory, name)
            file.open(ASKED, Session(id=session, environment=environment()))
            while (claim := board.claim(phase, timed)) is not None:
                if (directory / KILLING).exists():
                    time.sleep(random.uniform(0.0, 0.3))  # what a real worker measures here: kills must fall into it
                run = Run(
                    block=claim.key.block,
                    number=claim.key.number,
                    attempt=claim.attempt,
                    worker=name,
                    session=session,
                )
                file.append(lines_of(claim, board, session), run)
                board.leases.give_back(str(claim.key), claim.attempt)
                timed.add(claim.key.block)
        time.sleep(0.01)
        board.look()


def forked(directory: Path, name: str) -> int:
    """The number of a new process that is a toy worker."""
    number = os.fork()
    if number == 0:
        try:
            toy_worker(directory, name)
        finally:
            os._exit(0)
    return number


def test_workers_that_are_killed_at_any_moment_lose_and_double_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("trio_profile.records.study.MOST_CELLS", 1)
    random.seed(7)
    (tmp_path / KILLING).touch()
    alive = {forked(tmp_path, f"w{number}"): f"w{number}" for number in range(4)}
    for _ in range(KILLS):
        time.sleep(random.uniform(0.0, 0.03))
        victim = random.choice(list(alive))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        name = alive.pop(victim)
        alive[forked(tmp_path, name)] = name  # the same name: it goes on with its file
    assert len(Store(tmp_path).read().runs) < 1 + len(RETENTIONS) * (1 + PROCESSES), "all was done before the last kill"
    (tmp_path / KILLING).unlink()
    for number in alive:
        os.waitpid(number, 0)
    found = Store(tmp_path).read()
    assert len(found.runs) == 1 + len(RETENTIONS) * (1 + PROCESSES) == len({run.key for run in found.runs})
    assert all(run.failed is None for run in found.runs)
    assert found.dense is not None and len(found.cells) == len(RETENTIONS)
    for cell in found.measurements:
        assert len(cell.timings) == PROCESSES == len({timing.session for timing in cell.timings})
    assert all(", line " in text for text in found.dropped), "only a line that was cut off is dropped"
