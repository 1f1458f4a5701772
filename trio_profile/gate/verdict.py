"""Whether something became worse: the verdict on one quantity, from what was seen of it before and after.

Exact quantities (MACs, bytes, kept counts, launches: whole numbers) are a regression on any growth. Timed ones are
judged by the ratio new / base and its interval, against the bound `max_ratio`:

    regression      the whole interval lies beyond the bound, at 99 %
    pass            the whole 95 % interval lies within it
    improved        it even lies below 1 / max_ratio
    inconclusive    the bound lies inside: no failure, and no pass either

A regression needs 99 % and not 95 %, because a gate that cries wolf is soon ignored. One of nothing (A/A) then all but
never comes; a change that sits exactly on the bound is failed in 0.2 to 2.9 of a hundred comparisons, by the kind of
noise, all looks at the growing sample included (tests/benchmarks/test_gate.py).

The verdicts are those of criterion (a threshold for noise beside the interval) and nvbench (FAST, SLOW, AMBG, SAME).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from typing import Literal, TypeAlias

import numpy as np

from trio_profile.errors import MeasurementError
from trio_profile.records.schema import Record, Stopped
from trio_profile.stats.intervals import median, ratio_interval

MAX_RATIO = 1.03
LEAST_SAMPLES = 6
"""Fewer cannot bear a 95 % interval of a median."""
REPORTED, SURE = 0.95, 0.99
NOT_INTERLEAVED = "not interleaved: a change of the machine between the two would look the same"

_MOST_RESAMPLED = 512
_WIDER_WHEN_SURE = 2.576 / 1.960

Outcome = Literal["pass", "improved", "inconclusive", "regression", "no base"]
Interval: TypeAlias = tuple[float, float]


class Verdict(Record):
    """One quantity of one cell, benchmark or test. `ratio` is new / base: above 1 is worse.

    samples: of the smaller side; 1 for what is exact. note: what the reader must know to believe it.
    """

    quantity: str
    where: str
    base: int | float | None
    new: int | float
    ratio: float | None
    ci95: Interval | None
    verdict: Outcome
    samples: int = 1
    stopped: Stopped | None = None
    note: str | None = None


@dataclass(frozen=True)
class Samples:
    """Raw samples of one side: times, or ratios to a yardstick that was measured interleaved with them."""

    values: tuple[float, ...]
    interleaved: bool


@dataclass(frozen=True)
class Summary:
    """A ratio to a yardstick of which only the median and its 95 % interval were kept."""

    median: float
    ci95: Interval
    samples: int


Evidence: TypeAlias = int | Samples | Summary
"""What was seen of a quantity on one side; an int is exact."""


def judge(quantity: str, where: str, base: Evidence, new: Evidence, max_ratio: float = MAX_RATIO) -> Verdict:
    """The verdict on two sides that were measured apart.

    Raises MeasurementError for evidence that cannot bear one: too few samples, not finite, not positive, not alike.
    """
    if isinstance(base, int) and isinstance(new, int):
        return judge_exact(quantity, where, base, new)
    if isinstance(base, Samples) and isinstance(new, Samples):
        return _judge_samples(quantity, where, base, new, require_bound(max_ratio))
    if isinstance(base, Summary) and isinstance(new, Summary):
        return _judge_summaries(quantity, where, base, new, require_bound(max_ratio))
    kinds = " and ".join("exact" if isinstance(side, int) else type(side).__name__.lower() for side in (base, new))
    raise MeasurementError(f"{quantity} of {where} is {kinds}: the two cannot be compared")


def judge_exact(quantity: str, where: str, base: int, new: int) -> Verdict:
    """The verdict on a whole number: any growth is a regression."""
    return Verdict(
        quantity=quantity,
        where=where,
        base=base,
        new=new,
        ratio=new / base if base else None,
        ci95=None,
        verdict="regression" if new > base else "improved" if new < base else "pass",
    )


def judge_pairs(
    quantity: str,
    where: str,
    base: Sequence[float],
    new: Sequence[float],
    max_ratio: float = MAX_RATIO,
    stopped: Stopped | None = None,
) -> Verdict:
    """The verdict on times that were taken in turn, pair by pair.

    Raises MeasurementError for fewer than six pairs, or a time that is not finite and positive.
    """
    require_bound(max_ratio)
    if len(base) != len(new):
        raise MeasurementError(f"{quantity} of {where}: {len(base)} base and {len(new)} new samples are no pairs")
    _require_times(quantity, where, base)
    _require_times(quantity, where, new)
    ratios = [after / before for before, after in zip(base, new, strict=True)]
    reported, sure = (paired_interval(ratios, confidence) for confidence in (REPORTED, SURE))
    return Verdict(
        quantity=quantity,
        where=where,
        base=median(base),
        new=median(new),
        ratio=median(ratios),
        ci95=reported,
        verdict=decide(reported, sure, max_ratio),
        samples=len(ratios),
        stopped=stopped,
    )


def decide(reported: Interval, sure: Interval, max_ratio: float) -> Outcome:
    """The verdict that an interval of new / base bears."""
    if min(reported[0], sure[0]) > max_ratio:
        return "regression"
    if reported[1] < 1 / max_ratio:
        return "improved"
    return "pass" if reported[1] < max_ratio else "inconclusive"


def settle(
    sample: Callable[[int], tuple[Sequence[float], Sequence[float]]],
    quantity: str,
    where: str,
    *,
    max_ratio: float = MAX_RATIO,
    precision: float = 0.01,
    least: int = 12,
    most: int = 192,
) -> Verdict:
    """Sample pairs until the interval is narrow enough, and on while the verdict is inconclusive, at most `most`.

    sample: called with how many further pairs are wanted, returns them as (base, new); fewer when there are no more.
    precision: relative half width. It is looked at after `least` pairs and then after each doubling: few looks, so that
    looking does not itself find regressions. What is inconclusive at the limit stays so.
    """
    base: list[float] = []
    new: list[float] = []
    target = least
    while True:
        wanted = min(target, most) - len(base)
        before, after = sample(wanted)
        base += before
        new += after
        verdict = judge_pairs(quantity, where, base, new, max_ratio)
        assert verdict.ci95 is not None and verdict.ratio is not None
        narrow = verdict.ci95[1] - verdict.ci95[0] <= 2 * precision * verdict.ratio
        if narrow and verdict.verdict != "inconclusive":
            return verdict.model_copy(update={"stopped": "converged"})
        if len(base) >= most or len(before) < wanted:
            note = None if verdict.verdict != "inconclusive" else f"still so after {len(base)} pairs: neutral"
            return verdict.model_copy(update={"stopped": "budget", "note": note})
        target *= 2


def paired_interval(ratios: Sequence[float], confidence: float) -> Interval:
    """An interval of the median of what was taken in this order."""
    return ratio_interval(ratios, confidence=confidence)


def failures(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Those that must stop a merge."""
    return [verdict for verdict in verdicts if verdict.verdict == "regression"]


