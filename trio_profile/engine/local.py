"""Measure a study of cells on this machine: first the counts and answers, in several processes at once; then the times.

One process after another times all cells, and nothing else runs meanwhile. Timing ends when every interval is as narrow
as asked, or when its time is spent. Only this process writes to the log.
"""

import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trio_profile import units
from trio_profile.analysis.times import round_over_process, spent_seconds, widest
from trio_profile.engine.orders import USUAL_RATIO, Allowance, Event, Order, Share
from trio_profile.engine.processes import Server, carry_out, require_known_methods, taken
from trio_profile.engine.shares import Parts, shares_of
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.inputs.host import command_line
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.differences import require_same
from trio_profile.records.schema import Session, Study
from trio_profile.records.store import Store
from trio_profile.records.study import MOST_PROCESSES, PROCESSES
from trio_profile.records.workers import is_for_workers

WORTH_STARTING = 0.5
"""Another process begins if this share of what the last one took is left of the time."""


def run(study: Study, directory: Path, watch: Watch = ignore, *, keep_refusals: bool = False) -> Contents:
    """Measure what the directory does not hold yet. Return the contents of its log.

    A study of one process is measured in this one, because the user may want that: to measure a method of a script.

    watch: called with each step.
    keep_refusals: whether a refused cell becomes a record. Otherwise nothing is measured if a method refuses a cell.
    Raises StoreError if the directory holds another study, or if workers measure it. Raises StudyError, a TrioError or
    MeasurementError if the study cannot be measured; what was measured before is kept.
    """
    store = Store(directory)
    contents = store.read() if store.exists() else Contents(study)
    require_same("study", contents.study.identity(), study.identity(), directory)  # before a model is loaded
    contents.study = study
    if is_counted(study, contents) and is_timed(study, contents):
        from trio_profile.inputs.digest import input_digests
        from trio_profile.inputs.environment import collect

        return store.require(study, collect(study.device, fresh=not is_in_this_process(study)), input_digests(study))
    if is_for_workers(directory):
        raise StoreError(f"workers measure the study in {directory}: run `trio-profile work {directory}`")
    if not is_in_this_process(study):
        require_known_methods(study)
    return _Run(study, store, contents, watch, keep_refusals=keep_refusals).measure()


def is_in_this_process(study: Study) -> bool:
    """Return whether a study is measured in this process: the user asks for one process."""
    return study.processes == 1


def uncounted(study: Study, contents: Contents) -> list[str]:
    """Return the ids of the cells that are not counted yet, and were not refused. Those that failed count again."""
    ended = {name for name, cell in contents.cells.items() if cell.counted is not None or cell.status == "refused"}
    return [cell.id for cell in study.cells() if cell.id not in ended]


def is_counted(study: Study, contents: Contents) -> bool:
    """Return whether every cell is counted or refused, and the dense model is counted."""
    return contents.dense is not None and not uncounted(study, contents)


def is_timed(study: Study, contents: Contents, skip: Collection[str] = ()) -> bool:
    """Return whether timing has ended: every interval is as narrow as asked, or the time is spent.

    skip: ids of cells that failed, and are not tried again now.
    """
    counted = [cell for name, cell in contents.cells.items() if cell.counted is not None and name not in skip]
    if not counted:
        return True  # there is nothing to time
    if any(not cell.pairs or cell.reason is not None for cell in counted):
        return False
    sessions = len({measured.session for measured in contents.rounds})
    if study.processes is not None:
        return sessions >= study.processes
    if sessions >= PROCESSES and widest(contents) <= study.precision:
        return True
    spent = spent_seconds(contents)
    return sessions >= MOST_PROCESSES or spent + WORTH_STARTING * spent / sessions > whole_seconds(study)


def whole_seconds(study: Study) -> float:
    """Return the seconds of all processes that time a study."""
    return study.seconds * len(study.blocks())


