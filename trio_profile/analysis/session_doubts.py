"""Doubts about the sessions of a study: too few rounds or processes, several commits, threads that spin, a busy start.

Each function is one test over the whole study. It yields a doubt if the test fails.
"""

import shlex
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import PurePath

from trio_profile import units
from trio_profile.analysis.doubt import Doubt
from trio_profile.records.schema import Measurement, Round, Session, Study
from trio_profile.records.study import PROCESSES

LEAST_ROUNDS = 6
"""With fewer rounds, nothing says how far the next one may differ."""
LEAST_SESSIONS = 2
"""With fewer sessions the spread between processes is not known."""
BUSY_START = 0.10
"""From this share of all CPUs' time on, other work at the start of a session is a doubt. An idle desktop uses less."""


def rounds(study: Study, measurements: Sequence[Measurement], measured: Sequence[Round]) -> Iterator[Doubt]:
    """Test whether each cell was measured in enough rounds."""
    fewest = min((len(measurement.pairs) for measurement in measurements), default=LEAST_ROUNDS)
    if fewest < LEAST_ROUNDS:
        spent = sum(one.seconds for one in measured)
        needed = max(1.2 * spent * LEAST_ROUNDS / max(fewest, 1) / len(study.blocks()), study.seconds + 1)
        yield Doubt(
            cell=None,
            kind="rounds",
            sentence=f"{units.number_of(fewest, 'round')} of prefills is too few for an interval, "
            f"which needs {LEAST_ROUNDS}",
            next_step=f"run the same command with {_longer(study, needed)}: it goes on, and takes about "
            f"{units.duration(needed * len(study.blocks()) - spent)} more",
            found=fewest,
            threshold=LEAST_ROUNDS,
        )


def _longer(study: Study, seconds: float) -> str:
    """Return the options that measure a finished study for longer. seconds: those of its next process."""
    if study.processes is None:
        return f"--seconds {ceil(seconds)}"
    more = study.processes + 1  # each process has its share of the time
    return f"--seconds {ceil(more * seconds)} --processes {more}"


def processes(measurements: Sequence[Measurement], sessions: Sequence[Session]) -> Iterator[Doubt]:
    """Test whether each finished cell was measured in several processes."""
    few = [measurement for measurement in measurements if len(measurement.timings) < LEAST_SESSIONS]
    if few:
        where = "every cell was" if len(few) == len(measurements) else f"{len(few)} of {len(measurements)} cells were"
        yield Doubt(
            cell=None,
            kind="sessions",
            sentence=f"{where} measured in one process: another run may differ by more than the interval",
            next_step=f"measure again in several processes: {_command(sessions)}",
            found=1,
            threshold=LEAST_SESSIONS,
        )


def failures(measurements: Sequence[Measurement], processes: int) -> Iterator[Doubt]:
    """Test whether a cell failed in a process, so that it has the times of fewer processes than other cells.

    processes: the number of those that timed the study.
    """
    for measurement in measurements:
        timed = len(measurement.timings)
        if measurement.reason:
            yield Doubt(
                cell=measurement.cell,
                kind="sessions",
                sentence=f"it was measured in {timed} of {processes} processes, and then it failed: "
                f"{measurement.reason}",
                next_step="run the same command again: it measures what is missing",
                found=timed,
                threshold=processes,
            )


def _command(sessions: Sequence[Session]) -> str:
    """Return the command line of the first session with several processes and another directory."""
    try:
        words = shlex.split(sessions[0].command) if sessions else []
    except ValueError:  # a quote that is not closed
        words = []
    more = f"--processes {PROCESSES} --out ANOTHER"
    program = PurePath(words[0]) if words else PurePath()
    if program.name != "trio-profile" and not (program.name == "__main__.py" and "trio_profile" in program.parts):
        return more
    return f"{shlex.join(['trio-profile', *_without(words[1:], '--processes', '--out')])} {more}"


def _without(words: Sequence[str], *options: str) -> list[str]:
    """The words of a command line without some options and their values."""
    kept = [word for word in words if word.partition("=")[0] not in options or "=" not in word]
    values = {number + 1 for number, word in enumerate(kept) if word in options}
    return [word for number, word in enumerate(kept) if word not in options and number not in values]


def threads(study: Study, sessions: Sequence[Session]) -> Iterator[Doubt]:
    """Test whether waiting threads slept. On a GPU they do not take part."""
    if study.device.startswith("cuda"):
        return
    unknown = [session for session in sessions if not session.environment.wait_policy]
    if unknown:
        yield Doubt(
            cell=None,
            kind="threads",
            sentence=f"in {_some(len(unknown), len(sessions))} it is not known whether waiting threads slept",
            next_step="measure again with this version of trio-profile, into another --out",
            found=len(unknown),
            threshold=0,
        )
    spinning = [session for session in sessions if session.environment.wait_policy == "active"]
    if spinning:
        yield Doubt(
            cell=None,
            kind="threads",
            sentence=f"in {_some(len(spinning), len(sessions))} waiting threads spun instead of sleeping: beside other "
            "work, times are much too long and vary",
            next_step="unset OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME and KMP_LIBRARY (in Python, call "
            "trio_profile before you import torch), and measure into another --out",
            found=len(spinning),
            threshold=0,
        )


def start(sessions: Sequence[Session]) -> Iterator[Doubt]:
    """Test whether other processes used the machine when a session began."""
    shares = [session.busy for session in sessions if session.busy is not None and session.busy > BUSY_START]
    if shares:
        yield Doubt(
            cell=None,
            kind="busy",
            sentence=f"other processes used {units.percent(max(shares), 0)} of the machine's CPU time at the start of "
            f"{_some(len(shares), len(sessions))}; from {units.percent(BUSY_START, 0)} on, times are uncertain",
            next_step="close other work on this machine",
            found=max(shares),
            threshold=BUSY_START,
        )


def commits(sessions: Sequence[Session], measurements: Sequence[Measurement]) -> Iterator[Doubt]:
    """Test whether all sessions ran the same code. A session that measured nothing does not count.

    sessions: all sessions of the study.
    measurements: its cells.
    """
    ids = {measurement.session for measurement in measurements}
    ids |= {timing.session for measurement in measurements for timing in measurement.timings}
    found = list(dict.fromkeys(_code(session) for session in sessions if session.id in ids))
    if len(found) > 1:
        yield Doubt(
            cell=None,
            kind="commits",
            sentence=f"the study was measured by {units.number_of(len(found), 'version')} of the code "
            f"({', '.join(found)}): a difference between its cells may be a difference of the code",
            next_step="measure it again with one version, into another --out",
            found=len(found),
            threshold=1,
        )


def _code(session: Session) -> str:
    """Return the commit of a session, or the version of trio-profile outside a checkout."""
    return session.environment.commit or session.version or "unknown"


def _some(count: int, of: int) -> str:
    """Return `the only session`, `all 4 sessions` or `2 of 4 sessions`."""
    if count == of:
        return "the only session" if of == 1 else f"all {of} sessions"
    return f"{count} of {of} sessions"
