"""The doubts about a study: reasons not to trust its numbers. `Doubts` declares them and finds them.

Each doubt is a function whose docstring asks the question that it answers. Its `Case` has the number, a sentence and
the next step. A kind of study with doubts of its own has them in its folder, such as `kinds/servers/doubts.py`.

A wide interval is no doubt: it is visible. Thresholds come from the tools or the measurements that are named next to
them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import ceil
from typing import Generic, NamedTuple, TypeVar

from trio_profile import units
from trio_profile.judge.times import seconds_again
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


class Case(NamedTuple):
    """A number to test, with what is said if it is a doubt.

    threshold: None if the number is still to be tested against the declared threshold. Otherwise the function has
        tested it already: the case is a doubt, and this is its threshold.
    The other fields are those of the doubt.
    """

    number: float
    sentence: str
    next_step: str
    cell: Cell | None = None
    threshold: float | None = None


Cases = Iterator[Case]
_Test = Callable[[Subject], Cases]


class Doubts(Generic[Subject]):
    """The doubts about one sort of study, in the order in which they are declared."""

    def __init__(self) -> None:
        self._tests: list[tuple[str, float, bool, _Test[Subject]]] = []

    def declare(
        self, kind: str, threshold: float = 0, *, at_least: bool = False
    ) -> Callable[[_Test[Subject]], _Test[Subject]]:
        """Return a decorator that declares a function of the subject as a doubt.

        kind: its name.
        threshold: the largest number without a doubt; with `at_least`, the smallest one.
        """

        def add(test: _Test[Subject]) -> _Test[Subject]:
            self._tests.append((kind, threshold, at_least, test))
            return test

        return add

    def about(self, subject: Subject) -> Iterator[Doubt]:
        """Yield the doubts about a subject."""
        for kind, threshold, at_least, test in self._tests:
            for number, sentence, next_step, cell, own in test(subject):
                if own is not None or (number < threshold if at_least else number > threshold):
                    limit = threshold if own is None else own
                    yield Doubt(
                        cell=cell, kind=kind, sentence=sentence, next_step=next_step, found=number, threshold=limit
                    )


def cell_name(cell: Cell | None) -> str:
    """Return a cell's name for a sentence: `trio at 33.0 %`."""
    if cell is None:
        return "the whole study"
    return f"{cell.variant} at {units.percent(cell.retention)}"


def doubted_cells(doubts: Sequence[Doubt], cells: Collection[Cell]) -> dict[str, tuple[str, ...]]:
    """Return the sentences of the doubts about each doubted cell, by the cell's id.

    cells: the cells that are asked about. Doubts about the whole study are left out.
    """
    ids, found = {cell.id for cell in cells}, dict[str, dict[str, None]]()
    for doubt in doubts:
        if doubt.cell is not None and doubt.cell.id in ids:
            found.setdefault(doubt.cell.id, {})[doubt.sentence] = None
    return {id: tuple(sentences) for id, sentences in found.items()}


TRANSPARENT = "transparent"
"""A doubt about what the model sees. It says nothing of times."""


def transparent_pictures(sessions: Iterable[Session]) -> Cases:
    """Do pictures have transparent parts, which not every program shows alike?"""
    inputs = [session.inputs.values() for session in sessions]
    most = max((sum(digest.transparent or 0 for digest in digests) for digests in inputs), default=0)
    yield Case(
        most,
        f"{units.number_of(most, 'picture')} {'has' if most == 1 else 'have'} transparent parts. The model sees them "
        "on white, as processors of transformers show a picture that was not converted; `pipeline`, `load_image` and "
        "many servers show the colours below them, often black",
        "save the pictures without transparency, and measure into another --out",
    )


# A study that is measured cell by cell: first the doubts about the whole study, then those about single cells

CELL_DOUBTS = Doubts[Contents]()


def doubts(contents: Contents) -> list[Doubt]:
    """Return all doubts about a study that is measured cell by cell."""
    return list(CELL_DOUBTS.about(contents))


