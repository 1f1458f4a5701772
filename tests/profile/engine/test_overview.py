"""How far a study of workers is."""

from tests.profile.examples import study
from tests.profile.working import Worker
from trio_profile.engine.board import Board
from trio_profile.engine.overview import Overview, WorkerState, overview
from trio_profile.records.leases import Leases

ASKED = study(retentions=(0.11, 0.33))


def test_who_measures_what_and_how_long_the_rest_takes(tmp_path, monkeypatch):
    monkeypatch.setattr("trio_profile.records.study.MOST_CELLS", 1)
    board = Board(ASKED, tmp_path, Leases(tmp_path, "me"), processes=2)
    assert overview(board) == Overview((), 0, 0, 7, None)
    worker = Worker(tmp_path, "a", ASKED, hostname="node1")
    for block, seconds, failed in (("dense", 2.0, None), ("cells-1", 4.0, None), ("cells-2", 1.0, "no")):
        worker.keep(block, 0, seconds=seconds, failed=failed)
    assert Leases(tmp_path, "b").claim("cells-1.1", 2)
    board.look()
    # No run was timed yet, so a run of times is expected to take as long as the others: 3 s.
    workers = WorkerState("a", "node1", "", 0, 3), WorkerState("b", "", "cells-1.1", 2, 0)
    assert overview(board) == Overview(workers, 2, 1, 4, 12.0)
