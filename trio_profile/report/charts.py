"""The charts that several reports share. Each is a function of the document."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trio_profile import units
from trio_profile.judge.controls import CONTROL
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.records.estimate import Accuracy, Estimate
from trio_profile.report import break_even
from trio_profile.report.blocks import Axis, Chart, Series, Span
from trio_profile.report.palette import number_of

RETENTION = Axis("Retention", 0, 102, " %")
RIGHT_ANSWERS = Axis("Questions answered right", 0, 105, " %")


def ends(intervals: Sequence[tuple[float, float]], scale: float = 1) -> tuple[list[float], list[float]]:
    """The lower ends and the upper ends of intervals, each multiplied by `scale`."""
    return [scale * low for low, _ in intervals], [scale * high for _, high in intervals]


def line(name: str, points: Sequence[tuple[float, Estimate, str]], scale: float = 1, **look: Any) -> Series:
    """A series of estimates with their intervals.

    points: x, the estimate, and the tooltip. scale: what values are multiplied by. look: further fields of the series.
    """
    low, high = ends([estimate.ci95 for _, estimate, _ in points], scale)
    y, text = [scale * estimate.value for _, estimate, _ in points], [text for _, _, text in points]
    return Series(name, [x for x, _, _ in points], y, text, low, high, **look)


def speedups(document: Any, id: str, caption: str, method: str) -> Chart:
    """The speed-up of one time by retention, with the claimed one above it, and where the gain is certain.

    id: of the chart: `prefill` or `total`, the time without its unit.
    method: the method whose certain gain and certain loss are drawn.
    """
    quantity = f"{id}_ms"
    name, methods = QUANTITIES[quantity].speedup, document.study.methods
    series = [*_by_retention(document, lambda cell: getattr(cell, name))]
    series += _claimed(document) if id == "prefill" else []
    pays = "; ".join(f"{each} {break_even.pays(document, each, quantity)}" for each in methods)
    bounds = [1.0, *(value for drawn in series for value in (*drawn.y, *drawn.low, *drawn.high))]
    margin = 0.06 * (max(bounds) - min(bounds)) + 0.02
    return Chart(
        id,
        caption,
        f"{QUANTITIES[quantity].label}, speed-up over dense by retention: {pays}",
        RETENTION,
        Axis("Speed-up over dense", min(bounds) - margin, max(bounds) + margin, "×"),
        series,
        levels=(1.0,),
        spans=_spans(document, method, quantity),
        detail=True,
    )


def accuracy(document: Any) -> Chart:
    """The share of questions answered right by retention, with intervals; the level line is dense."""
    return Chart(
        "accuracy",
        "Questions answered right",
        "Share of questions answered right, by retention",
        RETENTION,
        RIGHT_ANSWERS,
        [*_by_retention(document, lambda cell: cell.accuracy)],
        levels=(100 * document.dense.accuracy.value,),
        detail=True,
    )


def _finished(document: Any) -> Iterator[tuple[int, str, list[Any]]]:
    """The number of the colour of each method, its name, and its finished cells, least retention first."""
    for method in document.study.methods:
        cells = [cell for cell in document.cells if cell.method == method and cell.status == "done" and cell.retention]
        yield number_of(method), method, sorted(cells, key=lambda cell: cell.realised)


def _by_retention(document: Any, value: Callable[[Any], Estimate | None]) -> Iterator[Series]:
    """A line with its intervals for each method. Methods without a point are left out.

    value: a speed-up, or an accuracy, which is drawn as a percentage.
    """
    for colour, method, cells in _finished(document):
        points = [
            (100 * cell.realised, estimate, f"{method} at {units.percent(cell.realised)}\n{_tooltip(estimate)}")
            for cell in cells
            if (estimate := value(cell)) is not None
        ]
        if points:
            scale = 100 if isinstance(points[0][1], Accuracy) else 1
            yield line(method, points, scale, colour=colour)


def _claimed(document: Any) -> Iterator[Series]:
    """The speed-ups that the paper's formula claims: the work of dense over that of a cell. Controls claim none."""
    legend = True
    for colour, method, all_cells in _finished(document):
        cells = [cell for cell in all_cells if cell.fastv_macs and cell.remark != CONTROL]
        if document.dense is None or not cells:
            continue
        y = [document.dense.fastv_macs / cell.fastv_macs for cell in cells]
        x, text = [100 * cell.realised for cell in cells], [f"{method}, claimed: {units.times(value)}" for value in y]
        name = "claimed by the formula"
        yield Series(name, x, y, text, colour=colour, line="dot", points=False, group=method, legend=legend)
        legend = False


def _spans(document: Any, method: str, quantity: str) -> list[Span]:
    """Where a method certainly gains, where nothing is certain, and where it certainly loses: as far as measured."""
    ranges = break_even.find(document, method, quantity)
    if ranges.measured is None:
        return []
    first, last = ranges.measured
    gain = first if ranges.certain_gain is None else ranges.certain_gain
    loss = last if ranges.certain_loss is None else ranges.certain_loss
    spans = (
        Span(100 * first, 100 * gain, "certain gain", "gain"),
        Span(100 * gain, 100 * loss, "undecided"),
        Span(100 * loss, 100 * last, "certain loss", "loss"),
    )
    return [span for span in spans if span.low < span.high]


def _tooltip(estimate: Any) -> str:
    if isinstance(estimate, Accuracy):
        share = units.percent_within(estimate.value, estimate.ci95)
        return f"{share} of {units.number_of(estimate.samples, 'question')}"
    speedup = units.times_within(estimate.value, estimate.ci95)
    return f"{speedup}, {units.number_of(estimate.samples, 'pair')}, stopped: {estimate.stopped}"
