"""Doubts about the machine: a slow clock, other processes, unequal dense times, a cached picture.

Each function is one test. It yields a doubt if the test fails.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from trio_profile import units
from trio_profile.analysis.doubt import DENSE_MATTERS, Doubt, cell_name
from trio_profile.records.schema import Dense, Disturbance, Measurement
from trio_profile.records.timing import LEAST_CLOCK
from trio_profile.stats.intervals import median, median_interval
from trio_profile.stats.stopping import LEAST_SAMPLES

DISTURBED = 0.05
"""A pair is disturbed if a thread waited for a CPU for this share of its time: the times may be too long by as much.
From run to run they differ by about 1 % on a quiet machine [noise.JITTER]."""
CACHED = 0.10
"""The largest relative difference between a new picture and a repeated picture. [MLPerf's TEST04]."""


def cached(dense: Dense | None) -> Iterator[Doubt]:
    """Test whether the study's repeated picture is faster than pictures that the model has not seen before."""
    if dense is None or len(dense.distinct_ratios) < LEAST_SAMPLES:
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
    slow = measurement.discarded + sum(mhz < LEAST_CLOCK * highest_mhz for mhz in clocks)
    if slow:
        share = slow / (measurement.discarded + len(measurement.pairs))
        reasons = f" ({', '.join(measurement.slowed_by)})" if measurement.slowed_by else ""
        yield Doubt(
            cell=measurement.cell,
            kind="clock",
            sentence=f"in {slow} pairs ({units.percent(share, 0)}) the GPU ran below {units.percent(LEAST_CLOCK, 0)} "
            f"of its clock{reasons}; {measurement.discarded} of them were discarded",
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


def busy(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether other processes took the CPU in so many pairs that the speed-up may have left its interval.

    d disturbed pairs move the median by at most d / 2 ranks. The interval of the sign test reaches 0.98 · √n ranks to
    each side. So the threshold is 1.96 · √n pairs. Over several sessions the threshold is only a guide: the interval
    covers disturbances that differ between sessions, and not those that all sessions share.
    A pair whose disturbance is not known counts as undisturbed.
    """
    known = [pair.disturbance for pair in measurement.pairs if pair.disturbance is not None]
    bad = [disturbance for disturbance in known if is_disturbed(disturbance)]
    share, most = len(bad) / max(len(measurement.pairs), 1), 1.96 / max(len(measurement.pairs), 1) ** 0.5
    if share > most:
        waited = median([_waited(disturbance) for disturbance in bad])
        yield Doubt(
            cell=measurement.cell,
            kind="busy",
            sentence=f"{len(bad)} of {len(measurement.pairs)} pairs were disturbed: other processes had the CPU. "
            f"The waits of all threads add up to {units.percent(waited, 0)} of the time{_further(bad)}; above "
            f"{units.percent(most, 0)} of the pairs, disturbances may have moved the speed-up out of its interval",
            next_step="close other work on this machine, or measure with fewer threads (OMP_NUM_THREADS=1) into "
            "another --out",
            found=share,
            threshold=most,
        )


def is_disturbed(disturbance: Disturbance) -> bool:
    """Return whether a thread of a pair waited for a CPU for so long that the times are doubted."""
    return _waited(disturbance) > DISTURBED


def _waited(disturbance: Disturbance) -> float:
    """Return the share of its time in which a pair waited for a CPU. Where the delay is hidden, it is the pressure."""
    if disturbance.delay_ms is not None and disturbance.seconds > 0:
        return disturbance.delay_ms / 1000 / disturbance.seconds
    return disturbance.pressure or 0.0


def _further(disturbed: Sequence[Disturbance]) -> str:
    """Return what else was recorded of disturbed pairs, for a sentence: medians of the counters, pressure and CPUs."""
    counts: list[str] = []
    for name, noun, more in (
        ("preemptions", "preemption", ""),
        ("migrations", "move", " to another CPU"),
        ("faults", "page fault", ""),
    ):
        seen = [count for one in disturbed if (count := getattr(one, name)) is not None]
        if seen and median(seen) >= 1:
            counts.append(f"{units.number_of(round(median(seen)), noun)}{more}")
    parts = [f"in a pair: {', '.join(counts)}"] if counts else []
    pressures = [one.pressure for one in disturbed if one.pressure is not None]
    if pressures:
        parts.append(f"CPU pressure {units.percent(median(pressures), 0)}")
    cpus = {one.cpu for one in disturbed if one.cpu is not None}
    if len(cpus) > 1:
        parts.append(f"seen on {units.number_of(len(cpus), 'CPU')}")
    return f" ({'; '.join(parts)})" if parts else ""


def machine(measurements: Sequence[Measurement]) -> Iterator[Doubt]:
    """Test whether the dense times of a session's cells agree. The dense work is the same in all cells.

    The cells of one session are compared, because two processes differ. A doubt is about the whole study: speed-ups are
    ratios of times that were measured side by side, so they stay right.

    measurements: the finished cells.
    """
    usual = _usual_dense_ms(measurements)
    differing: list[tuple[float, Measurement]] = []
    for measurement in measurements:
        times = [
            pair.dense_prefill_ms / usual[timing.session] for timing in measurement.timings for pair in timing.pairs
        ]
        low, high = median_interval(times, 0.99)
        if abs(median(times) - 1) > DENSE_MATTERS and not low <= 1 <= high:
            differing.append((median(times) - 1, measurement))
    if differing:
        worst, where = max(differing, key=lambda one: abs(one[0]))
        yield Doubt(
            cell=None,
            kind="machine",
            sentence=f"the dense model, whose work is the same in all cells, took another time in "
            f"{len(differing)} of {units.number_of(len(measurements), 'cell')}: {units.signed_percent(worst)} beside "
            f"{cell_name(where.cell)}, and more than {units.percent(DENSE_MATTERS, 0)} in each of them",
            next_step="compare cells by speed-up, not by time; close other work, or lock the clocks: nvidia-smi -lgc",
            found=worst,
            threshold=DENSE_MATTERS,
        )


def _usual_dense_ms(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Return the median of the cells' median dense times, by session, in milliseconds."""
    medians: dict[str, list[float]] = {}
    for measurement in measurements:
        for timing in measurement.timings:
            times = [pair.dense_prefill_ms for pair in timing.pairs]
            if times:
                medians.setdefault(timing.session, []).append(float(np.median(times)))
    return {session: median(values) for session, values in medians.items()}
