"""The doubts about a study: reasons not to trust its numbers. Each is a row: question, test, threshold, next step.

A wide interval is no doubt: it is visible. Thresholds come from the tools or the measurements that are named next to
them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Generic, TypeVar

from trio_profile import units
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Cell, Disturbance, Record, Round, Session
from trio_profile.records.study import PROCESSES
from trio_profile.records.timing import LEAST_CLOCK
from trio_profile.stats.intervals import median

LEAST_ROUNDS = 6
"""With fewer rounds, nothing says how far the next one may differ."""
DISTURBED = 0.05
"""A run is disturbed if a thread waited for a CPU for this share of its time: the times may be too long by as much.
From run to run they differ by about 1 % on a quiet machine."""
BUSY_START = 0.10
"""From this share of all CPUs' time on, other work at the start of a session is a doubt. An idle desktop uses less."""

Subject = TypeVar("Subject")
Facts = dict[str, Any]
"""The result of a test: `found`, the number, and the words that its sentences name."""


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
class Row(Generic[Subject]):
    """One doubt: how it is tested, and what is said if it is raised.

    kind: its name.
    question: the question that the test answers. A yes is a doubt.
    test: returns the facts of each case, of the subject. Facts may have a `kind`, a `cell` or a `threshold` of their
        own.
    threshold: the largest number without a doubt; with `at_least`, the smallest one. None: each case is a doubt, and
        its facts have the threshold.
    sentence, next_step: templates, which the facts fill in.
    """

    kind: str
    question: str
    test: Callable[[Subject], Iterable[Facts]]
    threshold: float | None
    sentence: str
    next_step: str
    at_least: bool = False


