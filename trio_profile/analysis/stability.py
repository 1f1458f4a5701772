"""Can the numbers be believed? Doubts on each cell of a study, each with its number, its threshold and the next step.

A doubt is raised where a fault is both unlikely to be chance and large enough to matter; the thresholds are those of
the harnesses named beside them. All tests look at prefill, on whose ratio sampling stops.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, spearmanr

from trio_profile import units
from trio_profile.analysis.sweep import speedups
from trio_profile.errors import MeasurementError
from trio_profile.records.schema import Cell, Dense, Measurement, Record, Study
from trio_profile.stats.intervals import autocorrelation, median, median_interval
from trio_profile.stats.stopping import half_width

Kind = Literal[
    "samples",
    "budget",
    "spread",
    "drift",
    "multimodality",
    "order",
    "autocorrelation",
    "clock",
    "strangers",
    "machine",
    "cached",
]

LEAST_PAIRS = 6
"""Fewer cannot bear a 95 % interval of a median (the sign test)."""
MOST_PAIRS = 200
"""More are never taken, whatever the budget."""
WIDE_IQR = 0.10
"""Relative interquartile range: torch.utils.benchmark warns of "significant environmental influence" from here on."""
CHANCE = 0.005
"""Of a doubt by chance alone in one test: a kind that makes two of them stays at 1 % of sound cells."""
MATTERS = 0.01
"""A shift below this is not worth a doubt: criterion.rs's noise threshold."""
ONE_MODE, ONE_MODE_ERROR = 0.5, 0.8
"""Cutting one normal mode of n samples in two leaves more than 0.5 − 0.8 / √n of its deviation in 99 % of cells: found
by simulation on noise.steady."""
LEAST_MODE = 0.15
"""Share of the samples that makes a mode; fewer are outliers."""
MODE_PAIRS = 20
"""Fewer samples fall into two heaps by chance."""
FEW_EFFECTIVE = 0.5
"""Share of the samples that autocorrelation leaves, (1 − ρ) / (1 + ρ) as in AIPerf, below which there is a doubt."""
AUTOCORRELATION_ERRORS = 2.6
"""Standard errors, 1 / √n each, that ρ must lie above 0: chance alone does so once in 200 cells."""
SLOW_CLOCK = 0.75
"""Of the study's highest clock: nvbench discards samples below."""
TREND_PAIRS = 12
"""Fewer samples show a trend by chance, and the p of their rank correlation is rough."""
OTHER_MACHINE = 0.02
"""Difference of a cell's dense time from its neighbours': tritonbench's aim from one day to the next."""


CACHED = 0.10
"""MLPerf's TEST04: a sample that is repeated may not be this much faster than distinct ones."""


class Doubt(Record):
    """Why numbers may not be believed: what was found, beside the threshold, and what to do. cell: None for all."""

    cell: Cell | None
    kind: Kind
    sentence: str
    next_step: str
    found: float
    threshold: float


def doubts(study: Study, measurements: Sequence[Measurement], dense: Dense | None = None) -> list[Doubt]:
    """All doubts, of the whole study and then cell by cell; failed cells have no numbers to doubt.

    Raises MeasurementError for a cell whose times are not above 0.
    """
    done = [measurement for measurement in measurements if measurement.status == "done"]
    for measurement in done:
        if any(min(pair.dense_prefill_ms, pair.prefill_ms) <= 0 for pair in measurement.pairs):
            raise MeasurementError(
                f"{name(measurement.cell)} has a time of 0 ms or less: remove the cell, measure again"
            )
    clocks = [pair.clock_mhz for m in done for pair in m.pairs if pair.clock_mhz is not None]
    medians = {m.cell.id: median(_dense(m).tolist()) for m in done if m.pairs}
    found = list(_cached(dense))
    for measurement in done:
        if len(measurement.pairs) < LEAST_PAIRS:
            found.append(_too_few(measurement))
            continue
        for raised in (_budget(measurement, study), _spread(measurement), _multimodality(measurement)):
            found += raised
        for raised in (_drift(measurement), _order(measurement), _autocorrelation(measurement)):
            found += raised
        found += _clock(measurement, max(clocks, default=0))
        found += _strangers(measurement)
        found += _machine(measurement, list(medians.values()))
    return found


def name(cell: Cell | None) -> str:
    """A cell in a sentence: `trio at 33.0 %`."""
    if cell is None:
        return "the whole study"
    return f"{cell.variant} at {units.percent(cell.retention)}"


def _cached(dense: Dense | None) -> Iterator[Doubt]:
    """Whether the picture that every run sees is faster than pictures that none has seen before."""
    if dense is None or len(dense.distinct_ratios) < LEAST_PAIRS:
        return
    low, _ = median_interval(dense.distinct_ratios)
    slower = median(dense.distinct_ratios) - 1
    if low - 1 > CACHED:
        yield Doubt(
            cell=None,
            kind="cached",
            sentence=f"a dense prefill of a picture not seen before takes {_signed(slower)} longer than that of the "
            f"repeated one (up to {units.percent(CACHED, 0)} may be): something keeps what it made of the picture",
            next_step="find the cache, or switch it off: every time of this study is too good",
            found=slower,
            threshold=CACHED,
        )


