"""The doubts about a study: the reasons not to trust its numbers.

Each doubt has its number, its threshold and the next step. A test fails only if the fault is unlikely to be chance and
large enough to matter. The thresholds come from the tools that are named next to them.
"""

from collections.abc import Iterator, Sequence

from trio_profile.analysis import machine_doubts, sample_doubts
from trio_profile.analysis.doubt import LEAST_PAIRS, Doubt, cell_name, dense_prefills
from trio_profile.errors import MeasurementError
from trio_profile.records.schema import Dense, Measurement, Study
from trio_profile.stats.intervals import median


def doubts(study: Study, measurements: Sequence[Measurement], dense: Dense | None = None) -> list[Doubt]:
    """Return all doubts: first those about the whole study, then those about each finished cell.

    Raises MeasurementError if a time is 0 or negative.
    """
    done = [measurement for measurement in measurements if measurement.status == "done"]
    for measurement in done:
        if any(min(pair.dense_prefill_ms, pair.prefill_ms) <= 0 for pair in measurement.pairs):
            raise MeasurementError(
                f"{cell_name(measurement.cell)} has a time of 0 ms or less: remove the cell, measure again"
            )
    clocks = [pair.clock_mhz for measurement in done for pair in measurement.pairs if pair.clock_mhz is not None]
    medians = [median(dense_prefills(measurement).tolist()) for measurement in done if measurement.pairs]
    found = list(machine_doubts.cached(dense))
    for measurement in done:
        found += _doubts_about_cell(measurement, study, max(clocks, default=0), medians)
    return found


def _doubts_about_cell(
    measurement: Measurement, study: Study, highest_mhz: int, medians: Sequence[float]
) -> Iterator[Doubt]:
    """Yield the doubts about one finished cell.

    highest_mhz: the highest clock in the study.
    medians: the median dense prefill of each cell in milliseconds.
    """
    yield from sample_doubts.samples(measurement)
    if len(measurement.pairs) < LEAST_PAIRS:
        return
    yield from sample_doubts.budget(measurement, study)
    yield from sample_doubts.spread(measurement)
    yield from sample_doubts.multimodality(measurement)
    yield from sample_doubts.drift(measurement)
    yield from sample_doubts.order(measurement)
    yield from sample_doubts.dependence(measurement)
    yield from machine_doubts.clock(measurement, highest_mhz)
    yield from machine_doubts.strangers(measurement)
    yield from machine_doubts.machine(measurement, medians)
