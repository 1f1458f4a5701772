"""Doubts about the samples of one cell: too few, too wide, drifting, with two modes, or depending on each other.

Each function is one test. It yields a doubt if the test fails. All tests look at prefill, because sampling stops on the
prefill's speed-up.
"""

from collections.abc import Iterator
from math import ceil

import numpy as np
from scipy.stats import mannwhitneyu, spearmanr

from trio_profile import units
from trio_profile.analysis.doubt import LEAST_PAIRS, Doubt, dense_prefills, prefill_speedups, pruned_prefills
from trio_profile.records.schema import Measurement, Study
from trio_profile.stats.intervals import autocorrelation, median
from trio_profile.stats.modes import two_modes
from trio_profile.stats.stopping import half_width

MOST_PAIRS = 200
"""The most pairs that are ever measured in a cell."""
WIDE_IQR = 0.10
"""A relative interquartile range from here on is too wide. [torch.utils.benchmark's warning]."""
CHANCE = 0.005
"""The probability of a doubt by chance in one test. A kind with two tests then doubts 1 % of sound cells."""
MATTERS = 0.01
"""A relative shift below this does not matter. [criterion.rs's noise threshold]."""
ONE_MODE, ONE_MODE_ERROR = 0.5, 0.8
"""If n samples with one normal mode are cut in two, more than 0.5 − 0.8 / √n of their deviation is left in 99 % of the
cells. These numbers come from a simulation with `noise.steady`."""
MODE_PAIRS = 20
"""With fewer samples, two modes appear by chance."""
FEW_EFFECTIVE = 0.5
"""The least share of effective samples, (1 − ρ) / (1 + ρ) for an autocorrelation ρ. [AIPerf's rule]."""
AUTOCORRELATION_ERRORS = 2.6
"""ρ must be this many standard errors above 0, each 1 / √n. By chance this happens in 1 of 200 cells."""
TREND_PAIRS = 12
"""With fewer samples, trends appear by chance, and the p-value of the rank correlation is inexact."""