def is_disturbed(disturbance: Disturbance) -> bool:
    """Return whether a thread of a run waited for a CPU for so long that the times are doubted."""
    return _waited(disturbance) > DISTURBED


def _waited(disturbance: Disturbance) -> float:
    """Return the share of its time in which a run waited for a CPU; 0 where the system hides it."""
    return (disturbance.delay_ms or 0.0) / 1000 / disturbance.seconds if disturbance.seconds > 0 else 0.0


def _counted(contents: Contents) -> list[Round]:
    """Return the rounds without those that warm up."""
    return [measured for measured in contents.rounds if measured.phase != "warm-up"]


def _again(contents: Contents) -> str:
    """Return how long the whole study takes again, in brackets, for the end of a next step; empty if not known."""
    seconds = seconds_again(contents)
    return f" (about {units.duration(seconds)}, and a model to load in each process)" if seconds else ""


def _sessions_where(contents: Contents, holds: Callable[[Session], bool]) -> tuple[int, str]:
    """Return the number of the sessions with times for which something holds, and that number in words."""
    timed = _timed(contents)
    count = sum(map(holds, timed))
    return count, f"{count} of {units.number_of(len(timed), 'session')}"


def _timed(contents: Contents) -> list[Session]:
    """Return the sessions that timed something."""
    timing = {measured.session for measured in contents.rounds}
    return [session for session in contents.sessions if session.id in timing]


@CELL_DOUBTS.declare("commits", 1)
def several_commits(contents: Contents) -> Cases:
    """Did several versions of the code measure the study?"""
    cells = contents.measurements
    ids = {record.session for record in (*cells, *(timing for cell in cells for timing in cell.timings))}
    measuring = (session for session in contents.sessions if session.id in ids)
    codes = dict.fromkeys(session.environment.commit or session.version or "unknown" for session in measuring)
    yield Case(
        len(codes),
        f"{len(codes)} versions of the code measured the study ({', '.join(codes)}): a difference between its cells "
        "may come from them",
        f"measure it again with one version, into another --out{_again(contents)}",
    )


@CELL_DOUBTS.declare("rounds", LEAST_ROUNDS, at_least=True)
def few_rounds(contents: Contents) -> Cases:
    """Has a cell too few rounds for an interval?"""
    study, blocks = contents.study, len(contents.study.blocks())
    fewest = min((len(cell.pairs) for cell in contents.done), default=LEAST_ROUNDS)
    spent = sum(measured.seconds for measured in contents.rounds)
    needed = max(1.2 * spent * LEAST_ROUNDS / max(fewest, 1) / max(blocks, 1), study.seconds + 1)
    longer = f"--seconds {ceil(needed)}"
    if study.processes is not None:
        more = study.processes + 1  # each process has its share of the time
        longer = f"--seconds {ceil(more * needed)} --processes {more}"
    time = units.duration(max(needed * blocks - spent, 0))
    yield Case(
        fewest,
        f"{units.number_of(fewest, 'round')} of prefills is too few for an interval, which needs {LEAST_ROUNDS}",
        f"run the same command with {longer}: it goes on, and takes about {time} more",
    )


@CELL_DOUBTS.declare("sessions", 2, at_least=True)
def one_process(contents: Contents) -> Cases:
    """Is the spread between processes unknown?"""
    if few := sum(len(cell.timings) < 2 for cell in contents.done):
        yield Case(
            1,
            f"one process alone measured {few} of {units.number_of(len(contents.done), 'cell')}: another run may "
            "differ by more than the interval",
            f"measure again with --processes {PROCESSES} --out ANOTHER{_again(contents)}",
        )


