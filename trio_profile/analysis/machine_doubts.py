"""Doubts about the machine: a slow clock, other processes, a cached picture.

Each function is one test. It yields a doubt if the test fails.
"""

from collections.abc import Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.doubt import Doubt
from trio_profile.records.schema import Dense, Disturbance, Round
from trio_profile.records.timing import LEAST_CLOCK
from trio_profile.stats.intervals import median, median_interval

DISTURBED = 0.05
"""A run is disturbed if a thread waited for a CPU for this share of its time: the times may be too long by as much.
From run to run they differ by about 1 % on a quiet machine."""
MOST_DISTURBED = 0.5
"""If more than this share of the runs is disturbed, the medians are those of disturbed runs."""
LEAST_RATIOS = 6
"""With fewer ratios there is no 95 % interval of their median (the sign test)."""
CACHED = 0.10
"""The largest relative difference between a new picture and a repeated picture. [MLPerf's TEST04]."""


def cached(dense: Dense | None) -> Iterator[Doubt]:
    """Test whether the study's repeated picture is faster than pictures that the model has not seen before."""
    if dense is None or len(dense.distinct_ratios) < LEAST_RATIOS:
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


def clock(rounds: Sequence[Round]) -> Iterator[Doubt]:
    """Test whether the GPU was slow during some rounds. Such a round was discarded, or it is among the samples."""
    highest = max((measured.clock_mhz for measured in rounds if measured.clock_mhz is not None), default=0)
    discarded = sum(measured.discarded for measured in rounds)
    slow = discarded + sum(
        measured.clock_mhz is not None and measured.clock_mhz < LEAST_CLOCK * highest and not measured.discarded
        for measured in rounds
    )
    if slow:
        named = ", ".join(sorted({reason for measured in rounds for reason in measured.slowed_by}))
        reasons = f" ({named})" if named else ""
        yield Doubt(
            cell=None,
            kind="clock",
            sentence=f"in {slow} of {units.number_of(len(rounds), 'round')} the GPU ran below "
            f"{units.percent(LEAST_CLOCK, 0)} of its clock{reasons}; {discarded} of "
            "them were discarded",
            next_step="lock the clocks below the power limit: nvidia-smi -lgc",
            found=slow / len(rounds),
            threshold=0.0,
        )


def strangers(rounds: Sequence[Round]) -> Iterator[Doubt]:
    """Test whether other processes used the GPU."""
    most = max((measured.strangers for measured in rounds), default=0)
    if most:
        yield Doubt(
            cell=None,
            kind="strangers",
            sentence=f"{most} other processes used the GPU: their work is in these times",
            next_step="wait for them, or choose another device (nvidia-smi lists them)",
            found=most,
            threshold=0,
        )


def busy(rounds: Sequence[Round]) -> Iterator[Doubt]:
    """Test whether other processes took the CPU in so many runs that the speed-ups may have left their intervals.

    d disturbed runs of n move a median by at most d / 2 ranks. So if half of the runs are disturbed, a median may be
    the time of a disturbed run. Disturbances that differ between rounds widen the intervals. Those that all rounds
    share do not.
    """
    known = [run.disturbance for measured in rounds for run in measured.runs if run.disturbance is not None]
    bad = [disturbance for disturbance in known if is_disturbed(disturbance)]
    share = len(bad) / max(len(known), 1)
    if share > MOST_DISTURBED:
        waited = median([_waited(disturbance) for disturbance in bad])
        yield Doubt(
            cell=None,
            kind="busy",
            sentence=f"other processes had the CPU in {units.percent(share, 0)} of all runs, for "
            f"{units.percent(waited, 0)} of their time{_further(bad)}",
            next_step="close other work on this machine, or measure with one thread "
            "(OMP_NUM_THREADS=1) into another --out",
            found=share,
            threshold=MOST_DISTURBED,
        )


def is_disturbed(disturbance: Disturbance) -> bool:
    """Return whether a thread of a run waited for a CPU for so long that the times are doubted."""
    return _waited(disturbance) > DISTURBED


def _waited(disturbance: Disturbance) -> float:
    """Return the share of its time in which a run waited for a CPU. Where the delay is hidden, it is the pressure."""
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
    parts = [f"in a run: {', '.join(counts)}"] if counts else []
    pressures = [one.pressure for one in disturbed if one.pressure is not None]
    if pressures:
        parts.append(f"CPU pressure {units.percent(median(pressures), 0)}")
    cpus = {one.cpu for one in disturbed if one.cpu is not None}
    if len(cpus) > 1:
        parts.append(f"seen on {units.number_of(len(cpus), 'CPU')}")
    return f" ({'; '.join(parts)})" if parts else ""
