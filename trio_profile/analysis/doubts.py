"""The doubts about a study: reasons not to trust its numbers. Each is a row: question, test, threshold, next step.

A wide interval is no doubt: it is visible. Thresholds come from the tools or the measurements that are named next to
them.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from trio_profile import units
from trio_profile.records.schema import (
    Cell,
    Disturbance,
    Measurement,
    Record,
    Round,
    Session,
    Study,
)
from trio_profile.records.study import PROCESSES
from trio_profile.records.timing import LEAST_CLOCK
from trio_profile.stats.intervals import median

LEAST_ROUNDS = 6
"""With fewer rounds, nothing says how far the next one may differ."""
DISTURBED = 0.05
"""A run is disturbed if a thread waited for a CPU for this share of its time: the times may be too long by as much.
From run to run they differ by about 1 % on a quiet machine."""

Seen = TypeVar("Seen")
Facts = dict[str, Any]
"""What a test found: `found`, the number, and the words that its sentences name."""


class Doubt(Record):
    """A reason not to trust some numbers.

    cell: the cell with these numbers; None for the whole study.
    kind: name of the test that failed.
    sentence: what the test found.
    next_step: what the user can do.
    found: the number that the test computed.
    threshold: the number that it was compared with.
    """

    cell: Cell | None
    kind: str
    sentence: str
    next_step: str
    found: float
    threshold: float


@dataclass(frozen=True)
class Row(Generic[Seen]):
    """One doubt: how it is tested, and what is said if it is raised.

    kind: its name.
    question: what the test asks. A yes is a doubt.
    test: returns the facts of each case, by what was seen. Facts may have a `kind`, a `cell` or a `threshold` of their
        own.
    threshold: the largest number without a doubt; with `at_least`, the smallest one. None: each case is a doubt, and
        its facts have the threshold.
    sentence, next_step: templates, which the facts fill in.
    """

    kind: str
    question: str
    test: Callable[[Seen], Iterable[Facts]]
    threshold: float | None
    sentence: str
    next_step: str
    at_least: bool = False


def doubts_of(rows: Iterable[Row[Seen]], seen: Seen) -> Iterator[Doubt]:
    """Yield the doubts that the rows raise about what was seen, in the order of the rows."""
    for row in rows:
        for facts in row.test(seen):
            found, limit = facts["found"], facts.get("threshold", row.threshold)
            if row.threshold is None or (found < limit if row.at_least else found > limit):
                yield Doubt(
                    cell=facts.get("cell"),
                    kind=facts.get("kind", row.kind),
                    sentence=row.sentence.format(**facts),
                    next_step=row.next_step.format(**facts),
                    found=found,
                    threshold=limit,
                )


def cell_name(cell: Cell | None) -> str:
    """Return a cell's name for a sentence: `trio at 33.0 %`."""
    if cell is None:
        return "the whole study"
    return f"{cell.variant} at {units.percent(cell.retention)}"


def doubted_cells(doubts: Sequence[Doubt], cells: Collection[Cell]) -> dict[str, tuple[str, ...]]:
    """Return the kinds of doubt about each doubted cell, by the cell's id. Each kind is named once.

    cells: the cells that are asked about. Doubts about the whole study are left out.
    """
    ids, kinds = {cell.id for cell in cells}, dict[str, dict[str, None]]()
    for doubt in doubts:
        if doubt.cell is not None and doubt.cell.id in ids:
            kinds.setdefault(doubt.cell.id, {})[doubt.kind] = None
    return {id: tuple(names) for id, names in kinds.items()}


# A study that is measured cell by cell


@dataclass(frozen=True)
class Measured:
    """The records of a study.

    sessions: in the order in which they began. rounds: in the order of measurement.
    """

    study: Study
    measurements: Sequence[Measurement]
    sessions: Sequence[Session] = ()
    rounds: Sequence[Round] = ()

    @cached_property
    def done(self) -> list[Measurement]:
        """The finished cells."""
        return [measurement for measurement in self.measurements if measurement.status == "done"]

    @cached_property
    def counted(self) -> list[Round]:
        """The rounds without those that warm up."""
        return [measured for measured in self.rounds if measured.phase != "warm-up"]

    @cached_property
    def timed(self) -> list[Session]:
        """The sessions that timed something."""
        timing = {measured.session for measured in self.rounds}
        return [session for session in self.sessions if session.id in timing]

    @property
    def again(self) -> str:
        """How long the whole study takes again, in brackets, for the end of a next step; empty if it is not known."""
        seconds = sum(measured.seconds for measured in self.rounds)
        return f" (about {units.duration(seconds)}, and a model to load in each process)" if seconds else ""

    def sessions_where(self, holds: Callable[[Session], bool]) -> Facts:
        """The number of the sessions with times for which something holds, and that number in words."""
        count, of = sum(map(holds, self.timed)), len(self.timed)
        whole = "the only session" if of == 1 else f"all {of} sessions"
        sessions = whole if count == of else f"{count} of {of} sessions"
        return {"found": count, "sessions": sessions, "again": self.again}


