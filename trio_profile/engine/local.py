"""Measure a study of cells on this machine: first the counts and answers, in several processes at once; then the times.

One process after another times all cells, and nothing else runs meanwhile. Timing ends when every interval is as narrow
as asked, or when its time is spent. Only this process writes to the log.
"""

import os
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trio_profile import units
from trio_profile.analysis.times import round_over_process, spent_seconds, widest
from trio_profile.engine.processes import Server, require_known_methods, taken
from trio_profile.engine.shares import Part, Parts, shares_of
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.inputs.host import command_line
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.differences import require_same
from trio_profile.records.schema import Dense, Measurement, Picture, Round, Session, Study
from trio_profile.records.store import Store
from trio_profile.records.study import MOST_PROCESSES, PROCESSES
from trio_profile.records.workers import is_for_workers

WORTH_STARTING = 0.5
"""Another process begins if this share of what the last one took is left of the time."""
_PARTS: TypeAdapter[Any] = TypeAdapter(Part)
_TIMES: TypeAdapter[Any] = TypeAdapter(Round | Measurement)

Handle = Callable[[dict[str, Any]], None]


def run(study: Study, directory: Path, watch: Watch = ignore, *, keep_refusals: bool = False) -> Contents:
    """Measure what the directory does not hold yet. Return the contents of its log.

    A study of one process is measured in this one, because the user may want that: to measure a method of a script.

    watch: called with each step.
    keep_refusals: whether a refused cell becomes a record. Otherwise nothing is measured if a method refuses a cell.
    Raises StoreError if the directory holds another study, or if workers measure it. Raises StudyError, a TrioError or
    MeasurementError if the study cannot be measured; what was measured before is kept.
    """
    store = Store(directory)
    contents = store.read() if store.exists() else None
    if contents is not None:
        require_same("study", contents.study.identity(), study.identity(), directory)  # before a model is loaded
        contents.study = study
        if is_counted(study, contents) and is_timed(study, contents):
            from trio_profile.inputs.digest import input_digests
            from trio_profile.inputs.environment import collect

            return store.require(
                study, collect(study.device, fresh=not is_in_this_process(study)), input_digests(study)
            )
    if is_for_workers(directory):
        raise StoreError(f"workers measure the study in {directory}: run `trio-profile work {directory}`")
    if not is_in_this_process(study):
        require_known_methods(study)
    return _Run(study, store, contents, watch, keep_refusals=keep_refusals).measure()


def is_in_this_process(study: Study) -> bool:
    """Return whether a study is measured in this process: the user asks for one process."""
    return study.processes == 1


def uncounted(study: Study, contents: Contents | None) -> list[str]:
    """Return the ids of the cells that are not counted yet, and were not refused. Those that failed count again."""
    cells = {} if contents is None else contents.cells
    return [
        cell.id
        for cell in study.cells()
        if cell.id not in cells or (cells[cell.id].counted is None and not _is_refused(cells[cell.id]))
    ]


def is_counted(study: Study, contents: Contents) -> bool:
    """Return whether every cell is counted or refused, and the dense model is counted."""
    return contents.dense is not None and not uncounted(study, contents)


def is_timed(study: Study, contents: Contents, skip: Collection[str] = ()) -> bool:
    """Return whether timing has ended: every interval is as narrow as asked, or the time is spent.

    skip: ids of cells that failed, and are not tried again now.
    """
    counted = [one for name, one in contents.cells.items() if one.counted is not None and name not in skip]
    if not counted:
        return True  # there is nothing to time
    if any(not one.pairs or one.reason is not None for one in counted):
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


def _is_refused(measurement: Measurement) -> bool:
    return measurement.status == "refused"


