"""Charts and waterfalls as plotly figures: transparent, quiet, with the legend above.

plotly reads a little HTML in the texts that it draws. All text is escaped here.
"""

from collections.abc import Sequence
from html import escape
from itertools import accumulate
from math import log10
from typing import Any

import plotly.graph_objects as go

from trio_profile.findings.blocks import Axis, Chart, Series, Upright, Waterfall
from trio_profile.render.palette import INK, PALETTE, hex_colour, see_through

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_AXIS = {
    "gridcolor": "rgba(128,134,143,0.18)",
    "zeroline": False,
    "ticks": "",
    "automargin": True,
    "ticklabelstandoff": 6,
}
_TITLE = {"size": 13}
_SYMBOLS = {"circle": "circle", "diamond": "diamond", "square": "square", "ring": "circle-open"}
_LONGEST_NAME = 40


def figure(chart: Chart) -> go.Figure:
    """The figure of a chart."""
    drawn = _figure(chart.height)
    drawn.update_xaxes(_axis(chart.x))
    drawn.update_yaxes(_axis(chart.y), title={"text": escape(chart.y.title), "standoff": 14, "font": _TITLE})
    for level in chart.levels:
        drawn.add_hline(y=level, line={"color": INK, "width": 1.5})
    for upright in chart.uprights:
        _add_upright(drawn, upright, _span(chart))
    for series in chart.series:
        _add_series(drawn, series)
    if chart.together:
        drawn.update_layout(hovermode="x unified", legend={"entrywidth": 0.48, "entrywidthmode": "fraction"})
    return drawn


def waterfall(block: Waterfall) -> go.Figure:
    """The figure of a waterfall: a bar for each step, top to bottom."""
    bars = (block.first, *block.steps, block.last)
    values = [block.first.value, *(step.value for step in block.steps)]
    places = list(range(len(bars)))
    drawn = _figure(90 + 34 * len(bars))
    drawn.add_waterfall(
        orientation="h",
        y=places,
        x=[*values, 0],
        measure=["absolute", *("relative" for _ in block.steps), "total"],
        connector={"line": {"color": INK, "width": 1}},
        increasing={"marker": {"color": PALETTE[1]}},
        decreasing={"marker": {"color": PALETTE[0]}},
        totals={"marker": {"color": INK}},
        text=[escape(bar.text) for bar in bars],
        textposition="outside",
        cliponaxis=False,
        customdata=[[escape(bar.name), escape(bar.exact or bar.text)] for bar in bars],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        showlegend=False,
    )
    sums = list(accumulate(values))
    low, high = min(0, *sums), max(sums)
    drawn.update_xaxes(range=[low, low + 1.2 * (high - low)])
    drawn.update_yaxes(
        range=[len(bars) - 0.5, -0.5],
        tickvals=places,
        ticktext=[escape(_shortened(bar.name)) for bar in bars],
        gridcolor="rgba(0,0,0,0)",
    )
    drawn.update_layout(margin={"r": 24})
    return drawn


def _figure(height: int) -> go.Figure:
    """An empty figure in the page's style."""
    drawn = go.Figure()
    drawn.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": _FONT, "size": 13, "color": INK},
        margin={"l": 12, "r": 12, "t": 12, "b": 12},
        height=height,
        legend={"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"},
        hoverlabel={"align": "left", "font": {"family": _FONT, "size": 13}},
        xaxis=_AXIS,
        yaxis=_AXIS,
    )
    return drawn


def _axis(axis: Axis) -> dict[str, Any]:
    """An axis in plotly's words."""
    found: dict[str, Any] = {"title": {"text": escape(axis.title), "font": _TITLE}}
    if axis.names:
        places = list(range(len(axis.names)))
        names = [escape(name) for name in axis.names]
        return {**found, "range": [-0.5, len(names) - 0.5], "tickvals": places, "ticktext": names}
    found["range"] = [_place(axis, axis.low), _place(axis, axis.high)]
    if axis.log:
        return {**found, "type": "log", "dtick": 1, "exponentformat": "power", "ticksuffix": escape(axis.suffix)}
    return {**found, "ticksuffix": escape(axis.suffix), "hoverformat": f".{axis.digits}f"}


def _place(axis: Axis, end: float | None) -> float | None:
    """An end of an axis as plotly takes it: a logarithmic axis has its exponent."""
    return log10(end) if axis.log and end is not None else end


def _span(chart: Chart) -> tuple[float, float]:
    """From where to where an upright line reaches: the ends of the y axis, or else of the data."""
    values = [value for series in chart.series for value in (*series.y, *series.low, *series.high)] or [0.0, 1.0]
    low, high = chart.y.low, chart.y.high
    return (min(values) if low is None else low, max(values) if high is None else high)


