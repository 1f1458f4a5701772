"""100 workers are killed at random lines of their code: nothing is lost, and nothing is doubled.

The workers here are forks that claim runs and keep what they measured, by the code of real workers. They run no model,
so that a hundred of them can die in seconds. `test_supervisor.py` kills real ones.
"""

import os
import random
import signal
import sys
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
MOST_LINES = 500
"""A worker dies after at most so many lines of code, which are few runs. So all 100 die before the study is
finished."""


def lines_of(claim: Claim, board: Board, session: str) -> list[Measured]:
    """Return what a run would have measured."""
    if claim.key.block == DENSE:
        return [dense().model_copy(update={"session": session})]
    lines: list[Measured] = []
    for cell in board.cells[claim.key.block]:
        made = measurement(cell.method, cell.retention, pairs=3)
        lines += [counted(made)] if claim.key.number == 0 else rounds_of(made)
    return [line.model_copy(update={"session": session}) for line in lines]


def die_after(lines: int) -> None:
    """Kill this process after so many lines of Python. So the moment depends on its progress, and on no clock."""
    left = lines

    def count(_frame: object, event: str, _argument: object) -> object:
        nonlocal left
        left -= event == "line"
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)


def toy_worker(directory: Path, name: str, lines: int | None) -> None:
    """Measure runs until none is left.

    lines: after so many lines the worker kills itself; None for never.
    """
    board = Board(ASKED, directory, Leases(directory, name, LEASE_SECONDS), PROCESSES, most_attempts=KILLS)
    board.look()
    if lines is not None:
        die_after(lines)
    while not board.is_finished:
        for phase in ("count", "time"):
            session, timed = f"{name}-{phase}-{time.monotonic_ns()}", set[str]()
            file = WorkerFile(directory, name)
            file.open(ASKED, Session(id=session, environment=environment()))
            while (claim := board.claim(phase, timed)) is not None:
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


def forked(directory: Path, name: str, lines: int | None) -> int:
    """Start a toy worker. Return the number of its process."""
    number = os.fork()
    if number == 0:
        try:
            toy_worker(directory, name, lines)
        finally:
            os._exit(0)
    return number


def test_workers_that_are_killed_anywhere_lose_and_double_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("trio_profile.records.study.MOST_CELLS", 1)
    draw = random.Random(7)
    names = ("w0", "w1", "w2", "w3")
    doomed = {forked(tmp_path, name, draw.randint(1, MOST_LINES)): name for name in names}
    for _ in range(KILLS):
        victim = draw.choice(list(doomed))
        _, status = os.waitpid(victim, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "all was done before the last kill"
        name = doomed.pop(victim)
        doomed[forked(tmp_path, name, draw.randint(1, MOST_LINES))] = name  # the same name: it goes on with its file
    for number in doomed:
        os.waitpid(number, 0)
    os.waitpid(forked(tmp_path, names[0], None), 0)  # this one measures what is left
    contents = Store(tmp_path).read()
    assert len(contents.runs) == 1 + len(RETENTIONS) * (1 + PROCESSES) == len({run.key for run in contents.runs})
    assert all(run.failed is None for run in contents.runs)
    assert contents.dense is not None and len(contents.cells) == len(RETENTIONS)
    for cell in contents.measurements:
        assert len(cell.timings) == PROCESSES == len({timing.session for timing in cell.timings})
    assert all(", line " in text for text in contents.dropped), "only a line that was cut off is dropped"
