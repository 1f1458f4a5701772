"""How far a study of workers is."""

from tests.profile.examples import study
from tests.profile.working import Worker
from trio_profile.engine.board import Board
from trio_profile.engine.overview import Overview, overview
from trio_profile.records.leases import Leases

ASKED = study(retentions=(0.11, 0.33))


def test_who_measures_what_and_how_long_the_rest_takes(tmp_path, monkeypatch):
    monkeypatch.setattr("trio_profile.records.study.MOST_CELLS", 1)
    board = Board(ASKED, tmp_path, Leases(tmp_path, "me"), processes=2)
    assert overview(board) == Overview(0, 0, 7, {}, None)
    worker = Worker(tmp_path, "a", ASKED, hostname="node1")
    for block, seconds, failed in (("dense", 2.0, None), ("cells-1", 4.0, None), ("cells-2", 1.0, "no")):
        worker.keep(block, 0, seconds=seconds, failed=failed)
    assert Leases(tmp_path, "b").claim("cells-1.1", 2)
    board.look()
    # The two measured runs took 3 s on average, and one worker measures the other four.
    assert overview(board) == Overview(2, 1, 4, {"cells-1.1": "b"}, 12.0)
