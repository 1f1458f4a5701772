"""The charts of an ablation: a point for each variant, side by side, the default filled."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.analysis.ablate import Group, Row
from trio_profile.analysis.sweep import DenseSummary
from trio_profile.findings.blocks import Axis, Chart, Series
from trio_profile.findings.charts import RIGHT_ANSWERS, ends
from trio_profile.records.estimate import Interval

_Point = tuple[Row, float, Interval, str]
"""A variant, its value, the interval, and the two as text."""


def answers(group: Group, retention: float, dense: DenseSummary) -> Chart:
    """Right answers of each variant at one retention; the level line is dense."""
    shown = [
        (row, 100 * found.value, _scaled(found.ci95), f"right {units.percent_within(found.value, found.ci95)}")
        for row in group.at(retention)
        if (found := row.accuracy)
    ]
    level = (100 * dense.accuracy.value,) if dense.accuracy else ()
    what = ("right", "Questions answered right", "Share of questions answered right")
    return _variants(group, retention, what, shown, RIGHT_ANSWERS, level)


def closeness(group: Group, retention: float) -> Chart:
    """Mean KL to dense of each variant at one retention."""
    shown = [
        (row, found.value, found.ci95, f"mean KL {units.nats_within(found.value, found.ci95)}{_tail(row)}")
        for row in group.at(retention)
        if (found := row.kl_nats_mean)
    ]
    top = 1.1 * max([bounds[1] for _, _, bounds, _ in shown], default=1) or 1
    what = ("near", "Closeness to dense", "How far the next token's distribution lies from dense")
    return _variants(group, retention, what, shown, Axis("Mean KL(dense ‖ pruned) of the next token, nats", 0, top))


def speedup(group: Group, retention: float) -> Chart:
    """Prefill speed-up of each variant at one retention; at the level line prefill takes as long as dense."""
    shown = [
        (row, found.value, found.ci95, units.times_within(found.value, found.ci95))
        for row in group.at(retention)
        if (found := row.prefill_speedup)
    ]
    bounds = [bound for _, _, interval, _ in shown for bound in interval] + [1.0]
    axis = Axis("Prefill speed-up over dense", min(bounds) - 0.1, max(bounds) + 0.1, "×")
    return _variants(group, retention, ("prefill", "Prefill", "Prefill speed-up over dense"), shown, axis, (1.0,))


def _variants(
    group: Group,
    retention: float,
    what: tuple[str, str, str],
    shown: Sequence[_Point],
    axis: Axis,
    levels: Sequence[float] = (),
) -> Chart:
    """A chart with a place for each variant. what: the chart's id, caption and label."""
    id, caption, label = what
    low, high = ends([bounds for _, _, bounds, _ in shown])
    points = Series(
        group.name,
        list(range(len(shown))),
        [value for _, value, _, _ in shown],
        [f"{row.variant}{', the default' * row.default}\n{text}" for row, _, _, text in shown],
        low,
        high,
        band=False,
        colour=0,
        line=None,
        hollow=[not row.default for row, *_ in shown],
        size=9,
        legend=False,
    )
    names = [row.variant for row, *_ in shown]
    place = f"{group.name.replace(' ', '-')}-{units.plain(retention)}"
    label = f"{label}, by {group.name}"
    return Chart(f"{id}-{place}", caption, label, Axis("", names=names), axis, [points], levels, detail=True)


def _tail(row: Row) -> str:
    """The 95th percentile of the KL as a further line; empty if it is not known."""
    found = row.kl_nats_p95
    return "" if found is None else f"\n95th percentile {units.nats_within(found.value, found.ci95)}"


def _scaled(bounds: Interval) -> Interval:
    return 100 * bounds[0], 100 * bounds[1]