@dataclass
class _Run:
    """One run of a study: it asks for processes, and writes what they send."""

    study: Study
    store: Store
    contents: Contents | None
    watch: Watch
    keep_refusals: bool
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _begin: float = field(default_factory=time.monotonic)
    _counting_seconds: float = 0.0
    _needed: float = float("inf")

    def measure(self) -> Contents:
        """Count and ask, then time."""
        with ExitStack() as stack:
            server = None if is_in_this_process(self.study) else stack.enter_context(taken())
            if self.contents is None or not is_counted(self.study, self.contents):
                self._count(server)
            self._counting_seconds = time.monotonic() - self._begin
            self._time(server)
        assert self.contents is not None
        failed = [one for one in self.contents.cells.values() if one.reason is not None and one.counted is not None]
        self.watch(Step(f"{units.number_of(len(failed), 'cell')} failed" if failed else "all cells are measured"))
        return self.contents

    # Counts and answers

    def _count(self, server: Server | None) -> None:
        shares = self._processes_that_count(server)
        cells = uncounted(self.study, self.contents)
        needs_dense = self.contents is None or self.contents.dense is None
        counts = shares_of(cells, shares, with_dense=needs_dense)
        gathering = _Gathering(self, shares, len(cells))
        requests = [
            {
                **self._request(),
                "one_thread": shares > 1,
                "share": {
                    "number": number,
                    "of": shares,
                    "counts": counts[number],
                    "answers": cells,
                    "dense": needs_dense and number == 0,
                    "picture": number == 0 and bool(cells) and (self.contents is None or self.contents.picture is None),
                },
            }
            for number in range(shares)
        ]
        if server is None:
            from trio_profile.engine import tasks

            tasks.count(requests[0], lambda answer: gathering.handle(0, answer))
            return
        children = [server.ask("count", request, load=self._loads_once()) for request in requests]
        errors: list[BaseException] = []

        def listen(number: int) -> None:
            try:
                for answer in children[number].answers():
                    gathering.handle(number, answer)
            except BaseException as error:
                errors.append(error)
                for child in children:  # the others would count in vain
                    child.stop()

        with ThreadPoolExecutor(shares) as pool:
            ends = [pool.submit(listen, number) for number in range(shares)]
            try:
                wait(ends)
            except BaseException:
                server.close()
                raise
        if errors:
            raise errors[0]  # the others were stopped then, and say only that

    def _processes_that_count(self, server: Server | None) -> int:
        """Return how many processes count: on a CPU as many as there are cores, because each uses one thread."""
        if server is None or not self._loads_once():
            return 1
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1

    def _loads_once(self) -> bool:
        """Return whether the server loads the model. A context of the GPU cannot be forked."""
        return self.study.device.startswith("cpu")

    # Times

    def _time(self, server: Server | None) -> None:
        assert self.contents is not None
        tried: set[str] = set()
        while not is_timed(self.study, self.contents, tried):
            cells = [name for name, one in self.contents.cells.items() if one.counted is not None and name not in tried]
            sessions = len({measured.session for measured in self.contents.rounds})
            rounds, begin = len(self.contents.rounds), time.monotonic()
            spent = spent_seconds(self.contents)
            whole = whole_seconds(self.study)
            generating = sum(one.seconds for one in self.contents.rounds if one.phase == "generation")
            left = max(whole - spent, 0.0)
            allowance = {"left": left, "whole": whole, "generating": generating, "processes": self.study.processes}
            if (ratio := round_over_process(self.contents)) is not None:
                allowance["ratio"] = ratio
            request = {**self._request(), "cells": cells, "allowance": allowance, "number": sessions + 1}

            def handle(
                answer: dict[str, Any], number: int = sessions + 1, begin: float = begin, spent: float = spent
            ) -> None:
                if "session" in answer:
                    self._open(Session.model_validate(answer["session"]))
                elif "step" in answer:
                    now = spent + time.monotonic() - begin
                    self._show(f"process {number}: {answer['step'][0]}", now)
                else:
                    for record in answer["records"]:
                        self._write(_TIMES.validate_python(record))

            if server is None:
                from trio_profile.engine import tasks

                tasks.time(request, handle)
            else:
                for answer in server.ask("time", request, load=self._loads_once()).answers():
                    handle(answer)
            self._foresee()
            # A cell that failed in this run is not tried again by the next process.
            tried |= {name for name, one in self.contents.cells.items() if one.reason is not None}
            if len(self.contents.rounds) == rounds and not tried.intersection(cells):
                raise MeasurementError(
                    f"process {sessions + 1} measured nothing in {self.store.directory}: measure again"
                )

    # The log

    def _request(self) -> dict[str, Any]:
        return {
            "study": self.study.model_dump(mode="json"),
            "command": command_line(),
            "keep_refusals": self.keep_refusals,
        }

    def _open(self, session: Session) -> None:
        """Begin a session: the first one of this run opens the log."""
        with self._lock:
            if self.store.session:
                assert self.contents is not None
                self.contents.add(session)
                self.store.append(session)
                self.store.session = session.id
            else:
                self.contents = self.store.open(self.study, session)

    def _write(self, record: Dense | Picture | Measurement | Round) -> None:
        assert self.contents is not None
        with self._lock:
            self.contents.add(*self.store.append(record))

    def _show(self, text: str, spent: float) -> None:
        """Show a step of the timing. spent: its seconds so far."""
        whole = min(whole_seconds(self.study), max(self._needed, spent))
        self.watch(Step(text, self._counting_seconds + min(spent, whole), self._counting_seconds + whole))

    def _foresee(self) -> None:
        """Foresee when the intervals are as narrow as asked: their width falls with the root of the time."""
        assert self.contents is not None
        too_wide = widest(self.contents) / self.study.precision
        self._needed = spent_seconds(self.contents) * too_wide**2


class _Gathering:
    """Puts together what several processes count, and writes each record that is complete."""

    def __init__(self, run: _Run, shares: int, cells: int):
        self.run, self.shares, self.cells = run, shares, cells
        self.parts: Parts | None = None
        self._progress = [0.0] * shares
        self._early: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def handle(self, number: int, answer: dict[str, Any]) -> None:
        """Take an answer of one process. All shares belong to the session of the first process."""
        with self._lock:
            if "session" in answer:
                if number == 0:
                    self.run._open(Session.model_validate(answer["session"]))
                    self.parts = Parts(self.shares, asks=answer["asks"])
                    for record in self._early:
                        self._add(record)
            elif "step" in answer:
                text, done, total = answer["step"]
                self._progress[number] = done / total if total else self._progress[number]
                self._show(text)
            else:
                for record in answer["records"]:
                    self._add(record)

    def _add(self, record: dict[str, Any]) -> None:
        if self.parts is None:  # the first process has not loaded the model yet
            self._early.append(record)
            return
        for complete in self.parts.add(_PARTS.validate_python(record)):
            if not isinstance(complete, Dense) or self.run.contents is None or self.run.contents.dense is None:
                self.run._write(complete)

    def _show(self, text: str) -> None:
        done, share = time.monotonic() - self.run._begin, min(self._progress)
        whole = done / share if share else 0.0
        self.run.watch(Step(text, done if whole else 0.0, whole + whole_seconds(self.run.study) if whole else 0.0))
