"""The verdict on one quantity: whether it became worse from the base to the new side.

Exact quantities are whole numbers: MACs, bytes, kept tokens, launches. Any growth is a regression. Timed quantities are
judged by the 95 % interval of the ratio new / base, which is printed, against the bound `max_ratio`:

    regression      the whole interval lies above the bound
    pass            the whole interval lies below the bound
    improved        the whole interval lies below 1 / max_ratio
    inconclusive    the bound lies inside the interval, and nothing else

The times of a study of one process are refused, because it does not show how much another process of the same code
would differ. Its interval would have no end.

The verdicts are those of criterion (an interval and a noise threshold) and of nvbench (FAST, SLOW, AMBG, SAME).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, hypot, inf, isfinite, log, sqrt
from statistics import fmean, stdev
from typing import Any, TypeAlias

from scipy.special import stdtrit

from trio_profile import units
from trio_profile.errors import MeasurementError
from trio_profile.kinds.gate.document import OfInconclusive, Outcome, Verdict, effect
from trio_profile.reading import LARGEST_INTEGER
from trio_profile.records.study import PROCESSES
from trio_profile.records.timing import LONGEST_MS, SHORTEST_MS
from trio_profile.stats.intervals import MACHINE_FREEDOM, median, median_interval, of_logarithms, quotient_interval
from trio_profile.stats.two_way import Centre, parts_of

MAX_RATIO = 1.03
OPTION = "--trio-gate-inconclusive"
"""The option of pytest that says what an inconclusive verdict does to its test."""
LEAST_SAMPLES = 6
"""A verdict on times needs so many."""
LEAST_PAIRS = 12
"""Times that are measured in turn are judged after so many pairs, and not before."""
PROCESS_PAIRS = 5
"""So many pairs of processes are timed unless the first passes."""
NOT_INTERLEAVED = "not interleaved: a change of the machine between the two would look the same"
LONGER = "a longer measurement of both studies may decide it (--seconds, --processes)"

Interval: TypeAlias = tuple[float, float]
Times: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Times of the base and of the new side, pair by pair."""


