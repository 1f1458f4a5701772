"""One chart of all methods and retentions: what is gained in speed against what is lost."""

from collections.abc import Sequence
from dataclasses import replace
from math import floor

from trio_profile import units
from trio_profile.analysis.cells import CellSummary, DenseSummary, loss
from trio_profile.analysis.pareto import front
from trio_profile.analysis.recommendation import CONTROL
from trio_profile.findings.blocks import Axis, Chart, Series
from trio_profile.findings.charts import RIGHT_ANSWERS, ends
from trio_profile.records.estimate import Measured

NOTE = (
    "Right is faster, and up is better. A line joins the retentions of one method. A filled point is on the Pareto "
    "front: no other cell is both faster and better. Controls are left out of the front. Methods without a point on it "
    "are grey until you choose them."
)
_Placed = tuple[CellSummary, Measured, float]
"""A cell with its speed-up and its place on the y axis."""


def chart(
    cells: Sequence[CellSummary], methods: Sequence[str], reference: str, dense: DenseSummary | None
) -> Chart | None:
    """Prefill speed-up against right answers, or against closeness to dense where no answers are known.

    methods: in the study's order, which gives them their colours.
    reference: the method that is always coloured.
    Returns None if no cell has both.
    """
    answered = dense is not None and dense.accuracy is not None
    placed = [
        (cell, cell.prefill_speedup, 100 * (1 - lost) if answered else lost)
        for cell in cells
        if cell.prefill_speedup is not None
        and (lost := loss(cell)) is not None
        and (cell.accuracy is not None) == answered
    ]
    if not placed:
        return None
    judged = [one for one in placed if one[0].remark != CONTROL]
    best = [judged[index] for index in front([(speedup.value, -y if answered else y) for _, speedup, y in judged])]
    on_front = {id(cell) for cell, _, _ in best}
    series = [
        _series(method, [one for one in placed if one[0].method == method], on_front, methods, reference, answered)
        for method in methods
    ]
    return Chart(
        "pareto",
        "Speed and answers" if answered else "Speed and closeness to dense",
        _label([cell for cell, _, _ in best], answered),
        _speedup_axis([speedup for _, speedup, _ in placed]),
        _answers_axis([cell for cell, _, _ in placed]) if answered else _nats_axis([y for _, _, y in placed]),
        [_front_line(best), *(one for one in series if one.x)],
        levels=(100 * dense.accuracy.value,) if dense is not None and dense.accuracy is not None else (),
        picker=len({cell.method for cell, _, _ in placed}) > 1,
        height=480,
        detail=True,
    )


def _label(best: Sequence[CellSummary], answered: bool) -> str:
    names = ", ".join(f"{cell.method} at {units.percent(cell.realised)}" for cell in best)
    against = "right answers" if answered else "closeness to dense"
    return f"Prefill speed-up against {against}, for all methods and retentions. On the Pareto front: {names}"


def _front_line(best: Sequence[_Placed]) -> Series:
    ordered = sorted((speedup.value, y) for _, speedup, y in best)
    x, y = [x for x, _ in ordered], [y for _, y in ordered]
    return Series("Pareto front", x, y, line="dot", marker=None, width=1.5)


def _series(
    method: str,
    shown: Sequence[_Placed],
    on_front: set[int],
    methods: Sequence[str],
    reference: str,
    answered: bool,
) -> Series:
    """The line of one method, lowest retention first."""
    shown = sorted(shown, key=lambda one: one[0].realised)
    stands_out = method == reference or any(id(cell) in on_front for cell, _, _ in shown)
    x_low, x_high = ends([speedup.ci95 for _, speedup, _ in shown])
    low, high = ends([cell.accuracy.ci95 for cell, _, _ in shown if cell.accuracy is not None], 100)
    return Series(
        method,
        [speedup.value for _, speedup, _ in shown],
        [y for _, _, y in shown],
        [_text(*one) for one in shown],
        low if answered else (),
        high if answered else (),
        x_low,
        x_high,
        band=False,
        colour=methods.index(method),
        hollow=[id(cell) not in on_front for cell, _, _ in shown],
        labels=_labels([cell for cell, _, _ in shown], on_front, method if len(methods) > 1 else "", reference),
        size=9,
        group=method,
        legend=stands_out,
        quiet=not stands_out,
    )


def _labels(cells: Sequence[CellSummary], on_front: set[int], method: str, reference: str) -> list[str]:
    """The label of each point of one method: of those on the front; of the reference method at least of its first.

    method: its name; empty in a chart of one method, which needs no name.
    """
    named = {id(cell) for cell in cells if id(cell) in on_front}
    if not named and method == reference and cells:
        named = {id(cells[0])}
    return [f"{method} {units.percent(cell.realised, 0)}".strip() if id(cell) in named else "" for cell in cells]


def _text(cell: CellSummary, speedup: Measured, _: float) -> str:
    lines = [
        f"{cell.method} at {units.percent(cell.realised)}",
        f"prefill {units.times_within(speedup.value, speedup.ci95)}",
    ]
    if cell.accuracy is not None:
        lines.append(f"right {units.percent_within(cell.accuracy.value, cell.accuracy.ci95)}")
    if cell.kl_nats_mean is not None:
        lines.append(f"mean KL {units.nats_within(cell.kl_nats_mean.value, cell.kl_nats_mean.ci95)}")
    return "\n".join(lines)


def _speedup_axis(found: Sequence[Measured]) -> Axis:
    bounds = [bound for speedup in found for bound in speedup.ci95] or [1.0]
    return Axis("Prefill speed-up over dense", min(bounds) - 0.1, max(bounds) + 0.1, "×")


def _answers_axis(cells: Sequence[CellSummary]) -> Axis:
    """From below all intervals, in steps of ten percent, to above 100 %."""
    least = min((cell.accuracy.ci95[0] for cell in cells if cell.accuracy is not None), default=0.0)
    return replace(RIGHT_ANSWERS, low=max(10 * floor(10 * least) - 5, 0))


def _nats_axis(nats: Sequence[float]) -> Axis:
    """From the largest value at the bottom to the smallest at the top, so that up is better.

    Methods lie orders of magnitude apart, so the axis is logarithmic unless a value is 0.
    """
    title = "Mean KL(dense ‖ pruned) of the next token, nats"
    if nats and min(nats) > 0:
        return Axis(title, max(nats) * 1.5, min(nats) / 1.5, log=True)
    return Axis(title, 1.12 * max(nats, default=1) or 1, -0.05 * (max(nats, default=1) or 1))