def require_bound(max_ratio: float) -> float:
    """The bound. Raises MeasurementError for one that bounds nothing."""
    if not isfinite(max_ratio) or not 1 <= max_ratio <= 10:
        raise MeasurementError(f"max_ratio = {max_ratio:g} is no bound: choose one from 1 to 10, such as {MAX_RATIO}")
    return max_ratio


def _judge_samples(quantity: str, where: str, base: Samples, new: Samples, max_ratio: float) -> Verdict:
    for side in (base, new):
        _require_times(quantity, where, side.values)
    medians = median(base.values), median(new.values)
    by_confidence = [
        _ratio_of(medians, [paired_interval(_stretches(side.values), confidence) for side in (base, new)])
        for confidence in (REPORTED, SURE)
    ]
    note = None if base.interleaved and new.interleaved else NOT_INTERLEAVED
    samples = min(len(base.values), len(new.values))
    return _apart(quantity, where, medians, by_confidence, max_ratio, samples, note)


def _judge_summaries(quantity: str, where: str, base: Summary, new: Summary, max_ratio: float) -> Verdict:
    for side in (base, new):
        _require_times(quantity, where, (*side.ci95, side.median), side.samples)
        if not side.ci95[0] <= side.median <= side.ci95[1]:
            raise MeasurementError(f"{quantity} of {where}: {side.median:g} lies outside its interval {side.ci95}")
    medians = base.median, new.median
    by_confidence = [_ratio_of(medians, (base.ci95, new.ci95), wider) for wider in (1.0, _WIDER_WHEN_SURE)]
    return _apart(quantity, where, medians, by_confidence, max_ratio, min(base.samples, new.samples), None)


def _apart(
    quantity: str,
    where: str,
    medians: Interval,
    by_confidence: Sequence[Interval],
    max_ratio: float,
    samples: int,
    note: str | None,
) -> Verdict:
    reported, sure = by_confidence
    return Verdict(
        quantity=quantity,
        where=where,
        base=medians[0],
        new=medians[1],
        ratio=medians[1] / medians[0],
        ci95=reported,
        verdict=decide(reported, sure, max_ratio),
        samples=samples,
        note=note,
    )


def _ratio_of(medians: Interval, intervals: Sequence[Interval], wider: float = 1.0) -> Interval:
    """The interval of new / base from those of the sides, which are independent: (base, new) each.

    Distances to the ends add in quadrature, on the scale on which ratios add (MOVER: Zou & Donner 2008).
    """
    (base, new), ((base_low, base_high), (new_low, new_high)) = medians, intervals
    below = sqrt(log(new / new_low) ** 2 + log(base_high / base) ** 2)
    above = sqrt(log(new_high / new) ** 2 + log(base / base_low) ** 2)
    return new / base * exp(-wider * below), new / base * exp(wider * above)


def _stretches(values: Sequence[float]) -> Sequence[float]:
    """Many samples as the medians of stretches of neighbours: as good for an interval, and soon resampled."""
    if len(values) <= _MOST_RESAMPLED:
        return values
    return [float(np.median(stretch)) for stretch in np.array_split(np.asarray(values), _MOST_RESAMPLED)]


def _require_times(quantity: str, where: str, values: Sequence[float], samples: int | None = None) -> None:
    n = len(values) if samples is None else samples
    if n < LEAST_SAMPLES:
        raise MeasurementError(f"{quantity} of {where} has {n} samples: a verdict needs {LEAST_SAMPLES}, sample longer")
    if bad := [value for value in values if not (isfinite(value) and value > 0)]:
        raise MeasurementError(f"{quantity} of {where} holds {bad[0]:g}, which no clock can have shown: measure again")
