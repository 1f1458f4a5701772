"""Hosts, which carry out orders, and the one driver, which gives them orders and alone writes what they tell.

A host is a share of a machine that carries out one order at a time: this machine, or an actor of Ray. An engine has
hosts. To add an engine, write a class with the functions of `Engine`.
"""

import os
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from trio_profile.engine.orders import Event, Order
from trio_profile.engine.processes import Server, answers_of
from trio_profile.errors import MeasurementError
from trio_profile.records.schema import Study

ATTEMPTS = 3
"""An order that loses its host is given to a host at most so often."""
LOSSES = 2
"""A host that is lost so often in a row gets no further order."""


class HostLost(Exception):
    """The host of an order is gone. All other errors of a host are answers: of a method, or of a machine."""


class Host(Protocol):
    """A share of a machine."""

    def carry_out(self, order: Order) -> Iterator[Event]:
        """Carry out an order in a fresh process, and yield what it tells.

        Raises the error that the process met, or HostLost.
        """
        ...


class Engine(Protocol):
    """Who measures a study of cells."""

    def counting(self, study: Study) -> Sequence[Host]:
        """The hosts that count and ask at the same time."""
        ...

    def timing(self, study: Study) -> Sequence[Host]:
        """The hosts that time cells at the same time. Each has cores of its own."""
        ...


@dataclass(frozen=True)
class Choice:
    """An engine that `--engine` can choose.

    name: as `--engine` takes it.
    help: what measures, in one sentence.
    options: those that only this engine takes, by name, each with its type and its default.
    begin: makes the engine from all options of the command line, by name.
    """

    name: str
    help: str
    options: dict[str, tuple[Any, Any]]
    begin: Callable[[dict[str, Any]], AbstractContextManager[Engine]]


class ProcessHost:
    """A host whose processes a server forks.

    server: forks them.
    one_thread: whether each process has one thread, because it shares the cores with others.
    """

    def __init__(self, server: Server, *, one_thread: bool = False) -> None:
        self._server, self._one_thread = server, one_thread

    def carry_out(self, order: Order) -> Iterator[Event]:
        """Carry out an order in a forked process. On a CPU the server loads the model, once for all of them."""
        # A context of the GPU cannot be forked.
        child = self._server.fork(order if order.study.device.startswith("cpu") else None)
        try:
            child.ask("measure", order.model_copy(update={"one_thread": self._one_thread}))
            yield from answers_of(child)
        finally:
            child.stop()


class ThisMachine(Server):
    """The engine of one command, and the server of its processes.

    As many processes as there are cores count at the same time, and one after another times.
    """

    def counting(self, study: Study) -> Sequence[Host]:
        """One host for each core, because each process uses one thread. On a GPU one host."""
        if not study.device.startswith("cpu"):
            return self.timing(study)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return [ProcessHost(self, one_thread=True)] * cores if cores > 1 else self.timing(study)

    def timing(self, study: Study) -> Sequence[Host]:  # noqa: ARG002 - as in `Engine`
        """The whole machine."""
        return [ProcessHost(self)]


def drive(
    hosts: Sequence[Host],
    next_order: Callable[[], Order | None],
    handle: Callable[[Order, Event], None],
    done: Callable[[Order], None] = lambda _: None,
) -> None:
    """Give each free host the next order, until there is none and all are done.

    next_order: is asked whenever a host is free, and after each order that is done. None: there is none now.
    handle: is called in this thread alone, with each thing that an order tells.
    done: is called when an order is done.
    Raises the first error of an order. If a host is lost, its order is given again. Raises MeasurementError if that
    happens to an order ATTEMPTS times, or if every host is lost LOSSES times in a row.
    """
    news: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    free, again = deque(enumerate(hosts)), deque[Order]()
    busy, lost, losses = 0, Counter[int](), Counter[int]()

    def work(number: int, host: Host, order: Order) -> None:
        try:
            for event in host.carry_out(order):
                news.put((order, event))
        except BaseException as error:  # it is raised in the thread of the driver
            news.put((order, None, number, host, error))
        else:
            news.put((order, None, number, host, None))

    while True:
        while free and (order := again.popleft() if again else next_order()) is not None:
            threading.Thread(target=work, args=(*free.popleft(), order), daemon=True).start()
            busy += 1
        if not busy:
            if again:
                raise MeasurementError("every host is lost; what was measured before is kept")
            return
        order, event, *ended = news.get()
        if event is not None:
            handle(order, event)
            continue
        number, host, error = ended
        busy -= 1
        if isinstance(error, HostLost):
            lost[order.number] += 1
            losses[number] += 1
            if lost[order.number] == ATTEMPTS:
                raise MeasurementError(f"{ATTEMPTS} hosts were lost, one after another: {error}") from error
            again.append(order)
        elif error is not None:
            raise error
        else:
            losses[number] = 0
            done(order)
        if losses[number] < LOSSES:
            free.append((number, host))
