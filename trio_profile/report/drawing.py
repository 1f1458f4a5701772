"""Charts and waterfalls as plotly figures: transparent, quiet, with the legend above.

A figure is plain data, `{"data": […], "layout": {…}}`, as plotly.js takes it. `plotly.graph_objects` would check each
number of it, which takes longer than everything else on a page. plotly reads a little HTML in the texts that it draws,
so all text is escaped here.
"""

from collections.abc import Sequence
from html import escape
from itertools import accumulate, chain, count
from math import isfinite, log10
from typing import Any

from trio_profile.report.blocks import Axis, Chart, Series, Span, Waterfall
from trio_profile.report.palette import INK, PALETTE, hex_colour, see_through, symbol

Figure = dict[str, Any]
Trace = dict[str, Any]

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_AXIS = {
    "gridcolor": "rgba(128,134,143,0.18)",
    "zeroline": False,
    "ticks": "",
    "automargin": True,
    "ticklabelstandoff": 6,
    "exponentformat": "SI",  # G for 10⁹, as in the tables
}
_LEGEND = {
    "orientation": "h",
    "x": 0,
    "y": 1.02,
    "xanchor": "left",
    "yanchor": "bottom",
    "traceorder": "normal",
}
_TITLE = {"size": 13}
_TONES = {"gain": "#0a7362", "loss": "#b4472c"}
"""The colours of gain and loss, as in page.css."""
_SMALL = {"size": 5, "opacity": 0.55}
"""The marker of points without a line, which may be many."""
_LONGEST_NAME = 40
_HEIGHT = 400
"""Pixels of a chart."""
_BAR, _NAMED_BAR = 34, 52
"""Pixels that a bar of a waterfall takes: with its name beside it, and with its name above it."""


def figure(chart: Chart) -> Figure:
    """The figure of a chart."""
    layout = _layout(_HEIGHT)
    layout["xaxis"] |= _axis(chart.x)
    layout["yaxis"] |= _axis(chart.y)
    layout["yaxis"]["title"]["standoff"] = 14
    layout["shapes"] = [*map(_span_box, chart.spans), *map(_upright, chart.uprights), *map(_level, chart.levels)]
    layout["annotations"] = [*map(_span_name, chart.spans, count())]
    return {"data": [*chain.from_iterable(map(_series, chart.series))], "layout": layout}


def waterfall(block: Waterfall) -> Figure:
    """The figure of a waterfall: a bar for each step, top to bottom."""
    bars = (block.first, *block.steps, block.last)
    values = [block.first.value, *(step.value for step in block.steps)]
    places = list(range(len(bars)))
    trace = {
        "type": "waterfall",
        "orientation": "h",
        "y": places,
        "x": _numbers([*values, 0]),
        "measure": ["absolute", *("relative" for _ in block.steps), "total"],
        "connector": {"line": {"color": INK, "width": 1}},
        "increasing": {"marker": {"color": PALETTE[1]}},
        "decreasing": {"marker": {"color": PALETTE[0]}},
        "totals": {"marker": {"color": INK}},
        "text": [escape(bar.text) for bar in bars],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [[escape(bar.name), escape(bar.exact or bar.text)] for bar in bars],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        "showlegend": False,
    }
    sums = list(accumulate(values))
    low, high = min(0, *sums), max(sums)
    layout = _layout(90 + _BAR * len(bars))
    layout["xaxis"]["range"] = [low, low + 1.2 * (high - low)]
    layout["yaxis"] |= {"range": [len(bars) - 0.5, -0.5], "tickvals": places, "ticktext": _names(block)}
    layout["yaxis"]["gridcolor"] = "rgba(0,0,0,0)"
    layout["margin"]["r"] = 24
    return {"data": [trace], "layout": layout}


def narrow_layout(block: Chart | Waterfall) -> dict[str, Any]:
    """Where the layout of a narrow figure differs.

    The names of a waterfall stand above their bars, so that the bars keep their width.
    """
    if isinstance(block, Chart):
        return {"height": 260} if block.spans else {}
    names = _names(block)
    style = {"xref": "paper", "x": 0, "xanchor": "left", "yanchor": "middle", "showarrow": False, "align": "left"}
    labels = [{**style, "y": place - 0.56, "text": name, "font": {"size": 12}} for place, name in enumerate(names)]
    return {
        "height": 60 + _NAMED_BAR * len(names),
        "waterfallgap": 0.55,
        "annotations": labels,
        "yaxis": {"showticklabels": False, "showgrid": False, "zeroline": False, "range": [len(names) - 0.5, -1]},
    }


def _names(block: Waterfall) -> list[str]:
    """The names of a waterfall's bars."""
    return [escape(_shortened(bar.name)) for bar in (block.first, *block.steps, block.last)]