def _add_upright(drawn: go.Figure, upright: Upright, span: tuple[float, float]) -> None:
    """Add an upright line. One that belongs to a series is a trace, so that the legend hides it with that series."""
    colour = hex_colour(upright.colour)
    if upright.low is not None and upright.high is not None:
        low, high = upright.low, upright.high
        x, y = [low, high, high, low], [span[0], span[0], span[1], span[1]]
        _add_area(drawn, x, y, see_through(colour, 0.13), upright.group)
    if not upright.text and not upright.group:
        drawn.add_vline(x=upright.x, line={"color": colour, "width": 1, "dash": upright.dash})
        return
    drawn.add_scatter(
        x=[upright.x, upright.x],
        y=[*span],
        mode="lines",
        line={"color": colour, "dash": upright.dash, "width": 2},
        legendgroup=upright.group or None,
        showlegend=False,
        **_hover([upright.text] * 2 if upright.text else []),
    )


def _add_series(drawn: go.Figure, series: Series) -> None:
    """Add a series with its intervals."""
    if not series.x:
        return
    colour = hex_colour(series.colour)
    if series.band and series.low:
        _add_band(drawn, series, colour)
    modes = {"lines": series.line, "markers": series.marker, "text": series.labels}
    drawn.add_scatter(
        x=list(series.x),
        y=list(series.y),
        name=escape(series.name),
        mode="+".join(mode for mode, wanted in modes.items() if wanted),
        line={"color": colour, "dash": series.line or "solid", "width": series.width},
        marker=_marker(series, colour),
        error_x=_bars(series.x, series.x_low, series.x_high, colour),
        error_y=None if series.band else _bars(series.y, series.low, series.high, colour),
        textposition="top center",
        textfont={"size": 11},
        legendgroup=series.group or None,
        showlegend=series.legend,
        cliponaxis=series.line is not None,
        **_hover(series.text, [escape(label) for label in series.labels]),
    )


def _hover(shown: Sequence[str], labels: Sequence[str] = ()) -> dict[str, Any]:
    """What the pointer shows at each point, and the labels beside the points. Without text it shows nothing."""
    if not shown:
        return {"hoverinfo": "skip", "text": list(labels) or None}
    told = [_markup(text) for text in shown]
    return {"text": list(labels) or None, "customdata": told, "hovertemplate": "%{customdata}<extra></extra>"}


def _markup(text: str) -> str:
    """Lines of plain text as plotly's markup; of several lines the first one is bold."""
    first, *rest = (escape(line) for line in text.splitlines() or [""])
    return "<br>".join([f"<b>{first}</b>", *rest]) if rest else first


def _marker(series: Series, colour: str) -> dict[str, Any]:
    """How points are drawn."""
    symbol = _SYMBOLS[series.marker or "circle"]
    symbols = [f"{symbol}-open" if hollow else symbol for hollow in series.hollow]
    found = {"symbol": symbols if any(series.hollow) else symbol, "size": series.size, "color": colour}
    return {**found, "opacity": series.opacity, "line": {"width": 1.5 if series.marker == "ring" else None}}


def _bars(middle: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> dict[str, Any] | None:
    """Intervals as error bars; None where there are none."""
    if not low:
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [end - value for value, end in zip(middle, high, strict=True)],
        "arrayminus": [value - end for value, end in zip(middle, low, strict=True)],
        "color": colour,
        "thickness": 1,
        "width": 0,
    }


def _add_band(drawn: go.Figure, series: Series, colour: str) -> None:
    """Draw the intervals as a band along the line. The interval of a single point is an upright line."""
    x, group = list(series.x), series.group
    if len(x) > 1:
        outline = [*series.low, *reversed(series.high)]
        _add_area(drawn, [*x, *reversed(x)], outline, see_through(colour, 0.22), group)
        return
    drawn.add_scatter(
        x=[*x, *x],
        y=[*series.low, *series.high],
        mode="lines",
        line={"color": colour, "width": 2},
        hoverinfo="skip",
        legendgroup=group or None,
        showlegend=False,
    )


def _add_area(drawn: go.Figure, x: list[float], y: list[float], colour: str, group: str) -> None:
    drawn.add_scatter(
        x=x,
        y=y,
        mode="lines",
        fill="toself",
        fillcolor=colour,
        line={"width": 0},
        hoverinfo="skip",
        legendgroup=group or None,
        showlegend=False,
    )


def _shortened(name: str) -> str:
    """A name that fits beside its bar; the table has all of it."""
    name = name.removeprefix("model.")
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
