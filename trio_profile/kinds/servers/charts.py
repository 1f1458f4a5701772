"""The charts of `endpoints`: the gain and the throughput over the load."""

from collections.abc import Iterator, Sequence
from typing import Any

from trio_profile import units
from trio_profile.kinds.servers.advice import NAMES, crossing_of, load_word
from trio_profile.kinds.servers.document import BREAK_EVENS, AtLoad, EndpointsDocument
from trio_profile.kinds.servers.requests import ARMS
from trio_profile.kinds.servers.study import Loop
from trio_profile.records.estimate import OverRounds
from trio_profile.report.blocks import Axis, Chart, Series, Upright
from trio_profile.report.charts import highest, line

_ROOM = 2.0
"""An axis reaches to this many times its highest value, even where an interval of few rounds reaches much further."""


def charts(document: EndpointsDocument, loop: Loop, loads: Sequence[AtLoad]) -> Iterator[Chart]:
    """The charts of one loop. Nothing with one load, or with one round."""
    if len(loads) > 1 and any(at.gains for at in loads):
        yield _gains(document, loop, loads)
        yield _throughput(loop, loads)


def _gains(document: EndpointsDocument, loop: Loop, loads: Sequence[AtLoad]) -> Chart:
    """The gain of pruning over the load, with the break-even of each quantity."""
    series: list[Series] = []
    uprights: list[Upright] = []
    for name in BREAK_EVENS:
        if values := [(at.load, at.gains[name]) for at in loads if name in at.gains]:
            if crossing := crossing_of(document, loop, name):
                load, ci95 = crossing
                text = f"{NAMES[name]} breaks even at {units.load_within(load, ci95)}"
                uprights.append(Upright(load, *ci95, text, len(series)))
            quiet = name not in ("throughput", "ttft_p50_ms")
            series.append(_series(values, NAMES[name], loop, colour=len(series), quiet=quiet))
    low = min([0.9, *(bound for curve in series for bound in curve.low)])
    return Chart(
        id=f"gains-{loop}",
        caption=f"Gain of pruning over {load_word(loop)}",
        label="Each quantity with its interval. The table has the numbers",
        x=_axis(loop, loads),
        y=Axis("Gain of pruning (above 1 it pays)", low - 0.05, max(1.1, _top(series)) + 0.05, "×"),
        series=series,
        levels=(1.0,),
        uprights=uprights,
        picker=True,
    )


def _throughput(loop: Loop, loads: Sequence[AtLoad]) -> Chart:
    """The throughput of each arm over the load: where a server stops growing."""
    series: list[Series] = []
    for colour, arm in enumerate(reversed(ARMS)):
        known = [(at.load, getattr(at, arm).throughput) for at in loads]
        values = [(load, value) for load, value in known if value is not None]
        series.append(_series(values, arm, loop, colour=colour, band=True))
    return Chart(
        id=f"throughput-{loop}",
        caption=f"Throughput over {load_word(loop)}",
        label="Both arms with their intervals. The table has the numbers",
        x=_axis(loop, loads),
        y=Axis("Requests per second", 0, _top(series)),
        series=series,
        detail=True,
    )


def text_of(value: OverRounds) -> str:
    """A value over rounds in words, in its own unit. A gain has its interval."""
    if value.unit == "×":
        return units.times_within(value.value, value.ci95)
    return units.per_second(value.value) if value.unit == "/s" else units.milliseconds(value.value)


def _axis(loop: Loop, loads: Sequence[AtLoad]) -> Axis:
    ticks = [at.load for at in loads]
    title = "Requests under way" if loop == "closed" else "Requests that arrive per second"
    return Axis(title, min(ticks) / 1.15, max(ticks) * 1.15, log=True, ticks=ticks, digits=1)


def _top(series: Sequence[Series]) -> float:
    """The highest end of an axis that shows these series."""
    ends = highest((bound for curve in series for bound in curve.high), least=0.0)
    return min(ends, _ROOM * max((value for curve in series for value in curve.y), default=0.0))


def _series(values: Sequence[tuple[float, OverRounds]], name: str, loop: Loop, **look: Any) -> Series:
    """Values with their intervals over the loads."""
    points = [
        (load, value, f"{name} at {load_word(loop)} {units.load(load)}\n{text_of(value)}") for load, value in values
    ]
    return line(name, points, group=name, **look)