def _too_few(measurement: Measurement) -> Doubt:
    n = len(measurement.pairs)
    return Doubt(
        cell=measurement.cell,
        kind="samples",
        sentence=f"{n} pairs cannot bear a 95 % interval, which takes {LEAST_PAIRS}",
        next_step="raise --cell-seconds and measure into another --out",
        found=n,
        threshold=LEAST_PAIRS,
    )


def _budget(measurement: Measurement, study: Study) -> Iterator[Doubt]:
    """A stop before the interval was as narrow as asked. Its width falls as 1 / √n, which says what would do."""
    width = half_width(_ratios(measurement))
    if measurement.stopped == "converged" or width <= study.precision:
        return
    factor = (width / study.precision) ** 2
    if factor * len(measurement.pairs) <= MOST_PAIRS:
        step = f"raise --cell-seconds to {ceil(factor * study.cell_seconds)}"
    else:
        step = f"{MOST_PAIRS} pairs would not do: close other work, or ask for --precision {_coarser(width):g}"
    yield Doubt(
        cell=measurement.cell,
        kind="budget",
        sentence=f"sampling stopped ({measurement.stopped}) at {len(measurement.pairs)} pairs with the speed-up known "
        f"to ±{units.percent(width)}, not the ±{units.percent(study.precision)} asked for",
        next_step=step,
        found=width,
        threshold=study.precision,
    )


def _spread(measurement: Measurement) -> Iterator[Doubt]:
    ratios = _ratios(measurement)
    iqr = float(np.subtract(*np.quantile(ratios, [0.75, 0.25]))) / median(ratios)
    if iqr >= WIDE_IQR:
        yield Doubt(
            cell=measurement.cell,
            kind="spread",
            sentence=f"the middle half of the speed-ups spans {units.percent(iqr)} of their median "
            f"(from {units.percent(WIDE_IQR, 0)} on, the surroundings are being measured)",
            next_step="close other work on this machine",
            found=iqr,
            threshold=WIDE_IQR,
        )


def _drift(measurement: Measurement) -> Iterator[Doubt]:
    """A rank correlation with the order, and medians of the last and first third that really differ."""
    for what, values, step in (
        ("speed-ups", np.array(_ratios(measurement)), "warm up longer or lock the clocks: nvidia-smi -lgc"),
        ("dense times", _dense(measurement), "let the machine settle first, or lock the clocks: nvidia-smi -lgc"),
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
                sentence=f"the {what} moved by {_signed(moved)} from the first third of the samples to the last "
                f"(chance {chance:.1g}, below {CHANCE:g})",
                next_step=step,
                found=moved,
                threshold=MATTERS,
            )


def _multimodality(measurement: Measurement) -> Iterator[Doubt]:
    for what, values in (("dense", _dense(measurement)), ("pruned", _pruned(measurement))):
        if len(values) < MODE_PAIRS:
            continue
        within, share = two_modes(values)
        threshold = ONE_MODE - ONE_MODE_ERROR / len(values) ** 0.5
        if within < threshold:
            yield Doubt(
                cell=measurement.cell,
                kind="multimodality",
                sentence=f"the {what} times have two modes, {units.percent(share, 0)} of them in the slower: "
                f"taken apart, {units.percent(within, 0)} of the deviation is left (one mode leaves "
                f"{units.percent(threshold, 0)} or more)",
                next_step="look for a second user of the device, or lock the clocks: nvidia-smi -lgc",
                found=within,
                threshold=threshold,
            )


def two_modes(values: NDArray[np.float64]) -> tuple[float, float]:
    """How well two modes explain the values: the deviation left when they are cut in two at the best place.

    Mean absolute deviation from the median of one's own side, over that from the median of all; and the share of the
    samples on the upper side. The outer twentieths are pulled in first, and a side holds at least a mode's share, so
    that outliers make no mode. (1, 0) where nothing varies.
    """
    n = len(values)
    ordered = np.clip(np.sort(values), *np.quantile(values, [0.05, 0.95]))
    whole = _deviation(ordered)
    if whole == 0:
        return 1.0, 0.0
    least = ceil(LEAST_MODE * n)
    cuts = range(least, n - least + 1)
    left = [_deviation(ordered[:cut]) + _deviation(ordered[cut:]) for cut in cuts]
    best = int(np.argmin(left))
    return left[best] / whole, 1 - cuts[best] / n


def _deviation(values: NDArray[np.float64]) -> float:
    return float(np.abs(values - np.median(values)).sum())