def doubts(
    study: Study,
    measurements: Sequence[Measurement],
    sessions: Sequence[Session] = (),
    rounds: Sequence[Round] = (),
) -> list[Doubt]:
    """Return all doubts about a study: first those about the whole study, then those about single cells."""
    return list(doubts_of(ROWS, Measured(study, measurements, sessions, rounds)))


def is_disturbed(disturbance: Disturbance) -> bool:
    """Return whether a thread of a run waited for a CPU for so long that the times are doubted."""
    return _waited(disturbance) > DISTURBED


def _commits(seen: Measured) -> Iterator[Facts]:
    ids = {one.session for one in (*seen.measurements, *(t for m in seen.measurements for t in m.timings))}
    measuring = (session for session in seen.sessions if session.id in ids)
    codes = dict.fromkeys(session.environment.commit or session.version or "unknown" for session in measuring)
    yield {
        "found": len(codes),
        "versions": units.number_of(len(codes), "version"),
        "codes": ", ".join(codes),
        "again": seen.again,
    }


def _few_rounds(seen: Measured) -> Iterator[Facts]:
    fewest = min((len(measurement.pairs) for measurement in seen.done), default=LEAST_ROUNDS)
    blocks, spent = len(seen.study.blocks()), sum(measured.seconds for measured in seen.rounds)
    needed = max(1.2 * spent * LEAST_ROUNDS / max(fewest, 1) / max(blocks, 1), seen.study.seconds + 1)
    longer = f"--seconds {ceil(needed)}"
    if seen.study.processes is not None:
        more = seen.study.processes + 1  # each process has its share of the time
        longer = f"--seconds {ceil(more * needed)} --processes {more}"
    yield {
        "found": fewest,
        "rounds": units.number_of(fewest, "round"),
        "longer": longer,
        "time": units.duration(max(needed * blocks - spent, 0)),
    }


def _one_process(seen: Measured) -> Iterator[Facts]:
    few, of = sum(len(measurement.timings) < 2 for measurement in seen.done), len(seen.done)
    if few:
        cells = "every cell was" if few == of else f"{few} of {of} cells were"
        yield {"found": 1, "cells": cells, "command": _command(seen.sessions), "again": seen.again}


def _command(sessions: Sequence[Session]) -> str:
    """Return the command line of the first session with several processes and another directory."""
    more = f"--processes {PROCESSES} --out ANOTHER"
    try:
        words = shlex.split(sessions[0].command) if sessions else []
    except ValueError:  # a quote that is not closed
        words = []
    program = PurePath(words[0]) if words else PurePath()
    if program.name != "trio-profile" and not (program.name == "__main__.py" and "trio_profile" in program.parts):
        return more
    kept, options = ["trio-profile"], iter(words[1:])
    for word in options:
        if word in ("--processes", "--out"):
            next(options, None)
        elif not word.startswith(("--processes=", "--out=")):
            kept.append(word)
    return f"{shlex.join(kept)} {more}"


def _threads(policy: str) -> Callable[[Measured], Iterator[Facts]]:
    """The test for sessions whose waiting threads have a policy. On a GPU they do not take part."""

    def test(seen: Measured) -> Iterator[Facts]:
        if not seen.study.device.startswith("cuda"):
            yield seen.sessions_where(lambda session: (session.environment.wait_policy or "") == policy)

    return test


def _slow_clock(seen: Measured) -> Iterator[Facts]:
    rounds = seen.counted
    highest = max((measured.clock_mhz or 0 for measured in rounds), default=0)
    slow = [r for r in rounds if r.discarded or (r.clock_mhz is not None and r.clock_mhz < LEAST_CLOCK * highest)]
    named = ", ".join(sorted({reason for measured in rounds for reason in measured.slowed_by}))
    yield {
        "found": len(slow) / max(len(rounds), 1),
        "slow": f"{len(slow)} of {units.number_of(len(rounds), 'round')}",
        "clock": units.percent(LEAST_CLOCK, 0),
        "reasons": f" ({named})" if named else "",
        "discarded": sum(measured.discarded for measured in slow),
    }


