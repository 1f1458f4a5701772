"""The charts that several reports share. Each is a function of the document."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from trio_profile import units
from trio_profile.analysis.recommendation import CONTROL
from trio_profile.findings import break_even
from trio_profile.findings.blocks import Axis, Chart, Series, Span
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.records.estimate import Accuracy, Estimate

RETENTION = Axis("Retention", 0, 102, " %", digits=1)
RIGHT_ANSWERS = Axis("Questions answered right", 0, 105, " %")
Line = tuple[str, int, Sequence[Any]]
"""A name, the number of its colour, and summaries of cells."""


def colour_of(document: Any, method: str) -> int:
    """The number of a method's colour: its place in the study, so that it is the same in every chart and table."""
    return document.study.methods.index(method)


def percents(shares: Iterable[float]) -> list[float]:
    """Shares of 0 to 1 as a percent axis has them."""
    return [100 * share for share in shares]


def ends(intervals: Sequence[tuple[float, float]], scale: float = 1) -> tuple[list[float], list[float]]:
    """The lower ends and the upper ends of intervals, each multiplied by `scale`."""
    return [scale * low for low, _ in intervals], [scale * high for _, high in intervals]


def highest(values: Iterable[float], *, least: float = 1.0) -> float:
    """The upper end of an axis that begins at 0: a little above all values, and above `least`."""
    return 1.08 * max([least, *values])


def finished(document: Any, method: str) -> list[Any]:
    """The finished cells of a method, least retention first."""
    done = [cell for cell in document.cells if cell.method == method and cell.status == "done" and cell.retention]
    return sorted(done, key=lambda cell: cell.realised)


def speedups(document: Any, id: str, caption: str, quantity: str, method: str) -> Chart:
    """The speed-up of one time by retention, with the claimed one above it, and where the gain is certain.

    id: of the chart.
    quantity: the name of the time.
    method: the method whose certain gain and certain loss are drawn.
    """
    name, methods = QUANTITIES[quantity].speedup, document.study.methods
    lines = [(each, colour_of(document, each), finished(document, each)) for each in methods]
    series = by_retention(lines, lambda cell: getattr(cell, name))
    claimed = [*_claimed(document, lines)] if id == "prefill" else []
    pays = "; ".join(f"{each} {break_even.pays(document, each, quantity)}" for each in methods)
    return Chart(
        id,
        caption,
        f"{QUANTITIES[quantity].label}, speed-up over dense by retention: {pays}",
        RETENTION,
        speedup_axis([*series, *claimed]),
        [*series, *claimed],
        levels=(1.0,),
        spans=_spans(document, method, quantity),
        height=360,
        detail=True,
    )


def line(name: str, points: Sequence[tuple[float, Estimate, str]], scale: float = 1, **look: Any) -> Series:
    """A series of estimates with their intervals.

    points: x, the estimate, and the tooltip. scale: what values are multiplied by. look: further fields of the series.
    """
    low, high = ends([estimate.ci95 for _, estimate, _ in points], scale)
    y, text = [scale * estimate.value for _, estimate, _ in points], [text for _, _, text in points]
    return Series(name, [x for x, _, _ in points], y, text, low, high, **look)


def by_retention(lines: Sequence[Line], value: Callable[[Any], Estimate | None]) -> list[Series]:
    """A line with its intervals for each method or study. Lines without a point are left out.

    value: a speed-up, or a share, which is drawn as a percentage.
    """
    found = []
    for name, colour, cells in lines:
        points = [
            (100 * cell.realised, estimate, f"{name} at {units.percent(cell.realised)}\n{_told(estimate)}")
            for cell in cells
            if (estimate := value(cell)) is not None
        ]
        if points:
            scale = 100 if isinstance(points[0][1], Accuracy) else 1
            found.append(line(name, points, scale, colour=colour, width=2.5, group=name))
    return found


def speedup_axis(series: Sequence[Series]) -> Axis:
    """An axis that holds all speed-ups with their intervals, and 1."""
    bounds = [1.0, *(value for line in series for value in (*line.y, *line.low, *line.high))]
    margin = 0.06 * (max(bounds) - min(bounds)) + 0.02
    return Axis("Speed-up over dense", min(bounds) - margin, max(bounds) + margin, "×")


def accuracy(document: Any) -> Chart:
    """The share of questions answered right by retention, with intervals; the level line is dense."""
    methods, whole = document.study.methods, document.dense.accuracy
    lines = [(method, colour_of(document, method), finished(document, method)) for method in methods]
    return Chart(
        "accuracy",
        "Questions answered right",
        "Share of questions answered right, by retention",
        RETENTION,
        RIGHT_ANSWERS,
        by_retention(lines, lambda cell: cell.accuracy),
        levels=(100 * whole.value,),
        detail=True,
    )


def _claimed(document: Any, lines: Sequence[Line]) -> Iterator[Series]:
    """The speed-ups that the paper's formula claims: the work of dense over that of a cell. Controls claim none."""
    shown = 0
    for method, colour, all_cells in lines:
        cells = [cell for cell in all_cells if cell.fastv_macs and cell.remark != CONTROL]
        if document.dense is None or not cells:
            continue
        y = [document.dense.fastv_macs / cell.fastv_macs for cell in cells]
        x, text = percents(cell.realised for cell in cells), [f"{method}, claimed: {units.times(one)}" for one in y]
        name = "claimed by the formula"
        yield Series(name, x, y, text, colour=colour, line="dot", marker=None, group=method, legend=not shown)
        shown += 1


def _spans(document: Any, method: str, quantity: str) -> list[Span]:
    """Where a method certainly gains, where nothing is certain, and where it certainly loses: as far as measured."""
    found = break_even.find(document, method, quantity)
    if found.measured is None:
        return []
    first, last = found.measured
    gain = first if found.certain_gain is None else found.certain_gain
    loss = last if found.certain_loss is None else found.certain_loss
    spans = (
        Span(100 * first, 100 * gain, "certain gain", "gain"),
        Span(100 * gain, 100 * loss, "undecided"),
        Span(100 * loss, 100 * last, "certain loss", "loss"),
    )
    return [span for span in spans if span.low < span.high]


def _told(found: Any) -> str:
    if isinstance(found, Accuracy):
        return f"{units.percent_within(found.value, found.ci95)} of {units.number_of(found.samples, 'question')}"
    stopped = f", stopped: {found.stopped}" if getattr(found, "stopped", "") else ""
    return f"{units.times_within(found.value, found.ci95)}, {units.number_of(found.samples, 'pair')}{stopped}"