def doubts_of(rows: Iterable[Row[Subject]], subject: Subject) -> Iterator[Doubt]:
    """Yield the doubts that the rows raise about a subject, in the order of the rows."""
    for row in rows:
        for facts in row.test(subject):
            number, limit = facts["found"], facts.get("threshold", row.threshold)
            if row.threshold is None or (number < limit if row.at_least else number > limit):
                yield Doubt(
                    cell=facts.get("cell"),
                    kind=facts.get("kind", row.kind),
                    sentence=row.sentence.format(**facts),
                    next_step=row.next_step.format(**facts),
                    found=number,
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


TRANSPARENT = "transparent"
"""A doubt about what the model sees. It says nothing of times."""


def of_transparent_pictures(sessions_of: Callable[[Subject], Iterable[Session]]) -> Row[Subject]:
    """Return the doubt about pictures that not every program shows alike. sessions_of: those of a subject."""

    def test(subject: Subject) -> Iterator[Facts]:
        sessions = [session.inputs.values() for session in sessions_of(subject)]
        most = max((sum(digest.transparent or 0 for digest in digests) for digests in sessions), default=0)
        yield {"found": most, "pictures": f"{units.number_of(most, 'picture')} {'has' if most == 1 else 'have'}"}

    return Row(
        TRANSPARENT,
        "Do pictures have transparent parts, which not every program shows alike?",
        test,
        0,
        "{pictures} transparent parts. The model sees them on white, as processors of transformers show a picture that "
        "was not converted; `pipeline`, `load_image` and many servers show the colours below them, often black",
        "save the pictures without transparency, and measure into another --out",
    )


# A study that is measured cell by cell


def doubts(contents: Contents) -> list[Doubt]:
    """Return all doubts about a study: first those about the whole study, then those about single cells."""
    return list(doubts_of(ROWS, contents))


def _counted(contents: Contents) -> list[Round]:
    """Return the rounds without those that warm up."""
    return [measured for measured in contents.rounds if measured.phase != "warm-up"]


def _again(contents: Contents) -> str:
    """Return how long the whole study takes again, in brackets, for the end of a next step; empty if not known."""
    seconds = sum(measured.seconds for measured in contents.rounds)
    return f" (about {units.duration(seconds)}, and a model to load in each process)" if seconds else ""


def _timed(contents: Contents) -> list[Session]:
    """Return the sessions that timed something."""
    timing = {measured.session for measured in contents.rounds}
    return [session for session in contents.sessions if session.id in timing]


def _sessions_where(contents: Contents, holds: Callable[[Session], bool]) -> Facts:
    """Return the number of the sessions with times for which something holds, and that number in words."""
    timed = _timed(contents)
    count = sum(map(holds, timed))
    sessions = f"{count} of {units.number_of(len(timed), 'session')}"
    return {"found": count, "sessions": sessions, "again": _again(contents)}


def is_disturbed(disturbance: Disturbance) -> bool:
    """Return whether a thread of a run waited for a CPU for so long that the times are doubted."""
    return _waited(disturbance) > DISTURBED


def _commits(contents: Contents) -> Iterator[Facts]:
    cells = contents.measurements
    ids = {record.session for record in (*cells, *(timing for cell in cells for timing in cell.timings))}
    measuring = (session for session in contents.sessions if session.id in ids)
    codes = dict.fromkeys(session.environment.commit or session.version or "unknown" for session in measuring)
    yield {"found": len(codes), "codes": ", ".join(codes), "again": _again(contents)}


def _few_rounds(contents: Contents) -> Iterator[Facts]:
    study, blocks = contents.study, len(contents.study.blocks())
    fewest = min((len(cell.pairs) for cell in contents.done), default=LEAST_ROUNDS)
    spent = sum(measured.seconds for measured in contents.rounds)
    needed = max(1.2 * spent * LEAST_ROUNDS / max(fewest, 1) / max(blocks, 1), study.seconds + 1)
    longer = f"--seconds {ceil(needed)}"
    if study.processes is not None:
        more = study.processes + 1  # each process has its share of the time
        longer = f"--seconds {ceil(more * needed)} --processes {more}"
    time = units.duration(max(needed * blocks - spent, 0))
    yield {"found": fewest, "rounds": units.number_of(fewest, "round"), "longer": longer, "time": time}


def _one_process(contents: Contents) -> Iterator[Facts]:
    few, cells = sum(len(cell.timings) < 2 for cell in contents.done), units.number_of(len(contents.done), "cell")
    if few:
        yield {"found": 1, "few": few, "cells": cells, "again": _again(contents)}


def _threads(policy: str) -> Callable[[Contents], Iterator[Facts]]:
    """The test for sessions whose waiting threads have a policy. On a GPU they do not take part."""

    def test(contents: Contents) -> Iterator[Facts]:
        if not contents.study.device.startswith("cuda"):
            yield _sessions_where(contents, lambda session: session.environment.wait_policy == policy)

    return test


def _busy_start(contents: Contents) -> Iterator[Facts]:
    busiest = max((session.busy or 0.0 for session in _timed(contents)), default=0.0)
    sessions = _sessions_where(contents, lambda session: (session.busy or 0.0) > BUSY_START)
    yield sessions | {"found": busiest, "share": units.percent(busiest, 0)}


def _slow_clock(contents: Contents) -> Iterator[Facts]:
    rounds = _counted(contents)
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


def _busy_runs(contents: Contents) -> Iterator[Facts]:
    """The share of runs that waited for a CPU.

    d disturbed runs of n move a median by at most d / 2 ranks. So if half of the runs are disturbed, a median may be
    the time of a disturbed run. Disturbances that differ between rounds widen the intervals. Those that all rounds
    share do not.
    """
    known = [run.disturbance for measured in _counted(contents) for run in measured.runs if run.disturbance is not None]
    waits = [_waited(disturbance) for disturbance in known if is_disturbed(disturbance)]
    share = len(waits) / max(len(known), 1)
    waited = units.percent(median(waits), 0) if waits else ""
    yield {"found": share, "share": units.percent(share, 0), "waited": waited, "again": _again(contents)}


def _waited(disturbance: Disturbance) -> float:
    """Return the share of its time in which a run waited for a CPU; 0 where the system hides it."""
    return (disturbance.delay_ms or 0.0) / 1000 / disturbance.seconds if disturbance.seconds > 0 else 0.0


def _failures(contents: Contents) -> Iterator[Facts]:
    """The cells that failed in a process, so that they have the times of fewer processes than other cells."""
    processes = len({measured.session for measured in contents.rounds})
    for cell in contents.done:
        if cell.reason:
            yield {"found": len(cell.timings), "threshold": processes, "cell": cell.cell, "reason": cell.reason}


ROWS: tuple[Row[Contents], ...] = (
    Row(
        "commits",
        "Did several versions of the code measure the study?",
        _commits,
        1,
        "{found} versions of the code measured the study ({codes}): a difference between its cells may come from them",
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
        "one process alone measured {few} of {cells}: another run may differ by more than the interval",
        f"measure again with --processes {PROCESSES} --out ANOTHER{{again}}",
        at_least=True,
    ),
    Row(
        "threads",
        "Is it unknown whether waiting threads slept?",
        _threads(""),
        0,
        "in {sessions} it is not known whether waiting threads slept",
        "set no variable of OpenMP after Python has started, and measure into another --out{again}",
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
        "busy",
        "Did other processes use the machine when a session began?",
        _busy_start,
        BUSY_START,
        "other processes used {share} of the machine's CPU time at the start of {sessions}; from 10 % on, times are "
        "uncertain",
        "close other work on this machine",
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
        lambda contents: [{"found": max((measured.strangers for measured in _counted(contents)), default=0)}],
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
    of_transparent_pictures(lambda contents: contents.sessions),
)
"""The doubts about a study that is measured cell by cell, those about the whole study first."""
