"""Doubts about the samples of one cell: too few, too wide, drifting, with two modes, or depending on each other.

Each function is one test. Some faults are certain: their tests yield a doubt. Others may be chance: their tests yield a
Suspicion, and `likely` decides over all tests of the study together. Samples of different sessions are never mixed: two
processes differ, and that is no fault of either. All tests look at prefill, because sampling stops on its speed-up.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from trio_profile import units
from trio_profile.analysis.doubt import (
    DENSE_MATTERS,
    Doubt,
    dense_groups,
    position,
    pruned_groups,
    relative,
    speedup_groups,
)
from trio_profile.records.schema import Measurement, Study
from trio_profile.stats.intervals import machine_spread, ranks_of
from trio_profile.stats.modes import chance_of_two_modes, two_modes
from trio_profile.stats.resampling import autocorrelation
from trio_profile.stats.stopping import LEAST_SAMPLES, MOST_SAMPLES, half_width

WIDE_IQR = 0.10
"""A relative interquartile range from here on is too wide. [torch.utils.benchmark's warning]."""
CHANCE = 0.05
"""The probability that a sound study gets any doubt by chance: all cells and all tests together."""
MATTERS = 0.01
"""A relative shift of the speed-up below this does not matter. [criterion.rs's noise threshold]."""
MODE_PAIRS = 20
"""With fewer samples, two modes appear by chance."""
FEW_EFFECTIVE = 1 / 3
"""The least share of effective samples, (1 − ρ) / (1 + ρ) for an autocorrelation ρ. The coverage of the intervals is
simulated up to ρ = 0.5 [noise.autocorrelated]."""
TREND_PAIRS = 12
"""With fewer samples, trends appear by chance, and the p-value of the rank correlation is inexact."""

_ANEW = "and measure into another --out"
"""The end of an advice that changes the study. A directory takes one study only."""


class Suspicion(NamedTuple):
    """The result of a test whose fault may be chance.

    chance: probability of such a result for a sound cell; 1 if the fault is too small to matter.
    doubt: the doubt, if it is not chance.
    """

    chance: float
    doubt: Doubt


def likely(suspicions: Sequence[Suspicion]) -> list[Doubt]:
    """Return the doubts that are not chance, of all tests of a study.

    A study of many cells has many tests, and each may fail by chance. The procedure of Benjamini and Hochberg raises
    any doubt about a sound study with probability CHANCE. [1995, Journal of the Royal Statistical Society B 57, 289]
    """
    if not any(suspicion.chance < CHANCE for suspicion in suspicions):
        return []  # the procedure only raises probabilities
    from scipy.stats import false_discovery_control  # takes half a second to import

    adjusted = false_discovery_control([suspicion.chance for suspicion in suspicions])
    return [suspicion.doubt for suspicion, chance in zip(suspicions, adjusted, strict=True) if chance < CHANCE]


def samples(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether there are enough pairs for an interval."""
    n = len(measurement.pairs)
    if n < LEAST_SAMPLES:
        yield Doubt(
            cell=measurement.cell,
            kind="samples",
            sentence=f"{n} pairs are too few for a 95 % interval, which needs {LEAST_SAMPLES}",
            next_step=f"raise --seconds {_ANEW}",
            found=n,
            threshold=LEAST_SAMPLES,
        )


def budget(measurement: Measurement, study: Study) -> Iterator[Doubt]:
    """Test whether the interval is as narrow as the study wants."""
    groups = speedup_groups(measurement)
    width = half_width(groups, machine_spread(study.device))
    if (len(groups) == 1 and measurement.stopped == "converged") or width <= study.precision:
        return
    told = (
        "the processes differ"
        if measurement.stopped == "converged"
        else f"sampling stopped ({measurement.stopped}) at {len(measurement.pairs)} pairs"
    )
    yield Doubt(
        cell=measurement.cell,
        kind="budget",
        sentence=(
            f"{told}: the interval is ±{units.percent_beside(width, study.precision)}, "
            f"±{units.percent(study.precision)} was asked"
        ),
        next_step=_narrower(width, groups, study),
        found=width,
        threshold=study.precision,
    )


def _narrower(width: float, groups: Sequence[Sequence[float]], study: Study) -> str:
    """Return how to get a narrower interval. Its width falls as 1 / √n of the pairs, and of the sessions."""
    reachable = units.plain(ceil(100 * width) / 100)
    factor = (width / study.precision) ** 2
    if study.precision < 2 * machine_spread(study.device) and len(groups) > 1:
        return f"raise --precision to {reachable}, because the state of this machine changes by more, {_ANEW}"
    if len(groups) > 1:
        return f"raise --processes to {min(2 * len(groups), 16)} or --precision to {reachable}, {_ANEW}"
    if factor * len(groups[0]) <= MOST_SAMPLES:
        return f"raise --seconds to {ceil(factor * study.cell_seconds)} {_ANEW}"
    return f"{MOST_SAMPLES} pairs would not suffice: close other work or raise --precision to {reachable}, {_ANEW}"


def spread(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether the middle half of the speed-ups is narrow, within sessions."""
    ratios = relative(speedup_groups(measurement))
    iqr = float(np.subtract(*np.quantile(ratios, [0.75, 0.25])))
    if len(ratios) >= TREND_PAIRS and iqr >= WIDE_IQR:
        yield Doubt(
            cell=measurement.cell,
            kind="spread",
            sentence=f"the middle half of the speed-ups spans {units.percent(iqr)} of their median; from "
            f"{units.percent(WIDE_IQR, 0)} on, other work on the machine is the likely reason",
            next_step="close other work on this machine",
            found=iqr,
            threshold=WIDE_IQR,
        )


def drift(measurement: Measurement) -> Iterator[Suspicion]:
    """Test whether the samples move with time within sessions: by rank correlation, and by their first and last third.

    A difference between two sessions is no drift.
    """
    for what, groups, matters, step in (
        ("speed-ups", speedup_groups(measurement), MATTERS, "warm up longer or lock the clocks: nvidia-smi -lgc"),
        (
            "dense times",
            dense_groups(measurement),
            DENSE_MATTERS,
            "wait until the machine is idle, or lock the clocks: nvidia-smi -lgc",
        ),
    ):
        values, when = relative(groups), position(groups)
        if len(values) < TREND_PAIRS or np.ptp(values) == 0:
            continue
        moved = float(np.median(values[when > 2 / 3]) / np.median(values[when < 1 / 3])) - 1
        chance = 1.0
        if abs(moved) > matters:
            from scipy.stats import spearmanr

            chance = float(spearmanr(when, values).pvalue)  # pyright: ignore[reportAttributeAccessIssue]
        where = "" if len(groups) == 1 else " of a session"
        doubt = Doubt(
            cell=measurement.cell,
            kind="drift",
            sentence=f"the {what} moved by {units.signed_percent(moved)} from the first third of the samples{where} to "
            f"the last third ({_by_chance(chance)})",
            next_step=step,
            found=moved,
            threshold=matters,
        )
        yield Suspicion(chance, doubt)


def multimodality(measurement: Measurement) -> Iterator[Suspicion]:
    """Test whether the dense times, or the pruned times, fall into two modes within sessions."""
    for what, groups in (("dense", dense_groups(measurement)), ("pruned", pruned_groups(measurement))):
        values = relative(groups)
        if len(values) < MODE_PAIRS:
            continue
        left, share = two_modes(values)
        usual, chance = chance_of_two_modes(left, len(values))
        doubt = Doubt(
            cell=measurement.cell,
            kind="multimodality",
            sentence=f"the {what} times have two modes, {units.percent(share, 0)} of them in the slower one: "
            f"within the modes, {units.percent(left, 0)} of the deviation is left; with one mode "
            f"{units.percent(usual, 0)} is usual ({_by_chance(chance)})",
            next_step="look for a second user of the device, or lock the clocks: nvidia-smi -lgc",
            found=left,
            threshold=usual,
        )
        yield Suspicion(chance, doubt)


def order(measurement: Measurement) -> Iterator[Suspicion]:
    """Test whether the speed-up depends on which of the two runs came first."""
    ratios = relative(speedup_groups(measurement))
    first = np.array([pair.dense_first for pair in measurement.pairs])
    if first.all() or not first.any():
        return
    difference = float(np.median(ratios[first]) / np.median(ratios[~first])) - 1
    chance = 1.0
    if abs(difference) > MATTERS:
        from scipy.stats import mannwhitneyu

        chance = float(mannwhitneyu(ratios[first], ratios[~first]).pvalue)
    doubt = Doubt(
        cell=measurement.cell,
        kind="order",
        sentence=f"the speed-up differs by {units.signed_percent(difference)} if dense runs first "
        f"({_by_chance(chance)}): one run changes the next",
        next_step="look for a cache that one of the runs fills; the median over both orders is still fair",
        found=difference,
        threshold=MATTERS,
    )
    yield Suspicion(chance, doubt)


def dependence(measurement: Measurement) -> Iterator[Suspicion]:
    """Test whether neighbouring speed-ups of a session are similar, by the autocorrelation of their ranks."""
    groups = [ranks_of(group) for group in speedup_groups(measurement) if np.ptp(group)]
    n = sum(len(group) for group in groups)
    if n == 0:
        return
    rho = sum(len(group) * autocorrelation(group) for group in groups) / n
    effective = max((1 - rho) / (1 + rho), 0.0)
    # Without autocorrelation the standard error of ρ is 1 / √n.
    chance = float(ndtr(-rho * n**0.5))
    doubt = Doubt(
        cell=measurement.cell,
        kind="autocorrelation",
        sentence=f"neighbouring speed-ups are similar (lag-1 correlation {units.correlation(rho)}): {n} pairs are "
        f"worth {max(round(n * effective), 1)}, less than {units.percent(FEW_EFFECTIVE, 0)}",
        next_step=f"raise --seconds {_ANEW}: with few effective pairs the interval may be too narrow",
        found=effective,
        threshold=FEW_EFFECTIVE,
    )
    yield Suspicion(chance if effective < FEW_EFFECTIVE else 1.0, doubt)


def _by_chance(probability: float) -> str:
    """Return a remark on a p-value for a sentence."""
    return f"probability by chance {units.probability(probability)}"
