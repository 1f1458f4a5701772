"""Counters of Linux: their differences, and systems that hide them."""

import pytest

from trio_profile.profilers import disturbance
from trio_profile.profilers.disturbance import Reading, change, read


def reading(seconds: float, **counters) -> Reading:
    fields = {"pressure_us": None, "delay_ns": None, "migrations": None, "preemptions": None, "faults": None}
    return Reading(seconds=seconds, **{**fields, "cpu": None, **counters})


def test_the_difference_of_two_readings():
    before = reading(10.0, pressure_us=500, delay_ns={"1": 5_000_000}, preemptions=3, faults=100, cpu=0)
    after = reading(10.5, pressure_us=100_500, delay_ns={"1": 8_000_000}, preemptions=7, faults=101, cpu=1)
    found = change(before, after)
    assert (found.seconds, found.pressure, found.delay_ms) == (0.5, pytest.approx(0.2), 3.0)
    assert (found.preemptions, found.faults, found.cpu) == (4, 1, 1)
    assert found.migrations is None


def test_a_new_thread_counts_from_zero_and_one_that_has_ended_is_left_out():
    before = reading(0.0, migrations={"1": 10, "2": 7})
    after = reading(1.0, migrations={"1": 12, "3": 5})
    assert change(before, after).migrations == 2 + 5


def test_a_system_that_hides_everything_gives_none(monkeypatch):
    monkeypatch.setattr(disturbance, "_PRESSURE", ("/no/such/file",))
    monkeypatch.setattr(disturbance, "_THREADS", "/no/such/folder")
    monkeypatch.setattr(disturbance, "_usage", lambda: None)
    monkeypatch.setattr(disturbance, "_sched_getcpu", lambda: None)
    found = change(read(), read())
    assert found.model_dump(exclude={"seconds"}, exclude_none=True) == {}


@pytest.mark.parametrize("content", [b"", b"1 2", b"a b c", b"some avg10=0.00", b"se.nr_migrations : x"])
def test_files_of_another_form_give_none(content, monkeypatch):
    monkeypatch.setattr(disturbance, "_bytes", lambda _path: content)
    found = read()
    assert (found.pressure_us, found.delay_ns, found.migrations) == (None, None, None)


def test_files_of_linux_are_parsed(monkeypatch):
    files = {
        "/proc/pressure/cpu": b"some avg10=1.00 avg60=2.00 avg300=3.00 total=77\nfull avg10=0.00 total=5\n",
        "schedstat": b"1000 2000 3\n",
        "sched": b"x (1, #threads: 1)\nse.nr_migrations                             :                    9\n",
    }
    monkeypatch.setattr(disturbance, "_bytes", lambda path: files.get(path) or files.get(path.rpartition("/")[2], b""))
    found = read()
    assert found.pressure_us == 77
    assert set((found.delay_ns or {0: 2000}).values()) == {2000}
    assert set((found.migrations or {0: 9}).values()) == {9}


def test_the_delay_is_that_of_the_thread_that_waited_longest():
    """Short waits of many threads do not add up: they wait at once."""
    before = reading(10.0, delay_ns={"1": 0, "2": 0}, migrations={"1": 1, "2": 1})
    after = reading(11.0, delay_ns={"1": 2_000_000, "2": 3_000_000}, migrations={"1": 2, "2": 3})
    found = change(before, after)
    assert (found.delay_ms, found.migrations) == (3.0, 3)