@dataclass(frozen=True)
class Samples:
    """Raw times of one side, which were not measured in turn with those of the other. values: in the order of
    measurement."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Measured:
    """The ratio of a cell's time to the dense model's, in rounds of several processes.

    centre: with its error, which contains the machine's state.
    machine: the spread of the machine's state, see `intervals.machine_spread`.
    """

    centre: Centre
    machine: float


Evidence: TypeAlias = int | Measured | Samples
"""The measurement of a quantity on one side. An int is exact."""


def judge(quantity: str, where: str, base: Evidence, new: Evidence, max_ratio: float = MAX_RATIO) -> Verdict:
    """The verdict on two sides that were measured separately.

    Raises MeasurementError if a side has too few samples or one process, if a value is not finite and positive, or if
    the two sides are of different kinds.
    """
    require_bound(max_ratio)
    if isinstance(base, int) and isinstance(new, int):
        return judge_exact(quantity, where, base, new)
    if isinstance(base, Measured) and isinstance(new, Measured):
        return _judge_measured(quantity, where, base, new, max_ratio)
    if isinstance(base, Samples) and isinstance(new, Samples):
        return _judge_samples(quantity, where, base, new, max_ratio)
    kinds = " and ".join("exact" if isinstance(side, int) else type(side).__name__.lower() for side in (base, new))
    raise MeasurementError(f"{quantity} of {where} is {kinds}: the two cannot be compared")


def judge_exact(quantity: str, where: str, base: int, new: int) -> Verdict:
    """The verdict on a whole number: any growth is a regression. Raises MeasurementError for one beyond 63 bits."""
    if large := [value for value in (base, new) if abs(value) > LARGEST_INTEGER]:
        raise MeasurementError(f"{quantity} of {where} has {large[0].bit_length()} bits: at most 63 can be compared")
    outcome: Outcome = "regression" if new > base else "improved" if new < base else "pass"
    ratio = new / base if base else None
    return Verdict(quantity=quantity, where=where, base=base, new=new, ratio=ratio, verdict=outcome)


def judge_pairs(
    quantity: str, where: str, base: Sequence[float], new: Sequence[float], max_ratio: float = MAX_RATIO
) -> Verdict:
    """The verdict on times that were measured in turn, pair by pair.

    Raises MeasurementError if there are fewer than six pairs, or if a time is not finite and positive.
    """
    require_bound(max_ratio)
    if len(base) != len(new):
        raise MeasurementError(f"{quantity} of {where}: {len(base)} base and {len(new)} new samples are no pairs")
    for side in (base, new):
        _require_times(quantity, where, side)
    ratios = [after / before for before, after in zip(base, new, strict=True)]
    values = median(base), median(new), median(ratios)
    return _timed(quantity, where, values, paired_interval(ratios), max_ratio, samples=len(ratios))


def _timed(
    quantity: str,
    where: str,
    values: tuple[float, float, float],
    interval: Interval,
    max_ratio: float,
    **fields: Any,
) -> Verdict:
    """The verdict on a timed quantity.

    values: of the base, of the new side, and of their ratio.
    interval: of the ratio.
    fields: further fields of the verdict.
    """
    base, new, ratio = values
    return Verdict(
        quantity=quantity,
        where=where,
        base=base,
        new=new,
        ratio=ratio,
        ci95=interval,
        max_ratio=max_ratio,
        verdict=decide(interval, max_ratio),
        **fields,
    )


def decide(interval: Interval, max_ratio: float) -> Outcome:
    """The verdict that follows from the 95 % interval of new / base."""
    low, high = interval
    if low > max_ratio:
        return "regression"
    if high < 1 / max_ratio:
        return "improved"
    return "pass" if high < max_ratio else "inconclusive"


def settle(
    sample: Callable[[int], Times],
    quantity: str,
    where: str,
    *,
    max_ratio: float = MAX_RATIO,
    precision: float = 0.01,
    pairs: int = 192,
    seconds: float = inf,
) -> tuple[Verdict, Times]:
    """Sample pairs until the interval is narrow enough and the verdict is not inconclusive. Returns the verdict
    and the times that it is based on.

    The interval is computed after LEAST_PAIRS pairs and after each doubling of their number. So few looks hardly raise
    the rate of false alarms. A verdict that is inconclusive at the limit stays inconclusive.

    sample: takes a number of further pairs and returns them as (base, new).
    precision: the relative half width that is narrow enough.
    pairs, seconds: the limits. LEAST_PAIRS pairs are sampled in any case.
    """
    deadline = time.monotonic() + seconds
    times: tuple[list[float], list[float]] = [], []
    target = LEAST_PAIRS
    while True:
        goal = min(target, pairs)
        while len(times[0]) < goal and (len(times[0]) < LEAST_PAIRS or time.monotonic() < deadline):
            for side, more in zip(times, sample(1), strict=True):
                side += more
        verdict = judge_pairs(quantity, where, *times, max_ratio)
        assert verdict.ci95 is not None and verdict.ratio is not None
        narrow = verdict.ci95[1] - verdict.ci95[0] <= 2 * precision * verdict.ratio
        if narrow and verdict.verdict != "inconclusive":
            return verdict.model_copy(update={"stopped": "converged"}), times
        if len(times[0]) >= pairs or len(times[0]) < goal:
            note = None if verdict.verdict != "inconclusive" else f"still inconclusive after {len(times[0])} pairs"
            return verdict.model_copy(update={"stopped": "budget", "note": note}), times
        target *= 2


def settle_in_processes(
    settle_once: Callable[[int], tuple[Verdict, Times]], max_ratio: float = MAX_RATIO
) -> tuple[Verdict, Times]:
    """The verdict of one pair of processes if it is "pass"; else that of PROCESS_PAIRS of them, with all their times.

    Each process has a bias of its own, from its place in memory, and more samples within it do not remove the bias
    (Mytkowicz et al. 2009, "Producing wrong data without doing anything obviously wrong!"). So the interval of several
    pairs is that of the mean of their logarithmic medians, which differ as the processes do.

    settle_once: settles with a new pair of processes. It takes the number of the pair.
    """
    first, times = settle_once(0)
    if first.verdict == "pass":
        return first, times
    rest = [settle_once(number) for number in range(1, PROCESS_PAIRS)]
    settled = [(first, times), *rest]
    ratios = [verdict.ratio for verdict, _ in settled if verdict.ratio is not None]
    ratio, interval = shared_ratio(ratios)
    base, new = ([time for _, sides in settled for time in sides[side]] for side in (0, 1))
    note = f"{', '.join(map(units.times, ratios))} in {PROCESS_PAIRS} pairs of processes"
    fields = {"samples": len(base), "stopped": rest[-1][0].stopped, "note": note}
    values = median(base), median(new), ratio
    return _timed(first.quantity, first.where, values, interval, max_ratio, **fields), (base, new)


def shared_ratio(ratios: Sequence[float]) -> tuple[float, Interval]:
    """The ratio that pairs of processes share, and its 95 % interval. ratios: that of each pair."""
    logs = [log(ratio) for ratio in ratios]
    centre, reach = fmean(logs), float(stdtrit(len(logs) - 1, 0.975)) * stdev(logs) / sqrt(len(logs))
    return exp(centre), of_logarithms(centre, reach)


def paired_interval(ratios: Sequence[float]) -> Interval:
    """The 95 % interval of the median of ratios or times, in the order in which one process measured them.

    Neighbours may be alike, so parts of neighbours count as clusters. One disturbed part moves a few ratios to one side
    of the median, wherever they lie. It would move a mean over the parts much further.
    """
    return median_interval(ratios, clusters=parts_of(len(ratios)))


def failures(verdicts: Sequence[Verdict], inconclusive: OfInconclusive) -> list[Verdict]:
    """The verdicts that fail: the regressions, and the inconclusive ones if these fail too."""
    failing = {"regression", "inconclusive"} if inconclusive == "fail" else {"regression"}
    return [verdict for verdict in verdicts if verdict.verdict in failing]


def sentence(verdict: Verdict, inconclusive: OfInconclusive) -> str:
    """A verdict as the line that the pytest plugin prints. inconclusive: what an inconclusive verdict does."""
    head = f"{verdict.verdict}: {verdict.quantity} of {verdict.where}"
    if isinstance(verdict.new, int):
        return f"{head} went from {units.exact(int(verdict.base or 0))} to {units.exact(verdict.new)}"
    if verdict.ratio is None or verdict.ci95 is None:
        return f"{head} is {units.milliseconds(verdict.new)} ({verdict.samples} samples); no base to compare with"
    note = f"; {verdict.note}" if verdict.note else ""
    limit = verdict.max_ratio or 1
    ratio = f"{units.times_within(verdict.ratio, verdict.ci95, limit)} of the base's"
    does = f"; {text}" if (text := effect(verdict, inconclusive, OPTION)) else ""
    return f"{head} is {ratio}, bound {limit:g} ({verdict.samples} pairs{note}){does}"


def require_bound(max_ratio: float) -> None:
    """Raise MeasurementError if the bound is not between 1 and 10."""
    if not isfinite(max_ratio) or not 1 <= max_ratio <= 10:
        raise MeasurementError(f"max_ratio = {max_ratio:g} is no bound: choose one from 1 to 10, such as {MAX_RATIO}")


def _judge_measured(quantity: str, where: str, base: Measured, new: Measured, max_ratio: float) -> Verdict:
    ratio, machine = new.centre.over(base.centre), hypot(base.machine, new.machine)
    if ratio.processes == 1:
        raise MeasurementError(
            f"{quantity} of {where} comes from one process, which does not show how much another one of the same code "
            f"would differ: measure with --processes {PROCESSES}, or judge the whole numbers alone (--counts)"
        )
    values, samples = (base.centre.value, new.centre.value, ratio.value), ratio.samples
    verdict = _timed(quantity, where, values, ratio.interval(), max_ratio, samples=samples, sessions=ratio.processes)
    if verdict.verdict != "inconclusive":
        return verdict
    return verdict.model_copy(update={"note": _next_step(ratio.value, machine, max_ratio)})


def _next_step(ratio: float, machine: float, max_ratio: float) -> str:
    """How the verdict on two studies can be decided: by measuring longer, unless the machine alone hides the answer.

    machine: the part of the ratio's error that is the state of the machine, which does not change with the time.
    """
    distance = min(abs(log(max_ratio / ratio)), log(max_ratio))
    if machine == 0 or stdtrit(2 * MACHINE_FREEDOM, 0.975) * machine < distance:
        return LONGER
    return (
        f"two studies of the same code differ by about {units.percent(machine)}, because the state of the machine "
        "changes; to measure longer does not help, so time both versions in turn (pytest --trio-gate-base)"
    )


def _judge_samples(quantity: str, where: str, base: Samples, new: Samples, max_ratio: float) -> Verdict:
    """The verdict on times that were not measured in turn with a reference."""
    for side in (base, new):
        _require_times(quantity, where, side.values)
    medians = median(base.values), median(new.values)
    interval = quotient_interval(medians, [paired_interval(side.values) for side in (base, new)])
    values, samples = (*medians, medians[1] / medians[0]), min(len(base.values), len(new.values))
    return _timed(quantity, where, values, interval, max_ratio, samples=samples, note=NOT_INTERLEAVED)


def _require_times(quantity: str, where: str, values: Sequence[float]) -> None:
    if (n := len(values)) < LEAST_SAMPLES:
        raise MeasurementError(f"{quantity} of {where} has {n} samples: a verdict needs {LEAST_SAMPLES}, sample longer")
    if bad := [value for value in values if not SHORTEST_MS <= value <= LONGEST_MS]:
        raise MeasurementError(
            f"{quantity} of {where} holds a time of {bad[0]:g} ms, which is impossible: measure again"
        )
