"""The driver and its hosts: orders that are given again, hosts that are lost, and one stopping rule on every engine."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from trio_profile.engine.hosts import ATTEMPTS, Host, HostLost, ProcessHost, drive
from trio_profile.engine.orders import Event, Order
from trio_profile.engine.processes import Server
from trio_profile.errors import MeasurementError
from trio_profile.judge.times import widest
from trio_profile.kinds.grid import run as local
from trio_profile.progress import Step
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Study
from trio_profile.records.study import PROCESSES

STUDY = Study()


class Toy:
    """A host that tells its name. lost: how many orders it loses first. gate: it waits for it at each order."""

    def __init__(self, name: str, lost: int = 0, gate: threading.Event | None = None) -> None:
        self.name, self.lost, self.gate = name, lost, gate

    def carry_out(self, order: Order) -> Iterator[Event]:
        yield Step(f"{self.name} {order.number}")
        if self.gate is not None:
            assert self.gate.wait(30)
        if self.lost > 0:
            self.lost -= 1
            raise HostLost("killed by a test")
        if order.number < 0:
            raise MeasurementError("the method is broken")


def driven(hosts: list[Host], numbers: list[int]) -> tuple[list[str], list[int]]:
    """What the orders told, and those that were done."""
    orders = iter([Order(study=STUDY, number=number) for number in numbers])
    told, done, thread = list[str](), list[int](), threading.get_ident()

    def handle(_: Order, event: Event) -> None:
        assert threading.get_ident() == thread
        told.append(event.text)  # pyright: ignore[reportAttributeAccessIssue]

    drive(hosts, lambda: next(orders, None), handle, lambda order: done.append(order.number))
    return told, done


def test_each_order_is_done_once_and_the_driver_alone_handles_what_they_tell():
    told, done = driven([Toy("a"), Toy("b")], [*range(20)])
    assert sorted(done) == [*range(20)]
    assert len(told) == 20


def test_an_order_that_lost_its_host_is_given_again():
    told, done = driven([Toy("a", lost=1), Toy("b")], [1, 2, 3])
    assert sorted(done) == [1, 2, 3]
    assert len(told) == 4


def test_a_host_that_is_lost_twice_in_a_row_gets_no_further_order():
    dead, gate = Toy("dead", lost=100), threading.Event()
    living = Toy("living", gate=gate)
    threading.Timer(0.2, gate.set).start()  # until then the dead one alone takes what comes
    _, done = driven([dead, living], [1, 2, 3])
    assert sorted(done) == [1, 2, 3]
    assert dead.lost == 98


def test_an_order_that_loses_every_host_ends_the_study_in_one_line():
    with pytest.raises(MeasurementError, match=f"^{ATTEMPTS} hosts were lost, one after another: killed by a test$"):
        driven([Toy(name, lost=1) for name in "abc"], [1])
    with pytest.raises(MeasurementError, match=r"^every host is lost; what was measured before is kept$"):
        driven([Toy("a", lost=9)], [1])


def test_an_error_of_an_order_is_an_answer_and_no_lost_host():
    with pytest.raises(MeasurementError, match="the method is broken"):
        driven([Toy("a"), Toy("b")], [-1])


def test_a_host_that_is_free_is_asked_again_after_each_order():
    """Whether there is a next order can depend on what another host has told."""
    left, asked = [1, 2], list[int]()

    def next_order() -> Order | None:
        asked.append(len(left))
        return Order(study=STUDY, number=left.pop()) if left else None

    drive([Toy("a")], next_order, lambda *_: None)
    assert asked == [2, 1, 0]


class TwoHosts:
    """An engine of two hosts on this machine, each with a core of its own, as two actors of Ray have."""

    def __init__(self) -> None:
        mine = os.sched_getaffinity(0)
        self.servers = list[Server]()
        try:
            for core in sorted(mine)[:2]:
                os.sched_setaffinity(0, {core})
                self.servers.append(Server())
        finally:
            os.sched_setaffinity(0, mine)

    def counting(self, _: Study) -> list[Host]:
        return [ProcessHost(server) for server in self.servers]

    timing = counting


def measured_by_two(study: Study, out) -> Contents:
    """The study as two hosts measure it."""
    hosts = TwoHosts()
    try:
        return local.run(study, out, engine=hosts)
    finally:
        for server in hosts.servers:
            server.close()


@pytest.mark.slow
def test_two_hosts_measure_what_one_does_and_the_interval_is_as_narrow_as_asked(
    tiny_study: Study, tmp_path, without_fvcore
):
    """The stopping rule of one machine: `--until` is no longer ignored by workers."""
    asked = {"processes": None, "precision": 0.5, "seconds": 600.0, "fidelity_inputs": 2, "retentions": (0.4,)}
    study, begin = tiny_study.model_copy(update=asked), time.monotonic()
    found = measured_by_two(study, tmp_path / "two")
    assert widest(found) <= 0.5 and time.monotonic() - begin < 300
    timed = {one.session for one in found.rounds}
    assert PROCESSES <= len(timed) <= PROCESSES + 2
    alone = local.run(study, tmp_path / "one")
    for one, other in zip(found.measurements, alone.measurements, strict=True):
        assert (one.counted, one.kv_bytes, one.fidelity) == (other.counted, other.kv_bytes, other.fidelity)
    again = local.run(study, tmp_path / "two")
    assert again.rounds == found.rounds, "a finished study was measured again"


@pytest.mark.slow
def test_two_hosts_share_the_processes_that_are_asked_for(tiny_study: Study, tmp_path, without_fvcore):
    found = measured_by_two(tiny_study.model_copy(update={"processes": 3, "retentions": (0.4,)}), tmp_path)
    assert [len(cell.timings) for cell in found.measurements] == [3]