def _layout(height: int) -> dict[str, Any]:
    """The layout of an empty figure in the page's style."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 13, "color": INK},
        "margin": {"l": 12, "r": 12, "t": 12, "b": 12},
        "height": height,
        "legend": dict(_LEGEND),
        "hoverlabel": {"align": "left", "font": {"family": _FONT, "size": 13}},
        "xaxis": dict(_AXIS),
        "yaxis": dict(_AXIS),
    }


def _axis(axis: Axis) -> dict[str, Any]:
    """An axis in plotly's words."""
    ends = [_place(axis, axis.low), _place(axis, axis.high)]
    layout = {"title": {"text": escape(axis.title), "font": _TITLE}, "range": ends}
    if axis.log:
        return {**layout, "type": "log", "dtick": 1, "exponentformat": "power", "ticksuffix": escape(axis.suffix)}
    return {**layout, "ticksuffix": escape(axis.suffix)}


def _place(axis: Axis, end: float | None) -> float | None:
    """An end of an axis as plotly takes it: a logarithmic axis has its exponent."""
    return log10(end) if axis.log and end is not None else end


# Lines across the chart


def _level(value: float) -> dict[str, Any]:
    ends = {"xref": "x domain", "x0": 0, "x1": 1, "y0": value, "y1": value}
    return {"type": "line", **ends, "line": {"color": INK, "width": 1.5}}


def _span_box(span: Span) -> dict[str, Any]:
    """A named part of the x axis, as a box behind everything."""
    ends = {"x0": span.low, "x1": span.high, "yref": "y domain", "y0": 0, "y1": 1}
    fill = see_through(_TONES.get(span.tone, INK), 0.1)
    return {"type": "rect", **ends, "fillcolor": fill, "line": {"width": 0}, "layer": "below"}


_NAME_HEIGHT = 34
"""Pixels."""


def _span_name(span: Span, number: int) -> dict[str, Any]:
    """The name of a range of x. Each second name stands lower, so that names of narrow ranges do not collide."""
    place = {"x": (span.low + span.high) / 2, "xanchor": "center", "yref": "y domain", "y": 1, "yanchor": "top"}
    font = {"size": 12, "color": _TONES.get(span.tone, INK)}
    lower = -_NAME_HEIGHT if number % 2 else 0
    return {**place, "text": escape(span.name).replace(" ", "<br>"), "showarrow": False, "font": font, "yshift": lower}


def _upright(x: float) -> dict[str, Any]:
    line = {"color": INK, "width": 1, "dash": "dot"}
    return {"type": "line", "x0": x, "x1": x, "yref": "y domain", "y0": 0, "y1": 1, "line": line}


# Series


def _series(series: Series) -> list[Trace]:
    """A series as traces: its intervals as a band, if it has any, and its points."""
    if not series.x:
        return []
    colour = hex_colour(series.colour)
    member = {"type": "scatter", "showlegend": False, "legendgroup": series.group or series.name}
    bands = [_band(series, colour) | member] if series.low else []
    modes = {"lines": series.line, "markers": series.points}
    points = {
        **member,
        "x": _numbers(series.x),
        "y": _numbers(series.y),
        "name": escape(series.name),
        "mode": "+".join(mode for mode, wanted in modes.items() if wanted),
        "line": {"color": colour, "dash": series.line or "solid"},
        "marker": {"symbol": symbol(series.colour), "color": colour} | ({} if series.line else _SMALL),
        "cliponaxis": series.line is not None,
        "showlegend": series.legend,
    }
    if series.text:
        points["customdata"] = [_markup(text) for text in series.text]
        points["hovertemplate"] = "%{customdata}<extra></extra>"
    else:
        points["hoverinfo"] = "skip"
    return [*bands, points]


def _numbers(values: Sequence[float]) -> list[float | None]:
    """Numbers as JSON has them, to six digits: it has no infinity, and nothing that is not a number."""
    return [float(f"{value:.6g}") if isfinite(value) else None for value in values]


def _markup(text: str) -> str:
    """Lines of plain text as plotly's markup; of several lines the first one is bold."""
    first, *rest = (escape(line) for line in text.splitlines() or [""])
    return "<br>".join([f"<b>{first}</b>", *rest]) if rest else first


def _band(series: Series, colour: str) -> Trace:
    """The intervals as a band along the line. The interval of a single point is an upright line."""
    x = _numbers(series.x)
    if len(x) > 1:
        outline = {"y": _numbers([*series.low, *reversed(series.high)]), "line": {"width": 0, "color": colour}}
        fill = {"fill": "toself", "fillcolor": see_through(colour, 0.22)}
        return {"x": [*x, *reversed(x)], **outline, **fill, "mode": "lines", "hoverinfo": "skip"}
    ends = _numbers([*series.low, *series.high])
    return {"x": [*x, *x], "y": ends, "mode": "lines", "line": {"color": colour, "width": 2}, "hoverinfo": "skip"}


def _shortened(name: str) -> str:
    """A name that fits beside its bar; the table has all of it."""
    name = name.removeprefix("model.")
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