@CELL_DOUBTS.declare("threads")
def spinning_threads(contents: Contents) -> Cases:
    """Did waiting threads spin, or is it unknown whether they slept? On a GPU they do not take part."""
    if contents.study.device.startswith("cuda"):
        return
    count, sessions = _sessions_where(contents, lambda session: session.environment.wait_policy == "")
    yield Case(
        count,
        f"in {sessions} it is not known whether waiting threads slept",
        f"set no variable of OpenMP after Python has started, and measure into another --out{_again(contents)}",
    )
    count, sessions = _sessions_where(contents, lambda session: session.environment.wait_policy == "active")
    yield Case(
        count,
        f"in {sessions} waiting threads spun instead of sleeping: beside other work, times are much too long and vary",
        "unset OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME and KMP_LIBRARY (in Python, call trio_profile before "
        f"you import torch), and measure into another --out{_again(contents)}",
    )


@CELL_DOUBTS.declare("busy", BUSY_START)
def busy_start(contents: Contents) -> Cases:
    """Did other processes use the machine when a session began?"""
    busiest = max((session.busy or 0.0 for session in _timed(contents)), default=0.0)
    _, sessions = _sessions_where(contents, lambda session: (session.busy or 0.0) > BUSY_START)
    yield Case(
        busiest,
        f"other processes used {units.percent(busiest, 0)} of the machine's CPU time at the start of {sessions}; from "
        "10 % on, times are uncertain",
        "close other work on this machine",
    )


@CELL_DOUBTS.declare("clock")
def slow_clock(contents: Contents) -> Cases:
    """Was the GPU slow during some rounds? Such a round was discarded, or it is among the samples."""
    rounds = _counted(contents)
    highest = max((measured.clock_mhz or 0 for measured in rounds), default=0)
    slow = [r for r in rounds if r.discarded or (r.clock_mhz is not None and r.clock_mhz < LEAST_CLOCK * highest)]
    reasons = ", ".join(sorted({reason for measured in rounds for reason in measured.slowed_by}))
    yield Case(
        len(slow) / max(len(rounds), 1),
        f"in {len(slow)} of {units.number_of(len(rounds), 'round')} the GPU ran below {units.percent(LEAST_CLOCK, 0)} "
        f"of its clock{reasons and f' ({reasons})'}; {sum(r.discarded for r in slow)} of them were discarded",
        "lock the clocks below the power limit: nvidia-smi -lgc",
    )


@CELL_DOUBTS.declare("strangers")
def strangers(contents: Contents) -> Cases:
    """Did other processes use the GPU?"""
    most = max((measured.strangers for measured in _counted(contents)), default=0)
    sentence = f"{most} other processes used the GPU: their work is in these times"
    yield Case(most, sentence, "wait for them, or choose another device (nvidia-smi lists them)")


@CELL_DOUBTS.declare("busy", 0.5)
def disturbed_runs(contents: Contents) -> Cases:
    """Did other processes take the CPU in more than half of the runs, so that medians are those of disturbed runs?

    d disturbed runs of n move a median by at most d / 2 ranks. So if half of the runs are disturbed, a median may be
    the time of a disturbed run. Disturbances that differ between rounds widen the intervals. Those that all rounds
    share do not.
    """
    known = [run.disturbance for measured in _counted(contents) for run in measured.runs if run.disturbance is not None]
    if waits := [_waited(disturbance) for disturbance in known if is_disturbed(disturbance)]:
        share, waited = len(waits) / len(known), units.percent(median(waits), 0)
        yield Case(
            share,
            f"other processes had the CPU in {units.percent(share, 0)} of all runs, for {waited} of their time",
            "close other work on this machine, or measure with one thread (OMP_NUM_THREADS=1) into another --out"
            f"{_again(contents)}",
        )


@CELL_DOUBTS.declare("sessions")
def failed_processes(contents: Contents) -> Cases:
    """Did a cell fail in a process, so that it has the times of fewer processes than other cells?"""
    processes = len({measured.session for measured in contents.rounds})
    for cell in contents.done:
        if cell.reason:
            number = len(cell.timings)
            sentence = f"it was measured in {number} of {processes} processes, and then it failed: {cell.reason}"
            next_step = "run the same command again: it measures what is missing"
            yield Case(number, sentence, next_step, cell.cell, threshold=processes)


CELL_DOUBTS.declare(TRANSPARENT)(lambda contents: transparent_pictures(contents.sessions))
