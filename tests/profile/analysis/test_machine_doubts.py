"""Planted faults of the machine are found, and sound rounds are left alone."""

import pytest

from tests.profile.examples import dense, measurement, rounds_of
from trio_profile.analysis import machine_doubts
from trio_profile.records.schema import Disturbance, Round, Timed


def a_round(*waits: Disturbance | None, **fields) -> Round:
    """One dense run, and a run for each disturbance."""
    cells = [Timed(cell=str(number), prefill_ms=5, disturbance=wait) for number, wait in enumerate(waits)]
    return Round(**{"phase": "prefill", "runs": (Timed(prefill_ms=10), *cells), **fields})


def test_sound_rounds_raise_no_doubt():
    for rounds in ([], rounds_of(measurement()), [a_round(None, clock_mhz=1980)] * 9):
        assert not [*machine_doubts.clock(rounds), *machine_doubts.strangers(rounds), *machine_doubts.busy(rounds)]


def test_slow_and_discarded_rounds_are_counted_with_their_reasons():
    rounds = [a_round(clock_mhz=1980)] * 35 + [a_round(clock_mhz=1400)] * 2
    rounds += [a_round(clock_mhz=1400, discarded=True, slowed_by=("power limit",))] * 3
    (doubt,) = machine_doubts.clock(rounds)
    assert (doubt.kind, doubt.cell, doubt.found) == ("clock", None, pytest.approx(5 / 40))
    assert "(power limit)" in doubt.sentence and "nvidia-smi -lgc" in doubt.next_step
    assert not list(machine_doubts.clock([a_round(clock_mhz=mhz) for mhz in (1980, 1500)]))  # 75 % of 1980 is 1485


def test_other_processes_on_the_gpu_are_counted():
    (doubt,) = machine_doubts.strangers([a_round(), a_round(strangers=2), a_round(strangers=1)])
    assert (doubt.kind, doubt.found) == ("strangers", 2)


def test_a_busy_cpu_is_a_doubt_where_more_than_half_of_the_runs_waited():
    waited, ran = (Disturbance(seconds=0.5, delay_ms=500 * share) for share in (0.2, 0.01))
    assert not list(machine_doubts.busy([a_round(waited, ran)] * 10))
    (doubt,) = machine_doubts.busy([*[a_round(waited, ran)] * 10, a_round(waited, None)])
    assert (doubt.kind, doubt.found, doubt.threshold) == ("busy", pytest.approx(11 / 21), 0.5)
    assert "52 % of all runs" in doubt.sentence and "20 % of their time" in doubt.sentence


def test_the_doubt_about_a_busy_cpu_reads_all_that_a_run_records():
    seen = {"seconds": 0.5, "delay_ms": 250.0, "pressure": 0.4, "migrations": 2, "preemptions": 3, "faults": 1}
    (doubt,) = machine_doubts.busy([a_round(*(Disturbance(**seen, cpu=cpu) for cpu in (0, 1)))])
    told = "(in a run: 3 preemptions, 2 moves to another CPU, 1 page fault; CPU pressure 40 %; seen on 2 CPUs)"
    assert told in doubt.sentence


def test_pressure_stands_in_where_the_delay_is_hidden():
    assert list(machine_doubts.busy([a_round(Disturbance(seconds=0.5, pressure=0.4))]))
    assert not list(machine_doubts.busy([a_round(Disturbance(seconds=0.5))]))


def test_a_cached_picture_is_found():
    """New pictures 30 % slower than the repeated one; 5 % are no doubt, nor are too few."""
    for ratios, cached in (
        ([1.3, 1.28, 1.33, 1.3, 1.29, 1.31, 1.3, 1.27], True),
        ([1.05, 1.04, 1.06, 1.05, 1.05, 1.04], False),
        ([1.0, 1.5, 0.9, 1.4, 0.95, 1.2], False),
        ([1.3] * 5, False),
        ([], False),
    ):
        whole = dense().model_copy(update={"distinct_ratios": tuple(ratios)})
        assert [doubt.kind for doubt in machine_doubts.cached(whole)] == ["cached"] * cached
    assert not list(machine_doubts.cached(None))
