"""Charts as plotly figures."""

import json
from dataclasses import replace
from math import inf, nan

from trio_profile.report import drawing
from trio_profile.report.blocks import Axis, Chart, Series, Span, Step, Waterfall
from trio_profile.report.palette import PALETTE

HOSTILE = "<b>bold</b> [red]hot[/red] a|b R&D $x_1$ 5%"
WALK = Waterfall(
    "walk", "caption", "label", Step("claimed", 100, "100"), [Step("head <b>", -30, "−30")], Step("sum", 70, "70")
)


def chart_of(*series: Series, **fields) -> Chart:
    return Chart("id", "caption", "label", Axis("x"), Axis("y"), series, **fields)


def traces(*series: Series, **fields) -> list[drawing.Trace]:
    return drawing.figure(chart_of(*series, **fields))["data"]


# Intervals


def test_intervals_are_a_band():
    line = Series("a", [1, 2], [2, 3], low=[1, 2], high=[3, 5])
    band, drawn = traces(line)
    assert band["fill"] == "toself" and band["y"] == [1, 2, 5, 3] and drawn["mode"] == "lines+markers"
    assert traces(replace(line, line=None))[1]["mode"] == "markers"


def test_a_single_point_shows_its_interval_upright():
    upright, _ = traces(Series("a", [1], [2], low=[1], high=[3]))
    assert (upright["x"], upright["y"]) == ([1, 1], [1, 3])


def test_a_series_without_points_is_not_drawn():
    assert traces(Series("a", [], [])) == []


def test_what_is_no_number_is_left_out_of_the_json():
    figure = drawing.figure(chart_of(Series("a", [1, 2, 3], [1, nan, inf], low=[0, nan, 0], high=[2, nan, inf])))
    assert figure["data"][-1]["y"] == [1, None, None]
    json.dumps(figure, allow_nan=False)


# Axes and lines across the chart


def test_upright_lines_spans_and_levels_lie_behind_the_series():
    spans = [Span(0, 1, "certain gain", "gain")]
    chart = chart_of(Series("a", [1, 2], [1, 2]), uprights=[1.5], levels=[1], spans=spans)
    layout = drawing.figure(chart)["layout"]
    assert [shape["type"] for shape in layout["shapes"]] == ["rect", "line", "line"]
    assert [(shape["x0"], shape["x1"]) for shape in layout["shapes"][:2]] == [(0, 1), (1.5, 1.5)]
    assert [note["text"] for note in layout["annotations"]] == ["certain<br>gain"]


# Points


def test_a_method_has_a_symbol_beside_its_colour():
    drawn = traces(*(Series(str(number), [1], [1], colour=number) for number in range(3)))
    assert [one["marker"]["symbol"] for one in drawn] == ["circle", "square", "diamond"]
    assert [one["marker"]["color"] for one in drawn] == list(PALETTE[:3])


def test_markup_in_a_figure_is_escaped_once():
    (line,) = traces(Series(f"name {HOSTILE}", [1], [1], [f"first {HOSTILE}\nsecond"]))
    escaped = "&lt;b&gt;bold&lt;/b&gt; [red]hot[/red] a|b R&amp;D $x_1$ 5%"
    assert line["name"] == f"name {escaped}"
    assert line["customdata"] == [f"<b>first {escaped}</b><br>second"]
    assert drawing.waterfall(WALK)["layout"]["yaxis"]["ticktext"] == ["claimed", "head &lt;b&gt;", "sum"]


# Waterfalls


def test_a_waterfall_ends_at_the_sum():
    (trace,) = drawing.waterfall(WALK)["data"]
    assert trace["x"] == [100, -30, 0] and trace["measure"] == ["absolute", "relative", "total"]