@dataclass
class _Run:
    """One run of a study: it gives orders to processes, and writes what they tell."""

    study: Study
    store: Store
    contents: Contents
    watch: Watch
    keep_refusals: bool
    _begin: float = field(default_factory=time.monotonic)
    _counting_seconds: float = 0.0

    def measure(self) -> Contents:
        """Count and ask, then time."""
        with ExitStack() as stack:
            server = None if is_in_this_process(self.study) else stack.enter_context(taken())
            if not is_counted(self.study, self.contents):
                self._count(server)
            self._counting_seconds = time.monotonic() - self._begin
            self._time(server)
        failed = [cell for cell in self.contents.cells.values() if cell.reason is not None and cell.counted is not None]
        self.watch(Step(f"{units.number_of(len(failed), 'cell')} failed" if failed else "all cells are measured"))
        return self.contents

    def _count(self, server: Server | None) -> None:
        """Count and ask in several processes, and write each record that is complete."""
        shares = self._processes_that_count(server)
        cells = uncounted(self.study, self.contents)
        needs_dense = self.contents.dense is None
        needs_picture = bool(cells) and self.contents.picture is None
        counts = shares_of(cells, shares, with_dense=needs_dense)
        progress = [0.0] * shares

        def show(number: int, step: Step) -> None:
            progress[number] = step.done / step.total if step.total else progress[number]
            self._show_counting(step.text, min(progress))

        orders = [
            self._order(
                one_thread=shares > 1,
                share=Share(
                    number=number,
                    of=shares,
                    counts=tuple(counts[number]),
                    answers=tuple(cells),
                    dense=needs_dense and number == 0,
                    picture=needs_picture and number == 0,
                ),
            )
            for number in range(shares)
        ]
        self._carry_out(orders, show, server)

    def _carry_out(self, orders: Sequence[Order], show: Callable[[int, Step], None], server: Server | None) -> None:
        """Let a process carry out each order, and write each record that is complete.

        All records belong to the session that begins first. show: called with each step, and who takes it.
        """
        parts, sessions = Parts(len(orders)), list[Session]()

        def handle(number: int, event: Event) -> None:
            if isinstance(event, Step):
                show(number, event)
            elif isinstance(event, Session):
                sessions.append(event)
                if len(sessions) == 1:
                    self._open(event)
            else:
                for record in parts.add(event):
                    self._write(record)

        measure(orders, handle, server, load=self._loads_once())

    def _processes_that_count(self, server: Server | None) -> int:
        """Return how many processes count: on a CPU as many as there are cores, because each uses one thread."""
        if server is None or not self._loads_once():
            return 1
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def _loads_once(self) -> bool:
        """Return whether the server loads the model. A context of the GPU cannot be forked."""
        return self.study.device.startswith("cpu")

    def _time(self, server: Server | None) -> None:
        """Let one process after another time all cells, until timing has ended."""
        tried = set[str]()
        while not is_timed(self.study, contents := self.contents, tried):
            cells = [name for name, cell in contents.cells.items() if cell.counted is not None and name not in tried]
            number = 1 + len({measured.session for measured in contents.rounds})
            rounds, begin, spent = len(contents.rounds), time.monotonic(), spent_seconds(contents)
            whole = whole_seconds(self.study)
            allowance = Allowance(
                left=max(whole - spent, 0.0),
                whole=whole,
                generating=sum(measured.seconds for measured in contents.rounds if measured.phase == "generation"),
                processes=self.study.processes,
                ratio=round_over_process(contents) or USUAL_RATIO,
            )

            def show(_: int, step: Step, name: str = f"process {number}", since: float = begin - spent) -> None:
                self._show(f"{name}: {step.text}", time.monotonic() - since)

            order = self._order(times=tuple(cells), allowance=allowance, number=number)
            self._carry_out([order], show, server)
            # A cell that failed in this run is not tried again by the next process.
            tried |= {name for name, cell in self.contents.cells.items() if cell.reason is not None}
            if len(self.contents.rounds) == rounds and not tried.intersection(cells):
                raise MeasurementError(f"process {number} measured nothing in {self.store.directory}: measure again")

    def _order(self, **fields: Any) -> Order:
        return Order(study=self.study, command=command_line(), keep_refusals=self.keep_refusals, **fields)

    def _open(self, session: Session) -> None:
        """Begin a session: the first one of this run opens the log."""
        if self.store.session:
            self.contents.add(session)
            self.store.append(session)
            self.store.session = session.id
        else:
            self.contents = self.store.open(self.study, session)

    def _write(self, record: Any) -> None:
        self.contents.add(*self.store.append(record))

    def _show_counting(self, text: str, share: float) -> None:
        """Show a step of the counting. share: how much of it is done."""
        done = time.monotonic() - self._begin
        whole = done / share if share else 0.0
        self.watch(Step(text, done if whole else 0.0, whole + whole_seconds(self.study) if whole else 0.0))

    def _show(self, text: str, spent: float) -> None:
        """Show a step of the timing. spent: its seconds so far."""
        whole = whole_seconds(self.study)
        self.watch(Step(text, self._counting_seconds + min(spent, whole), self._counting_seconds + whole))


def measure(
    orders: Sequence[Order], handle: Callable[[int, Event], None], server: Server | None, *, load: bool = False
) -> None:
    """Give each order to a process of its own, and hear them until all are done.

    handle: is called with the number of the process, from 0, and with each thing that it tells.
    server: forks the processes. None: this process carries out the only order itself.
    load: whether the server loads the model, so that the processes have it.
    Raises the first error that a process meets.
    """
    if server is None:
        from trio_profile.engine import measuring

        def say(events: Sequence[Event]) -> None:
            for event in events:
                handle(0, event)

        measuring.measure(orders, say)
        return
    children = [server.fork(orders[0] if load else None) for _ in orders]
    try:
        for number, event in carry_out(orders, children):
            handle(number, event)
    finally:
        for child in children:
            child.stop()