def _order(measurement: Measurement) -> Iterator[Doubt]:
    """Which of a pair ran first should not matter to their ratio."""
    ratios = _ratios(measurement)
    first = [ratio for ratio, pair in zip(ratios, measurement.pairs, strict=True) if pair.dense_first]
    second = [ratio for ratio, pair in zip(ratios, measurement.pairs, strict=True) if not pair.dense_first]
    if not first or not second:
        return
    chance = float(mannwhitneyu(first, second).pvalue)
    apart = median(first) / median(second) - 1
    if chance < CHANCE and abs(apart) > MATTERS:
        yield Doubt(
            cell=measurement.cell,
            kind="order",
            sentence=f"the speed-up differs by {_signed(apart)} where dense ran first "
            f"(chance {chance:.1g}, below {CHANCE:g}): one run leaves something behind for the next",
            next_step="look for a cache that one of them fills; the median over both orders stays fair",
            found=apart,
            threshold=MATTERS,
        )


def _autocorrelation(measurement: Measurement) -> Iterator[Doubt]:
    ratios = _ratios(measurement)
    n = len(ratios)
    rho = autocorrelation(np.argsort(np.argsort(ratios)).astype(float)) if np.ptp(ratios) else 0.0
    left = (1 - rho) / (1 + rho)
    if left < FEW_EFFECTIVE and rho > AUTOCORRELATION_ERRORS / n**0.5:
        yield Doubt(
            cell=measurement.cell,
            kind="autocorrelation",
            sentence=f"neighbouring speed-ups resemble each other (lag-1 correlation {rho:.2f}): {n} pairs are worth "
            f"{max(round(n * left), 1)}, less than {units.percent(FEW_EFFECTIVE, 0)}",
            next_step="raise --cell-seconds: the interval is honest, but it narrows slowly",
            found=left,
            threshold=FEW_EFFECTIVE,
        )


def _clock(measurement: Measurement, highest_mhz: int) -> Iterator[Doubt]:
    """Pairs that a slowed-down GPU spoilt: thrown away while measuring, or kept and slow."""
    slow = [
        p.clock_mhz for p in measurement.pairs if p.clock_mhz is not None and p.clock_mhz < SLOW_CLOCK * highest_mhz
    ]
    spoilt = measurement.discarded + len(slow)
    if spoilt:
        share = spoilt / (measurement.discarded + len(measurement.pairs))
        yield Doubt(
            cell=measurement.cell,
            kind="clock",
            sentence=f"the GPU slowed down in {spoilt} pairs ({units.percent(share, 0)}), {measurement.discarded} "
            f"of them thrown away: below {units.percent(SLOW_CLOCK, 0)} of its clock{_because(measurement)}",
            next_step="lock the clocks below the power limit: nvidia-smi -lgc",
            found=share,
            threshold=0.0,
        )


def _because(measurement: Measurement) -> str:
    return f" ({', '.join(measurement.slowed_by)})" if measurement.slowed_by else ""


def _strangers(measurement: Measurement) -> Iterator[Doubt]:
    if measurement.strangers:
        yield Doubt(
            cell=measurement.cell,
            kind="strangers",
            sentence=f"{measurement.strangers} other processes were on the GPU: their work is in these times",
            next_step="wait for them, or choose another device (nvidia-smi lists them)",
            found=measurement.strangers,
            threshold=0,
        )


def _machine(measurement: Measurement, medians: Sequence[float]) -> Iterator[Doubt]:
    """The dense model is the same work in every cell of a study, so its times must agree."""
    dense = _dense(measurement).tolist()
    usual = median(medians)
    apart = median(dense) / usual - 1
    low, high = median_interval(dense, 0.99)
    if abs(apart) > OTHER_MACHINE and not low <= usual <= high:
        yield Doubt(
            cell=measurement.cell,
            kind="machine",
            sentence=f"the dense model took {units.milliseconds(median(dense))} here, {_signed(apart)} from the "
            f"study's {units.milliseconds(usual)}: more than its own spread and than {units.percent(OTHER_MACHINE, 0)}",
            next_step="compare cells by speed-up, not by time; close other work, or lock the clocks: nvidia-smi -lgc",
            found=apart,
            threshold=OTHER_MACHINE,
        )


def _ratios(measurement: Measurement) -> list[float]:
    return speedups(measurement.pairs, "prefill_ms")


def _dense(measurement: Measurement) -> NDArray[np.float64]:
    return np.array([pair.dense_prefill_ms for pair in measurement.pairs])


def _pruned(measurement: Measurement) -> NDArray[np.float64]:
    return np.array([pair.prefill_ms for pair in measurement.pairs])


def _coarser(width: float) -> float:
    """A precision that this noise can reach, in whole percents."""
    return ceil(100 * width) / 100


def _signed(share: float) -> str:
    return f"{'+' if share >= 0 else '−'}{units.percent(abs(share))}"
