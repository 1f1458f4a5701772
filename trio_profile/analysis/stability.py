"""The doubts about a study: the reasons not to trust its numbers.

Each doubt has its number, its threshold and the next step. A test fails only if the fault is unlikely to be chance and
large enough to matter. The thresholds come from the tools or the measurements that are named next to them.
"""

from collections.abc import Iterator, Sequence

from trio_profile.analysis import machine_doubts, sample_doubts, session_doubts
from trio_profile.analysis.doubt import Doubt
from trio_profile.records.schema import Dense, Measurement, Session, Study
from trio_profile.stats.stopping import LEAST_SAMPLES


def doubts(
    study: Study, measurements: Sequence[Measurement], dense: Dense | None = None, sessions: Sequence[Session] = ()
) -> list[Doubt]:
    """Return all doubts: first those about the whole study, then those about each finished cell.

    sessions: of the study, in the order in which they began.
    """
    done = [measurement for measurement in measurements if measurement.status == "done" and measurement.pairs]
    enough = [measurement for measurement in done if len(measurement.pairs) >= LEAST_SAMPLES]
    in_time = {timing.session for measurement in done for timing in measurement.timings}
    timing = [session for session in sessions if session.id in in_time]
    found = [
        *machine_doubts.cached(dense),
        *session_doubts.commits(sessions, measurements),
        *session_doubts.processes(done, sessions),
        *session_doubts.threads(study, timing),
        *session_doubts.start(timing),
        *machine_doubts.machine(enough),
    ]
    by_chance = sample_doubts.likely([suspicion for one in enough for suspicion in _suspicions(one)])
    chances: dict[str, list[Doubt]] = {}
    for doubt in by_chance:
        chances.setdefault(doubt.cell.id if doubt.cell is not None else "", []).append(doubt)
    clocks = [pair.clock_mhz for measurement in done for pair in measurement.pairs if pair.clock_mhz is not None]
    highest = max(clocks, default=0)
    for measurement in done:
        found += sample_doubts.samples(measurement)
        if len(measurement.pairs) >= LEAST_SAMPLES:
            found += _certain(measurement, study, highest)
            found += chances.get(measurement.cell.id, [])
        found += session_doubts.failures(study, [measurement], sessions)
    return found


def _certain(measurement: Measurement, study: Study, highest_mhz: int) -> Iterator[Doubt]:
    """Yield the doubts about one cell that are no matter of chance. highest_mhz: the highest clock in the study."""
    yield from sample_doubts.budget(measurement, study)
    yield from sample_doubts.spread(measurement)
    yield from machine_doubts.clock(measurement, highest_mhz)
    yield from machine_doubts.strangers(measurement)
    yield from machine_doubts.busy(measurement)


def _suspicions(measurement: Measurement) -> Iterator[sample_doubts.Suspicion]:
    """Yield the results of the tests of one cell that may fail by chance."""
    yield from sample_doubts.multimodality(measurement)
    yield from sample_doubts.drift(measurement)
    yield from sample_doubts.order(measurement)
    yield from sample_doubts.dependence(measurement)
