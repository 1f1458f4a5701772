"""The doubts about a study: the reasons not to trust its numbers.

Each doubt has its number, its threshold and the next step. A wide interval is no doubt: it is visible. The thresholds
come from the tools or the measurements that are named next to them.
"""

from collections.abc import Sequence

from trio_profile.analysis import machine_doubts, session_doubts
from trio_profile.analysis.doubt import Doubt
from trio_profile.records.schema import Dense, Measurement, Round, Session, Study


def doubts(
    study: Study,
    measurements: Sequence[Measurement],
    dense: Dense | None = None,
    sessions: Sequence[Session] = (),
    rounds: Sequence[Round] = (),
) -> list[Doubt]:
    """Return all doubts: first those about the whole study, then those about single cells.

    sessions: of the study, in the order in which they began.
    rounds: in the order of measurement.
    """
    done = [measurement for measurement in measurements if measurement.status == "done"]
    timing = {measured.session for measured in rounds}
    timed = [session for session in sessions if session.id in timing]
    counted = [measured for measured in rounds if measured.phase != "warm-up"]
    return [
        *machine_doubts.cached(dense),
        *session_doubts.commits(sessions, measurements),
        *session_doubts.rounds(study, done, rounds),
        *session_doubts.processes(done, sessions),
        *session_doubts.threads(study, timed),
        *session_doubts.start(timed),
        *machine_doubts.clock(counted),
        *machine_doubts.strangers(counted),
        *machine_doubts.busy(counted),
        *(doubt for one in done for doubt in session_doubts.failures([one], len(timing))),
    ]