def _busy_runs(seen: Measured) -> Iterator[Facts]:
    """The share of runs that waited for a CPU.

    d disturbed runs of n move a median by at most d / 2 ranks. So if half of the runs are disturbed, a median may be
    the time of a disturbed run. Disturbances that differ between rounds widen the intervals. Those that all rounds
    share do not.
    """
    known = [run.disturbance for measured in seen.counted for run in measured.runs if run.disturbance is not None]
    waits = [_waited(disturbance) for disturbance in known if is_disturbed(disturbance)]
    share = len(waits) / max(len(known), 1)
    waited = units.percent(median(waits), 0) if waits else ""
    yield {"found": share, "share": units.percent(share, 0), "waited": waited, "again": seen.again}


def _waited(disturbance: Disturbance) -> float:
    """Return the share of its time in which a run waited for a CPU; 0 where the system hides it."""
    return (disturbance.delay_ms or 0.0) / 1000 / disturbance.seconds if disturbance.seconds > 0 else 0.0


def _failures(seen: Measured) -> Iterator[Facts]:
    """The cells that failed in a process, so that they have the times of fewer processes than other cells."""
    processes = len({measured.session for measured in seen.rounds})
    for cell in seen.done:
        if cell.reason:
            yield {"found": len(cell.timings), "threshold": processes, "cell": cell.cell, "reason": cell.reason}


ROWS: tuple[Row[Measured], ...] = (
    Row(
        "commits",
        "Did several versions of the code measure the study?",
        _commits,
        1,
        "the study was measured by {versions} of the code ({codes}): a difference between its cells may be a "
        "difference of the code",
        "measure it again with one version, into another --out{again}",
    ),
    Row(
        "rounds",
        "Has a cell too few rounds for an interval?",
        _few_rounds,
        LEAST_ROUNDS,
        f"{{rounds}} of prefills is too few for an interval, which needs {LEAST_ROUNDS}",
        "run the same command with {longer}: it goes on, and takes about {time} more",
        at_least=True,
    ),
    Row(
        "sessions",
        "Is the spread between processes unknown?",
        _one_process,
        2,
        "{cells} measured in one process: another run may differ by more than the interval",
        "measure again in several processes: {command}{again}",
        at_least=True,
    ),
    Row(
        "threads",
        "Is it unknown whether waiting threads slept?",
        _threads(""),
        0,
        "in {sessions} it is not known whether waiting threads slept",
        "measure again with this version of trio-profile, into another --out{again}",
    ),
    Row(
        "threads",
        "Did waiting threads spin?",
        _threads("active"),
        0,
        "in {sessions} waiting threads spun instead of sleeping: beside other work, times are much too long and vary",
        "unset OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME and KMP_LIBRARY (in Python, call trio_profile before you "
        "import torch), and measure into another --out{again}",
    ),
    Row(
        "clock",
        "Was the GPU slow during some rounds? Such a round was discarded, or it is among the samples.",
        _slow_clock,
        0,
        "in {slow} the GPU ran below {clock} of its clock{reasons}; {discarded} of them were discarded",
        "lock the clocks below the power limit: nvidia-smi -lgc",
    ),
    Row(
        "strangers",
        "Did other processes use the GPU?",
        lambda seen: [{"found": max((measured.strangers for measured in seen.counted), default=0)}],
        0,
        "{found} other processes used the GPU: their work is in these times",
        "wait for them, or choose another device (nvidia-smi lists them)",
    ),
    Row(
        "busy",
        "Did other processes take the CPU in more than half of the runs, so that medians are those of disturbed runs?",
        _busy_runs,
        0.5,
        "other processes had the CPU in {share} of all runs, for {waited} of their time",
        "close other work on this machine, or measure with one thread (OMP_NUM_THREADS=1) into another --out{again}",
    ),
    Row(
        "sessions",
        "Did a cell fail in a process, so that it has the times of fewer processes than other cells?",
        _failures,
        None,
        "it was measured in {found} of {threshold} processes, and then it failed: {reason}",
        "run the same command again: it measures what is missing",
    ),
)
"""The doubts about a study that is measured cell by cell, those about the whole study first."""
