"""The charts of `endpoints`: gain, throughput and time to the first token over the load."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from trio_profile import units
from trio_profile.findings.blocks import Axis, Chart, Dash, Series, Upright
from trio_profile.findings.charts import highest, line
from trio_profile.kinds.servers.advice import NAMES, by_words, load_word
from trio_profile.kinds.servers.document import AtLoad, EndpointsDocument, Quantity
from trio_profile.kinds.servers.requests import ARMS
from trio_profile.kinds.servers.study import Loop
from trio_profile.records.estimate import OverRounds

_GAINS: tuple[Quantity, ...] = ("throughput", "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "goodput")
_PERCENTILES: dict[Quantity, Dash] = {"ttft_p50_ms": "solid", "ttft_p95_ms": "dash", "ttft_p99_ms": "dot"}
_CURVES: tuple[tuple[str, str, str, dict[Quantity, Dash]], ...] = (
    ("throughput", "Throughput", "Requests per second", {"throughput": "solid"}),
    ("ttft", "Time to the first token", "Milliseconds", _PERCENTILES),
)
"""The id, the caption, the unit and the quantities of each chart of the arms."""
_ROOM = 2.0
"""An axis reaches to this many times its highest value, even where an interval of few rounds reaches much further."""


def gains(document: EndpointsDocument, loop: Loop) -> Iterator[Chart]:
    """The gain of pruning over the load, with the break-even of each quantity. Nothing with one load."""
    at, word = [one for one in document.loads if one.loop == loop], load_word(loop)
    series: list[Series] = []
    for name in _GAINS:
        if values := [(one.load, one.gains[name]) for one in at if name in one.gains]:
            look = {"colour": len(series), "quiet": name not in ("throughput", "ttft_p50_ms")}
            series.append(_series(values, NAMES[name], f"{NAMES[name]} at {word}", **look))
    if len(at) < 2 or not series:
        return
    break_evens = [one for one in document.break_even if one.loop == loop and one.quantity in _GAINS]
    low = min([0.9, *(bound for one in series for bound in one.low)])
    high = max(1.1, min(_top(series), max(bound for one in series for bound in one.high)))
    about = by_words(document, break_evens).items()
    said = "; ".join(f"{', '.join(NAMES[name] for name in names)} {words}" for words, names in about)
    uprights: list[Upright] = []
    for one in break_evens:
        if one.load is not None and one.ci95 is not None:
            text = f"{NAMES[one.quantity]} breaks even at {units.load_within(one.load, one.ci95)}"
            uprights.append(Upright(one.load, *one.ci95, text, _GAINS.index(one.quantity)))
    yield Chart(
        id=f"gains-{loop}",
        caption=f"Gain of pruning over {word}",
        label=f"Gain of pruning by {word}: {said}",
        x=_axis(at),
        y=Axis("Gain of pruning (above 1 it pays)", low - 0.05, high + 0.05, "×"),
        series=series,
        levels=(1.0,),
        uprights=uprights,
        picker=True,
    )


def curves(document: EndpointsDocument, loop: Loop) -> Iterator[Chart]:
    """Throughput and time to the first token of each arm over the load. Nothing with one load."""
    at, word = [one for one in document.loads if one.loop == loop], load_word(loop)
    for id, caption, unit, dashes in _CURVES if len(at) > 1 else ():
        series: list[Series] = []
        for quantity, arm in product(dashes, ARMS):
            known = [(one.load, getattr(getattr(one, arm), quantity)) for one in at]
            name = arm if len(dashes) == 1 else f"{arm}, {NAMES[quantity]}"
            look = {"colour": 0 if arm == "pruned" else 1, "line": dashes[quantity], "band": len(dashes) == 1}
            if values := [(load, value) for load, value in known if value is not None]:
                series.append(_series(values, name, f"{name} at", **look))
        most = min(highest((bound for one in series for bound in one.high), least=0.0), _top(series)) if series else 0
        yield Chart(
            id=f"{id}-{loop}",
            caption=f"{caption} over {word}",
            label=f"{caption}, dense and pruned, by {word}. The table has the numbers",
            x=_axis(at),
            y=Axis(unit, 0, most),
            series=series,
            picker=len(series) > 2,
            detail=True,
        )


def text_of(value: OverRounds) -> str:
    """A value over rounds in words, in its own unit. A gain has its interval."""
    if value.unit == "×":
        return units.times_within(value.value, value.ci95)
    return units.per_second(value.value) if value.unit == "/s" else units.milliseconds(value.value)


def _axis(at: Sequence[AtLoad]) -> Axis:
    loads = [one.load for one in at]
    title = "Requests under way" if at[0].loop == "closed" else "Requests that arrive per second"
    return Axis(title, min(loads) / 1.15, max(loads) * 1.15, log=True, ticks=loads, digits=1)


def _top(series: Iterable[Series]) -> float:
    """The highest end of an axis that shows these series."""
    return _ROOM * max(value for one in series for value in one.y)


def _series(values: Sequence[tuple[float, OverRounds]], name: str, title: str, **look: Any) -> Series:
    """Values with their intervals over the loads. title: of a point, before its load."""
    points = [(load, value, f"{title} {units.load(load)}\n{text_of(value)}") for load, value in values]
    return line(name, points, group=name, **look)
