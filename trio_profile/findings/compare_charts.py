"""The charts of a comparison: speed against closeness to dense, and against right answers."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.analysis.compare import Comparison, Row
from trio_profile.findings.blocks import Axis, Chart, Series
from trio_profile.findings.charts import RIGHT_ANSWERS, ends
from trio_profile.records.estimate import Accuracy, Measured, Nats

_Judged = tuple[Row, Measured, Nats]
_Answered = tuple[Row, Measured, Accuracy]


def closeness(document: Comparison, retention: float) -> Chart:
    """Prefill speed-up against KL to dense at one retention, a point for each method; the Pareto front is joined."""
    placed = [
        (row, row.prefill_speedup, row.kl_nats) for row in document.at(retention) if row.prefill_speedup and row.kl_nats
    ]
    on_front = sorted((speedup.value, kl.value) for row, speedup, kl in placed if row.pareto)
    front = Series(
        "Pareto front",
        [x for x, _ in on_front],
        [y for _, y in on_front],
        colour=0,
        line="dot",
        marker=None,
        width=1.5,
    )
    return Chart(
        f"front-{units.plain(retention)}",
        "Speed and closeness to dense",
        "Prefill speed-up of each method against how far its next token lies from dense",
        _speedup_axis([speedup for _, speedup, _ in placed]),
        _nats_axis([kl.value for *_, kl in placed]),
        [front, _closeness(placed, on_front=True), _closeness(placed, on_front=False)],
        height=460,
        detail=True,
    )


def answers(document: Comparison, retention: float) -> Chart:
    """Prefill speed-up against right answers at one retention, a point for each method, with both intervals."""
    placed: list[_Answered] = [
        (row, row.prefill_speedup, row.accuracy)
        for row in document.at(retention)
        if row.prefill_speedup and row.accuracy
    ]
    whole = document.dense.accuracy if document.dense else None
    low, high = ends([right.ci95 for *_, right in placed], 100)
    x_low, x_high = ends([speedup.ci95 for _, speedup, _ in placed])
    points = Series(
        "methods",
        [speedup.value for _, speedup, _ in placed],
        [100 * right.value for *_, right in placed],
        [
            f"{_text(row, speedup)}\nright {units.percent_within(right.value, right.ci95)}"
            for row, speedup, right in placed
        ],
        low,
        high,
        x_low,
        x_high,
        band=False,
        colour=0,
        line=None,
        labels=[row.method for row, *_ in placed],
        size=8,
        legend=False,
    )
    return Chart(
        f"right-{units.plain(retention)}",
        "Speed and answers",
        "Prefill speed-up of each method against the share of questions that it answers right",
        _speedup_axis([speedup for _, speedup, _ in placed]),
        RIGHT_ANSWERS,
        [points],
        levels=(100 * whole.value,) if whole else (),
        height=460,
        detail=True,
    )


def _closeness(placed: Sequence[_Judged], *, on_front: bool) -> Series:
    """The points on the Pareto front (filled), or those that are not (hollow)."""
    shown = [one for one in placed if one[0].pareto == on_front]
    x_low, x_high = ends([speedup.ci95 for _, speedup, _ in shown])
    return Series(
        "on the Pareto front" if on_front else "not on the Pareto front",
        [speedup.value for _, speedup, _ in shown],
        [kl.value for *_, kl in shown],
        [f"{_text(row, speedup)}\nKL {units.factor(kl.value)} nats" for row, speedup, kl in shown],
        x_low=x_low,
        x_high=x_high,
        colour=0 if on_front else None,
        line=None,
        hollow=[not on_front] * len(shown),
        labels=[row.method for row, *_ in shown],
        size=8,
        legend=False,
    )


def _text(row: Row, speedup: Measured) -> str:
    return f"{row.method}\nprefill {units.times_within(speedup.value, speedup.ci95)}"


def _speedup_axis(found: Sequence[Measured]) -> Axis:
    bounds = [bound for speedup in found for bound in speedup.ci95] or [1.0]
    return Axis("Prefill speed-up over dense", min(bounds) - 0.1, max(bounds) + 0.1, "×")


def _nats_axis(nats: Sequence[float]) -> Axis:
    """Methods lie orders of magnitude apart, so the axis is logarithmic unless a value is 0."""
    title = "KL(dense ‖ pruned) of the next token, nats"
    if nats and min(nats) > 0:
        return Axis(title, min(nats) / 1.5, max(nats) * 1.5, log=True)
    return Axis(title, 0, 1.12 * max(nats, default=1) or 1)