def samples(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether there are enough pairs for an interval."""
    n = len(measurement.pairs)
    if n < LEAST_PAIRS:
        yield Doubt(
            cell=measurement.cell,
            kind="samples",
            sentence=f"{n} pairs are too few for a 95 % interval, which needs {LEAST_PAIRS}",
            next_step="raise --seconds and measure into another --out",
            found=n,
            threshold=LEAST_PAIRS,
        )


def budget(measurement: Measurement, study: Study) -> Iterator[Doubt]:
    """Test whether the interval is as narrow as the study wants. Its width falls as 1 / √n."""
    width = half_width(prefill_speedups(measurement))
    if measurement.stopped == "converged" or width <= study.precision:
        return
    factor = (width / study.precision) ** 2
    if factor * len(measurement.pairs) <= MOST_PAIRS:
        step = f"raise --seconds to {ceil(factor * study.cell_seconds)}"
    else:
        reachable = units.plain(ceil(100 * width) / 100)
        step = f"{MOST_PAIRS} pairs would not suffice: close other work, or ask for --precision {reachable}"
    yield Doubt(
        cell=measurement.cell,
        kind="budget",
        sentence=f"sampling stopped ({measurement.stopped}) at {len(measurement.pairs)} pairs; the speed-up is known "
        f"to ±{units.percent(width)}, but the study asks for ±{units.percent(study.precision)}",
        next_step=step,
        found=width,
        threshold=study.precision,
    )


def spread(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether the middle half of the speed-ups is narrow."""
    ratios = prefill_speedups(measurement)
    iqr = float(np.subtract(*np.quantile(ratios, [0.75, 0.25]))) / median(ratios)
    if iqr >= WIDE_IQR:
        yield Doubt(
            cell=measurement.cell,
            kind="spread",
            sentence=f"the middle half of the speed-ups spans {units.percent(iqr)} of their median; from "
            f"{units.percent(WIDE_IQR, 0)} on, other work on the machine is the likely reason",
            next_step="close other work on this machine",
            found=iqr,
            threshold=WIDE_IQR,
        )


def drift(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether the samples move with time: by rank correlation, and by the medians of the first and last third."""
    for what, values, step in (
        ("speed-ups", np.array(prefill_speedups(measurement)), "warm up longer or lock the clocks: nvidia-smi -lgc"),
        (
            "dense times",
            dense_prefills(measurement),
            "wait until the machine is idle, or lock the clocks: nvidia-smi -lgc",
        ),
    ):
        if len(values) < TREND_PAIRS or np.ptp(values) == 0:
            continue
        third = len(values) // 3
        moved = float(np.median(values[-third:]) / np.median(values[:third])) - 1
        chance = float(spearmanr(np.arange(len(values)), values).pvalue)  # pyright: ignore[reportAttributeAccessIssue]
        if chance < CHANCE and abs(moved) > MATTERS:
            yield Doubt(
                cell=measurement.cell,
                kind="drift",
                sentence=f"the {what} moved by {units.signed_percent(moved)} from the first third of the samples to "
                f"the last third ({_by_chance(chance)})",
                next_step=step,
                found=moved,
                threshold=MATTERS,
            )


def multimodality(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether the dense times, or the pruned times, fall into two modes."""
    for what, values in (("dense", dense_prefills(measurement)), ("pruned", pruned_prefills(measurement))):
        if len(values) < MODE_PAIRS:
            continue
        left, share = two_modes(values)
        threshold = ONE_MODE - ONE_MODE_ERROR / len(values) ** 0.5
        if left < threshold:
            yield Doubt(
                cell=measurement.cell,
                kind="multimodality",
                sentence=f"the {what} times have two modes, {units.percent(share, 0)} of them in the slower one: "
                f"within the modes, {units.percent(left, 0)} of the deviation is left (with one mode, "
                f"{units.percent(threshold, 0)} or more is left)",
                next_step="look for a second user of the device, or lock the clocks: nvidia-smi -lgc",
                found=left,
                threshold=threshold,
            )


def order(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether the speed-up depends on which of the two runs came first."""
    ratios = prefill_speedups(measurement)
    dense_first = [ratio for ratio, pair in zip(ratios, measurement.pairs, strict=True) if pair.dense_first]
    pruned_first = [ratio for ratio, pair in zip(ratios, measurement.pairs, strict=True) if not pair.dense_first]
    if not dense_first or not pruned_first:
        return
    chance = float(mannwhitneyu(dense_first, pruned_first).pvalue)
    difference = median(dense_first) / median(pruned_first) - 1
    if chance < CHANCE and abs(difference) > MATTERS:
        yield Doubt(
            cell=measurement.cell,
            kind="order",
            sentence=f"the speed-up differs by {units.signed_percent(difference)} if dense runs first "
            f"({_by_chance(chance)}): one run changes the next",
            next_step="look for a cache that one of the runs fills; the median over both orders is still fair",
            found=difference,
            threshold=MATTERS,
        )


def dependence(measurement: Measurement) -> Iterator[Doubt]:
    """Test whether neighbouring speed-ups are similar, by the autocorrelation of their ranks."""
    ratios = prefill_speedups(measurement)
    n = len(ratios)
    rho = autocorrelation(np.argsort(np.argsort(ratios)).astype(float)) if np.ptp(ratios) else 0.0
    effective = (1 - rho) / (1 + rho)
    if effective < FEW_EFFECTIVE and rho > AUTOCORRELATION_ERRORS / n**0.5:
        yield Doubt(
            cell=measurement.cell,
            kind="autocorrelation",
            sentence=f"neighbouring speed-ups are similar (lag-1 correlation {units.correlation(rho)}): {n} pairs are "
            f"worth {max(round(n * effective), 1)}, less than {units.percent(FEW_EFFECTIVE, 0)}",
            next_step="raise --seconds: the interval is right, but it becomes narrow slowly",
            found=effective,
            threshold=FEW_EFFECTIVE,
        )


def _by_chance(probability: float) -> str:
    """Return a remark on a p-value for a sentence."""
    return f"probability by chance {units.probability(probability)}, below {units.plain(CHANCE)}"
