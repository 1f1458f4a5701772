"""The charts of `endpoints`: gain, throughput and time to the first token over the load."""

from collections.abc import Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.endpoints import AtLoad, EndpointsDocument, LoadBreakEven, Quantity
from trio_profile.findings.blocks import Axis, Chart, Dash, Series, Upright
from trio_profile.findings.charts import ends, highest
from trio_profile.findings.endpoint_words import NAMES, load_words, pays
from trio_profile.records.endpoint_study import Loop
from trio_profile.records.requests import ARMS, Arm

_GAINS: tuple[Quantity, ...] = ("throughput", "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "goodput")
_PERCENTILES: dict[Quantity, Dash] = {"ttft_p50_ms": "solid", "ttft_p95_ms": "dash", "ttft_p99_ms": "dot"}


def gains(document: EndpointsDocument, loop: Loop) -> Iterator[Chart]:
    """The gain of pruning over the load, with the break-even of each quantity. Nothing with one load."""
    at = [one for one in document.loads if one.loop == loop]
    series = [_gains(at, name, colour) for colour, name in enumerate(_GAINS) if any(name in one.gains for one in at)]
    if len(at) < 2 or not series:
        return
    found = [one for one in document.break_even if one.loop == loop and one.quantity in _GAINS]
    low = min([0.9, *(bound for one in series for bound in one.low)])
    high = max([1.1, *(bound for one in series for bound in one.high)])
    yield Chart(
        id=f"gains-{loop}",
        caption=f"Gain of pruning over {load_words(loop)}",
        label=f"Gain of pruning by {load_words(loop)}: "
        + "; ".join(f"{NAMES[one.quantity]} {pays(one)}" for one in found),
        x=_axis(at),
        y=Axis("Gain of pruning (above 1 it pays)", low - 0.05, high + 0.05, "×"),
        series=series,
        levels=(1.0,),
        uprights=[upright for one in found for upright in _upright(one)],
        picker=True,
    )


def curves(document: EndpointsDocument, loop: Loop) -> Iterator[Chart]:
    """Throughput and time to the first token of each arm over the load. Nothing with one load."""
    at = [one for one in document.loads if one.loop == loop]
    if len(at) < 2:
        return
    throughput = [_curve(at, arm, "throughput", arm, "solid") for arm in ARMS]
    yield _curves(f"throughput-{loop}", "Throughput", "Requests per second", at, throughput)
    ttft = [_curve(at, arm, name, f"{arm}, {NAMES[name]}", dash) for name, dash in _PERCENTILES.items() for arm in ARMS]
    yield _curves(f"ttft-{loop}", "Time to the first token", "Milliseconds", at, ttft)


def _curves(id: str, caption: str, unit: str, at: Sequence[AtLoad], series: Sequence[Series]) -> Chart:
    shown = [one for one in series if one.x]
    word = load_words(at[0].loop)
    return Chart(
        id=id,
        caption=f"{caption} over {word}",
        label=f"{caption}, dense and pruned, by {word}. The table has the numbers",
        x=_axis(at),
        y=Axis(unit, 0, highest((bound for one in shown for bound in one.high), least=0.0)),
        series=shown,
        picker=len(shown) > 2,
        detail=True,
    )


def _axis(at: Sequence[AtLoad]) -> Axis:
    loads = [one.load for one in at]
    title = "Requests under way" if at[0].loop == "closed" else "Requests that arrive per second"
    return Axis(title, min(loads) / 1.15, max(loads) * 1.15, log=True, ticks=loads, digits=1)


def _gains(at: Sequence[AtLoad], name: Quantity, colour: int) -> Series:
    known = [(one.load, one.gains[name]) for one in at if name in one.gains]
    low, high = ends([gain.ci95 for _, gain in known])
    return Series(
        NAMES[name],
        [load for load, _ in known],
        [gain.value for _, gain in known],
        [
            f"{NAMES[name]} at {load_words(at[0].loop)} {units.load(load)}\n{units.times_within(gain.value, gain.ci95)}"
            for load, gain in known
        ],
        low,
        high,
        colour=colour,
        group=NAMES[name],
        quiet=name not in ("throughput", "ttft_p50_ms"),
    )


def _curve(at: Sequence[AtLoad], arm: Arm, name: Quantity, text: str, dash: Dash) -> Series:
    known = [(one.load, found) for one in at if (found := getattr(getattr(one, arm), name)) is not None]
    low, high = ends([found.ci95 for _, found in known])
    write = units.per_second if name == "throughput" else units.milliseconds
    return Series(
        text,
        [load for load, _ in known],
        [found.value for _, found in known],
        [f"{text} at {units.load(load)}\n{write(found.value)}" for load, found in known],
        low,
        high,
        colour=0 if arm == "pruned" else 1,
        line=dash,
        group=text,
        band=name == "throughput",
    )


def _upright(found: LoadBreakEven) -> list[Upright]:
    """The break-even of a quantity as an upright line, if it has one."""
    if found.load is None or found.ci95 is None:
        return []
    text = f"{NAMES[found.quantity]} breaks even at {units.load_within(found.load, found.ci95)}"
    name = NAMES[found.quantity]
    return [Upright(found.load, *found.ci95, text, _GAINS.index(found.quantity), name)]
