"""Doubts about the machine: a slow clock, other processes, unequal dense times, a cached picture.

Each function is one test. It yields a doubt if the test fails.
"""

from collections.abc import Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.doubt import LEAST_PAIRS, Doubt, dense_prefills
from trio_profile.records.schema import Dense, Measurement
from trio_profile.stats.intervals import median, median_interval

SLOW_CLOCK = 0.75
"""A pair is slow if its clock is below this share of the study's highest clock. [nvbench's rule]."""
OTHER_MACHINE = 0.02
"""The largest relative difference of a cell's dense time from the study's. [tritonbench's aim from day to day]."""
CACHED = 0.10
"""The largest relative difference between a new picture and a repeated picture. [MLPerf's TEST04]."""


def cached(dense: Dense | None) -> Iterator[Doubt]:
    """Test whether the study's repeated picture is faster than pictures that the model has not seen before."""
    if dense is None or len(dense.distinct_ratios) < LEAST_PAIRS:
        return
    low, _ = median_interval(dense.distinct_ratios)
    slower = median(dense.distinct_ratios) - 1
    if low - 1 > CACHED:
        yield Doubt(
            cell=None,
            kind="cached",
            sentence=f"a dense prefill of a new picture takes {units.signed_percent(slower)} longer than a prefill of "
            f"the repeated picture (at most {units.percent(CACHED, 0)} is normal): something caches the picture",
            next_step="find the cache, or switch it off: with it, all times of this study are too short",
            found=slower,
            threshold=CACHED,
        )


def clock(measurement: Measurement, highest_mhz: int) -> Iterator[Doubt]:
    """Test whether the GPU was slow during some pairs. Such a pair was discarded, or it is among the samples.

    highest_mhz: the highest clock in the study; 0 if no clock is known.
    """
    clocks = [pair.clock_mhz for pair in measurement.pairs if pair.clock_mhz is not None]
    slow = measurement.discarded + sum(mhz < SLOW_CLOCK * highest_mhz for mhz in clocks)
    if slow:
        share = slow / (measurement.discarded + len(measurement.pairs))
        reasons = f" ({', '.join(measurement.slowed_by)})" if measurement.slowed_by else ""
        yield Doubt(
            cell=measurement.cell,
            kind="clock",
            sentence=f"in {slow} pairs ({units.percent(share, 0)}) the GPU ran below {units.percent(SLOW_CLOCK, 0)} of "
            f"its clock{reasons}; {measurement.discarded} of them were discarded",
            next_step="lock the clocks below the power limit: nvidia-smi -lgc",
            found=share,
            threshold=0.0,
        )


def strangers(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether other processes used the GPU."""
    if measurement.strangers:
        yield Doubt(
            cell=measurement.cell,
            kind="strangers",
            sentence=f"{measurement.strangers} other processes were on the GPU: their work is in these times",
            next_step="wait for them, or choose another device (nvidia-smi lists them)",
            found=measurement.strangers,
            threshold=0,
        )


def machine(measurement: Measurement, medians: Sequence[float]) -> Iterator[Doubt]:
    """Test whether the dense times agree with those of the other cells. The dense work is the same in all cells.

    medians: the median dense prefill of each cell in milliseconds.
    """
    dense = dense_prefills(measurement).tolist()
    usual = median(medians)
    difference = median(dense) / usual - 1
    low, high = median_interval(dense, 0.99)
    if abs(difference) > OTHER_MACHINE and not low <= usual <= high:
        yield Doubt(
            cell=measurement.cell,
            kind="machine",
            sentence=f"the dense model took {units.milliseconds(median(dense))} here, "
            f"{units.signed_percent(difference)} from the study's {units.milliseconds(usual)}: more than the spread of "
            f"these times, and more than {units.percent(OTHER_MACHINE, 0)}",
            next_step="compare cells by speed-up, not by time; close other work, or lock the clocks: nvidia-smi -lgc",
            found=difference,
            threshold=OTHER_MACHINE,
        )
