from trio_profile.cli import run
from trio_profile.cli.overview import summary
from trio_profile.engine.overview import Overview, WorkerState
from trio_profile.studies import shared

STATE = Overview(
    workers=(WorkerState("a", "node1", "cells-1.1", 2, 3), WorkerState("b", "node2", "", 0, 1)),
    measured=4,
    given_up=1,
    left=7,
    seconds_left=125.0,
    refused=("node3: another GPU",),
)


def test_the_state_in_one_line():
    assert summary(STATE) == (
        "4 of 12 runs measured, 1 given up, 1 worker at work, about 2 min 05 s left, not used: node3: another GPU"
    )


def test_the_status_of_a_study_is_printed(tiny_study, tmp_path, capsys):
    shared.prepare(tiny_study.model_copy(update={"processes": 2}), tmp_path)
    assert run(["work", str(tmp_path), "--status"]) == 0
    assert "0 of 4 runs measured" in capsys.readouterr().out
