"""What the two scripts count, and the planted slow-down. Nothing is timed here, so ordinary runs do not skip it."""

import subprocess
from types import SimpleNamespace

import pytest

from tests.benchmarks import busy_machine, identical_sweeps, program
from trio_core.methods.method import registry
from trio_core.methods.trio import Trio


def verdict(quantity: str, outcome: str, ci95: list[float] | None = None) -> dict:
    return {"quantity": quantity, "verdict": outcome, "ci95": ci95, "ratio": 1.0}


def estimate(value: float, low: float, high: float) -> dict:
    return {"median": value, "ci95": [low, high]}


@pytest.fixture
def slowed():
    """The module of the slowed method. It is registered during the test only."""
    before = dict(registry)
    from tests.benchmarks import slowed

    yield slowed
    registry.clear()
    registry.update(before)


def test_verdicts_are_counted_by_quantity_and_exact_ones_together():
    timed = "prefill_over_dense"
    pairs = [
        [verdict(timed, "pass", [0.99, 1.01]), verdict("kv_bytes", "pass"), verdict("launches", "regression")],
        [verdict(timed, "regression", [1.04, 1.06]), verdict("kv_bytes", "pass"), verdict("launches", "pass")],
    ]
    assert identical_sweeps.count_verdicts(pairs) == {
        timed: {"pass": 1, "regression": 1},
        "exact": {"pass": 3, "regression": 1},
    }
    assert identical_sweeps.caught(pairs, timed) == 1
    assert identical_sweeps.caught(pairs, "cpu_over_dense") == 0


def test_intervals_are_compared_with_the_median_of_all_sweeps():
    sweeps = [estimate(1.0, 0.9, 1.1), estimate(2.0, 1.8, 2.2), estimate(4.0, 2.0, 6.0)]
    found = identical_sweeps.cover(sweeps)
    assert (found["pooled"], found["sweeps"], found["containing"], found["spread"]) == (2.0, 3, 2, 4.0)
    assert found["half_width"] == pytest.approx(0.1)


def test_a_slowed_sweep_is_not_held_against_the_same_sweeps():
    cells = [{name: estimate(value, 1.0, 1.2) for name in identical_sweeps.SPEEDUPS} for value in (1.1, 0.5, 1.1, 0.5)]
    found = identical_sweeps.summary(cells, [[], []], slower=0.05)
    assert found["speedups"]["prefill_speedup"]["containing"] == found["speedups"]["prefill_speedup"]["sweeps"] == 2
    assert identical_sweeps.summary(cells, [[], []], slower=0.0)["speedups"]["prefill_speedup"]["sweeps"] == 4


def test_with_several_threads_the_planted_time_is_a_share_of_the_wall_time():
    cell = {"cpu_ms": estimate(80.0, 79.0, 81.0), "prefill_ms": estimate(50.0, 49.0, 51.0)}
    assert identical_sweeps.milliseconds_of(0.05, cell, threads=1) == pytest.approx(4.0)
    assert identical_sweeps.milliseconds_of(0.05, cell, threads=2) == pytest.approx(2.5)


@pytest.mark.parametrize("asked, parts", [("6", [2.0, 2.0, 2.0]), (None, [])])
def test_the_planted_time_is_divided_among_the_stages(slowed, monkeypatch, asked, parts):
    burnt: list[float] = []
    monkeypatch.setattr(slowed, "burn", burnt.append)
    monkeypatch.setattr(Trio, "select", lambda *_: "the selection of TRIO")
    monkeypatch.delenv(program.SLOWED_MS, raising=False)
    if asked is not None:
        monkeypatch.setenv(program.SLOWED_MS, asked)
    view = SimpleNamespace(pictures=[SimpleNamespace(schedule=SimpleNamespace(layers=(1, 5, 8)))])
    method = slowed.Slowed(retention=0.22)
    assert [method.select(view) for _ in range(3)] == ["the selection of TRIO"] * 3
    assert burnt == parts


def test_pairs_are_compared_with_what_the_cpu_that_is_left_allows():
    def side(cpu_share: float, pairs: int, speedup: dict) -> dict:
        cell = {"nominal_retention": 0.22, "prefill_speedup": speedup}
        return {"cpu_share": cpu_share, "pairs": pairs, "sampled_seconds": 10.0, "cells": [cell]}

    found = busy_machine.summary(side(1.0, 100, estimate(1.5, 1.4, 1.6)), side(0.5, 40, estimate(1.8, 1.5, 2.1)))
    assert found == {"cpu_left": 0.5, "pairs_of_possible": pytest.approx(0.8), "containing": 1, "cells": 1}
    assert busy_machine.count_doubts([{"kind": "busy"}, {"kind": "budget"}, {"kind": "busy"}]) == {
        "busy": 2,
        "budget": 1,
    }


def test_busy_loops_end_with_the_block(monkeypatch):
    started: list[subprocess.Popen] = []
    start = subprocess.Popen

    def remember(line, **how):
        started.append(start(line, **how))
        return started[-1]

    monkeypatch.setattr(busy_machine.subprocess, "Popen", remember)
    with busy_machine.busy_loops(2):
        assert [loop.poll() for loop in started] == [None, None]
    assert all(loop.poll() is not None for loop in started) and len(started) == 2


def test_a_finished_study_is_not_measured_again_and_another_command_is_refused(tmp_path, monkeypatch):
    calls: list[list[str]] = []

    def measure(arguments, variables, accepted=(0,)):
        calls.append(arguments)
        return program.Call(command=program._command(arguments, variables), seconds=1.0, document={"cells": []})

    monkeypatch.setattr(program, "call", measure)
    first = program.call_once(tmp_path / "a", ["sweep"], {"OMP_NUM_THREADS": "1"})
    assert program.call_once(tmp_path / "a", ["sweep"], {"OMP_NUM_THREADS": "1"}) == first
    assert first.command.startswith("OMP_NUM_THREADS=1 trio-profile sweep --out ") and len(calls) == 1
    with pytest.raises(SystemExit, match="choose another --out"):
        program.call_once(tmp_path / "a", ["sweep"], {"OMP_NUM_THREADS": "2"})
