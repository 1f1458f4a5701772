"""One chart of all methods and retentions: the gain in speed against the loss."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor

from trio_profile import units
from trio_profile.judge.front import CONTROL, front, loss
from trio_profile.quantities.summary import CellSummary, DenseSummary
from trio_profile.records.estimate import Interval, Measured
from trio_profile.report.blocks import Axis, Chart, Series
from trio_profile.report.charts import RIGHT_ANSWERS, ends
from trio_profile.report.palette import number_of

NOTE = "In the chart of speed and answers a filled point is on the Pareto front: no other cell is faster and better."


@dataclass(frozen=True)
class Point:
    """A cell in the chart.

    where: its retention, as its label has it.
    y: what is kept or lost. ends: its interval; None if it has none.
    text: its tooltip. control: whether it is left out of the front.
    """

    method: str
    where: str
    speedup: Measured
    y: float
    ends: Interval | None
    text: str
    control: bool = False


def chart(cells: Sequence[CellSummary], methods: Sequence[str], dense: DenseSummary | None) -> Chart | None:
    """Prefill speed-up against right answers, or against closeness to dense where no answers are known.

    methods: those of the study.
    Returns None if no cell has both.
    """
    whole = None if dense is None else dense.accuracy
    points = [
        _point(cell, cell.prefill_speedup, lost)
        for cell in sorted(cells, key=lambda cell: cell.realised)
        if cell.prefill_speedup is not None
        and (lost := loss(cell)) is not None
        and (cell.accuracy is not None) == (whole is not None)
    ]
    if whole is None:
        axis = _nats_axis([point.y for point in points])
        return drawn("pareto", "Speed and closeness to dense", points, methods, axis, higher=False)
    least = min((point.ends[0] for point in points if point.ends), default=0.0)
    axis = replace(RIGHT_ANSWERS, low=max(10 * floor(least / 10) - 5, 0))
    return drawn("pareto", "Speed and answers", points, methods, axis, levels=(100 * whole.value,))


def drawn(
    id: str,
    caption: str,
    points: Sequence[Point],
    methods: Sequence[str],
    axis: Axis,
    *,
    higher: bool = True,
    levels: Sequence[float] = (),
) -> Chart | None:
    """The chart of some points. Returns None without points.

    points: those of one method in the order of their retentions.
    axis: of y. higher: whether a higher y is better. levels: y values of horizontal lines.
    """
    if not points:
        return None
    judged = [point for point in points if not point.control]
    best = [judged[i] for i in front([(point.speedup.value, -point.y if higher else point.y) for point in judged])]
    ordered = sorted(best, key=lambda point: point.speedup.value)
    x, y = [point.speedup.value for point in ordered], [point.y for point in ordered]
    names = ", ".join(f"{point.method} at {point.where}" for point in best)
    bounds = [bound for point in points for bound in point.speedup.ci95]
    measured = dict.fromkeys(point.method for point in points)
    return Chart(
        id,
        caption,
        f"{axis.title} against prefill speed-up, for all methods and retentions. On the Pareto front: {names}",
        Axis("Prefill speed-up over dense", min(bounds) - 0.1, max(bounds) + 0.1, "×"),
        axis,
        [
            Series("Pareto front", x, y, line="dot", points=False, width=1.5),
            *(_series(method, points, best, methods) for method in measured),
        ],
        levels=levels,
        picker=len(measured) > 1,
        height=440,
        detail=True,
    )


def _series(method: str, points: Sequence[Point], best: Sequence[Point], methods: Sequence[str]) -> Series:
    """The line of one method. Only points on the front have a label; a method without one is quiet."""
    own = [point for point in points if point.method == method]
    name = method if len(methods) > 1 else ""
    x_low, x_high = ends([point.speedup.ci95 for point in own])
    low, high = ends([point.ends for point in own if point.ends])
    on_front = [point in best for point in own]
    return Series(
        method,
        [point.speedup.value for point in own],
        [point.y for point in own],
        [point.text for point in own],
        low if len(low) == len(own) else (),
        high if len(low) == len(own) else (),
        x_low,
        x_high,
        band=False,
        colour=number_of(method),
        hollow=[not best for best in on_front],
        labels=[f"{name} {point.where}".strip() if best else "" for point, best in zip(own, on_front, strict=True)],
        size=9,
        group=method,
        legend=any(on_front),
        quiet=not any(on_front),
    )


def _point(cell: CellSummary, speedup: Measured, lost: float) -> Point:
    where, right, near = units.percent(cell.realised), cell.accuracy, cell.kl_nats_mean
    lines = [f"{cell.method} at {where}", f"prefill {units.times_within(speedup.value, speedup.ci95)}"]
    lines += [f"right {units.percent_within(right.value, right.ci95)}"] if right else []
    lines += [f"mean KL {units.nats_within(near.value, near.ci95)}"] if near else []
    y, bounds = (lost, None) if right is None else (100 * right.value, (100 * right.ci95[0], 100 * right.ci95[1]))
    short = units.percent(cell.realised, 0)
    return Point(cell.method, short, speedup, y, bounds, "\n".join(lines), cell.remark == CONTROL)


def _nats_axis(nats: Sequence[float]) -> Axis:
    """From the largest value at the bottom to the smallest at the top, so that up is better.

    Methods lie orders of magnitude apart, so the axis is logarithmic unless a value is 0.
    """
    title = "Mean KL(dense ‖ pruned) of the next token, nats"
    if nats and min(nats) > 0:
        return Axis(title, max(nats) * 1.5, min(nats) / 1.5, log=True)
    return Axis(title, 1.12 * max(nats, default=1) or 1, -0.05 * (max(nats, default=1) or 1))
