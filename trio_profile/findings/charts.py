"""Figures: pure functions from the document to a plotly figure. No words around them; pages.py has those.

One colour a method, the same in every figure. Colours are mid-tones that stand on white and on near-black alike, and
report.css gives text, grid and hover boxes the colours of the page.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import accumulate, cycle
from math import log10
from typing import Any

import plotly.graph_objects as go

from trio_profile import units
from trio_profile.analysis.ablate import Row as Variant
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.layers import LayersDocument
from trio_profile.analysis.sweep import CellSummary, DenseSummary, Document
from trio_profile.analysis.theory import TOP, TheoryDocument
from trio_profile.findings.verdict import break_even, break_even_text, finished, realised
from trio_profile.records.estimate import Estimate, Measured

PALETTE = ("#0e8f8a", "#d0702a", "#7d6bd0", "#c94f7c", "#3b82c4", "#7f8f2a", "#a06a4a")
_INK = "#7c828c"
_SOLID, _DASHED, _DOTTED = "solid", "dash", "dot"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def colour(document: Document, method: str) -> str:
    """A method's colour, by its place in the study."""
    return PALETTE[document.study.methods.index(method) % len(PALETTE)]


def prefill_speedup(document: Document) -> go.Figure:
    """Speed-up of the prefill against realised retention, with intervals and the break-even of each method."""
    return _speedup(document, "prefill_ms", lambda cell: cell.prefill_speedup)


def total_speedup(document: Document) -> go.Figure:
    """The same of prefill and decoding together, on the same scale."""
    return _speedup(document, "total_ms", lambda cell: cell.total_speedup)


def work(document: Document, method: str) -> go.Figure:
    """One method's work as a ratio to dense: by formula, counted, counted without selection; and its prefill time."""
    figure = _figure("Pruned over dense", _top(_work_ratios(document)))
    _level(figure, 1.0)
    cells, dense = finished(document, method), document.dense
    timed = [(cell, cell.prefill_speedup) for cell in cells if cell.prefill_speedup]
    own = colour(document, method)
    if timed:
        x = [_x(cell) for cell, _ in timed]
        _band(figure, x, [1 / q.ci95[1] for _, q in timed], [1 / q.ci95[0] for _, q in timed], own, "time")
        text = [_time_hover(quantity) for _, quantity in timed]
        _line(figure, "prefill time, measured", x, [1 / q.value for _, q in timed], own, text, group="time", width=2.5)
    if dense is not None:
        for name, dash, symbol, value, whole in _work_lines(dense):
            found = _points(document, method, value)
            text = [_macs_hover(macs, whole) for _, macs in found]
            y = [macs / whole for _, macs in found]
            _line(figure, name, [x for x, _ in found], y, _INK, text, dash=dash, symbol=symbol)
    figure.update_layout(hovermode="x unified", legend={"entrywidth": 0.48, "entrywidthmode": "fraction"})
    return figure


def cache(document: Document) -> go.Figure:
    """Bytes of the key-value cache as a share of dense: held by each method, and as its schedule predicts (rings)."""
    whole = document.dense.kv_bytes if document.dense else None
    methods = [method for method in document.study.methods if finished(document, method)] if whole else []
    held = {method: _points(document, method, lambda cell: cell.kv_bytes) for method in methods}
    predicted = {method: _points(document, method, lambda cell: cell.kv_bytes_predicted) for method in methods}
    shares = [value / (whole or 1) for points in (*held.values(), *predicted.values()) for _, value in points]
    figure = _figure("KV cache, pruned over dense", _top(shares))
    _level(figure, 1.0)
    for i, (method, points) in enumerate(held.items()):
        # Methods at one retention hold nearly the same bytes: thinner lines upon thicker ones, so that all are seen.
        width = 2 + 2 * (len(methods) - 1 - i)
        x, y, text = _over(points, whole or 1, f"<b>{escape(method)}</b>, held")
        _line(figure, escape(method), x, y, colour(document, method), text, width=width, group=method)
    for i, (method, points) in enumerate(predicted.items()):
        x, y, text = _over(points, whole or 1, f"<b>{escape(method)}</b>, predicted")
        _rings(figure, x, y, text, group=method, legend=i == 0)
    return figure


def accuracy(document: Document) -> go.Figure:
    """Share of questions answered as is known against realised retention, with intervals; dense is the level line."""
    figure = _figure("Questions answered right", 105, 0)
    figure.update_yaxes(ticksuffix=" %")
    if document.dense is not None and document.dense.accuracy is not None:
        _level(figure, 100 * document.dense.accuracy.value)
    for method in document.study.methods:
        points = [(cell, cell.accuracy) for cell in finished(document, method) if cell.accuracy]
        x, own = [_x(cell) for cell, _ in points], colour(document, method)
        low, high = ([100 * found.ci95[end] for _, found in points] for end in (0, 1))
        _band(figure, x, low, high, own, method)
        text = [
            f"<b>{escape(method)}</b> at {units.percent(realised(cell))}<br>"
            f"{units.percent_within(found.value, found.ci95)} of {found.samples} questions"
            for cell, found in points
        ]
        _line(figure, escape(method), x, [100 * found.value for _, found in points], own, text, group=method, width=2.5)
    return figure


def selection(document: Document) -> go.Figure:
    """The share of a method's counted work that goes into choosing tokens."""
    found = {
        method: [(cell, share) for cell in finished(document, method) if (share := selection_share(cell)) is not None]
        for method in document.study.methods
    }
    top = max((share for points in found.values() for _, share in points), default=0.0)
    figure = _figure("Selection, of counted MACs", 115 * top or 10)
    figure.update_yaxes(ticksuffix=" %")
    for method, points in found.items():
        x, y = [_x(cell) for cell, _ in points], [100 * share for _, share in points]
        _line(figure, escape(method), x, y, colour(document, method), [_selection_hover(*point) for point in points])
    return figure


def _speedup(document: Document, quantity: str, speedup: Callable[[CellSummary], Measured | None]) -> go.Figure:
    low, high = _speedup_range(document)
    figure = _figure("Speed-up over dense", high, low)
    figure.update_yaxes(ticksuffix="×")
    _level(figure, 1.0)
    for method in document.study.methods:
        points = [(cell, found) for cell in finished(document, method) if (found := speedup(cell))]
        if not points:
            continue
        own, x = colour(document, method), [_x(cell) for cell, _ in points]
        _crossing(figure, document, method, quantity, own, (low, high))
        _band(figure, x, [q.ci95[0] for _, q in points], [q.ci95[1] for _, q in points], own, method)
        name = f"{escape(method)}: {_pays_text(document, method, quantity)}"
        symbols = ["circle" if found.stopped == "converged" else "circle-open" for _, found in points]
        text = [_speedup_hover(method, cell, found) for cell, found in points]
        _line(figure, name, x, [q.value for _, q in points], own, text, group=method, width=2.5, symbol=symbols)
    return figure


def _pays_text(document: Document, method: str, quantity: str) -> str:
    text = break_even_text(document, method, quantity)
    return "whether it pays is open" if text == "open" else f"pays {text}"


def _speedup_range(document: Document) -> tuple[float, float]:
    """One scale for prefill and total, so that the two figures can be compared by eye."""
    quantities = [q for cell in document.cells for q in (cell.prefill_speedup, cell.total_speedup) if q]
    low = min((q.ci95[0] for q in quantities), default=1.0)
    high = max((q.ci95[1] for q in quantities), default=1.0)
    margin = 0.06 * (max(high, 1.0) - min(low, 1.0)) + 0.02
    return min(low, 1.0) - margin, max(high, 1.0) + margin


def _crossing(
    figure: go.Figure, document: Document, method: str, quantity: str, own: str, span: tuple[float, float]
) -> None:
    """The break-even as a line in its interval's band: traces, so that the legend hides them with their method."""
    found = break_even(document, method, quantity)
    if found.retention is None or found.ci95 is None:
        return
    low, high = (100 * bound for bound in found.ci95)
    _area(figure, [low, high, high, low], [span[0], span[0], span[1], span[1]], own, method, 0.13)
    x = 100 * found.retention
    text = [f"{escape(method)} breaks even at {units.percent_within(found.retention, found.ci95)}"] * 2
    _line(figure, "break-even", [x, x], [*span], own, text, group=method, dash=_DASHED, symbol=None, legend=False)


def _work_lines(
    dense: DenseSummary,
) -> Iterable[tuple[str, str, str, Callable[[CellSummary], int | None], int]]:
    """Name, dash, symbol, a cell's MACs and dense's: one row a line of the work figure."""
    return (
        ("counted", _SOLID, "circle", lambda cell: cell.counted_macs, dense.counted_macs),
        ("counted, no selection", _DASHED, "diamond", _without_selection, dense.counted_macs),
        ("claimed by formula", _DOTTED, "square", lambda cell: cell.fastv_macs, dense.fastv_macs),
    )


def _work_ratios(document: Document) -> Iterable[float]:
    """All that the work figures show, of all methods: they have one scale."""
    for cell in document.cells:
        if cell.prefill_speedup:
            yield 1 / cell.prefill_speedup.ci95[0]
        for _, _, _, value, whole in _work_lines(document.dense) if document.dense else ():
            yield (value(cell) or 0) / whole


def _without_selection(cell: CellSummary) -> int | None:
    return None if cell.counted_macs is None else cell.counted_macs - (cell.selection_macs or 0)


def selection_share(cell: CellSummary) -> float | None:
    """The selection's part of a cell's counted work."""
    if not cell.counted_macs or cell.selection_macs is None:
        return None
    return cell.selection_macs / cell.counted_macs


def _top(ratios: Iterable[float]) -> float:
    return 1.08 * max(1.0, *ratios, 1.0)


def _x(cell: CellSummary) -> float:
    return 100 * realised(cell)


def _points(document: Document, method: str, value: Callable[[CellSummary], int | None]) -> list[tuple[float, int]]:
    """Where a method's cells lie, and their count."""
    return [(_x(cell), found) for cell in finished(document, method) if (found := value(cell)) is not None]


def _over(points: list[tuple[float, int]], whole: int, what: str) -> tuple[list[float], list[float], list[str]]:
    """Bytes as x, share of `whole`, and hover text."""
    text = [f"{what}: {units.size(held)} of {units.size(whole)}, {units.percent(held / whole)}" for _, held in points]
    return [x for x, _ in points], [held / whole for _, held in points], text


# What the pointer shows. Names go through escape(): plotly reads a little HTML in its texts.


def _speedup_hover(method: str, cell: CellSummary, found: Measured) -> str:
    budgets = ", ".join(units.exact(budget) for budget in cell.budgets)
    return (
        f"<b>{escape(method)}</b> at {units.percent(realised(cell))}<br>"
        f"{units.times_within(found.value, found.ci95)}<br>"
        f"{found.samples} pairs, stopped: {found.stopped}<br>tokens kept: {budgets}"
    )


def _time_hover(found: Measured) -> str:
    return f"{units.percent_within(1 / found.value, (1 / found.ci95[1], 1 / found.ci95[0]))} of dense time"


def _macs_hover(macs: int, whole: int) -> str:
    return f"{units.percent(macs / whole)}, {units.exact(macs)} MACs"


def _selection_hover(cell: CellSummary, share: float) -> str:
    gamma, counted = cell.gamma, ""
    if gamma is not None and gamma.counted is not None:
        counted = f"<br>γ: {units.factor(gamma.counted)} counted, {units.factor(gamma.assumed)} assumed"
    return (
        f"<b>{escape(cell.method)}</b> at {units.percent(realised(cell))}<br>"
        f"{units.percent(share)}: {units.exact(cell.selection_macs or 0)} MACs{counted}"
    )


def waterfall(
    first: str,
    start: float,
    steps: Sequence[tuple[str, float]],
    last: str,
    *,
    text: Callable[[float], str] = units.count,
    exact: Callable[[Any], str] | None = None,
) -> go.Figure:
    """From one sum to another: a bar for each step, between the sums before and after it; top to bottom.

    text: how a value is written beside its bar; exact: where one points at it, if otherwise.
    """
    names = [first, *(name for name, _ in steps), last]
    values = [start, *(macs for _, macs in steps), 0]
    sums = [*values[:-1], sum(values)]
    figure = _figure("", 0)
    figure.add_waterfall(
        orientation="h",
        y=list(range(len(names))),
        x=values,
        measure=["absolute", *("relative" for _ in steps), "total"],
        connector={"line": {"color": _INK, "width": 1}},
        increasing={"marker": {"color": PALETTE[1]}},
        decreasing={"marker": {"color": PALETTE[0]}},
        totals={"marker": {"color": _INK}},
        text=[text(value) for value in sums],
        textposition="outside",
        cliponaxis=False,
        customdata=[[escape(name), (exact or text)(value)] for name, value in zip(names, sums, strict=True)],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        showlegend=False,
    )
    low, high = min(0, *accumulate(values[:-1])), max(accumulate(values[:-1]))
    figure.update_layout(
        height=90 + 34 * len(names),
        xaxis={"range": [low, low + 1.2 * (high - low)], "ticksuffix": "", "hoverformat": None, "title": None},
        yaxis={
            "range": [len(names) - 0.5, -0.5],
            "tickvals": list(range(len(names))),
            "ticktext": [escape(_shortened(name)) for name in names],
            "title": None,
            "gridcolor": "rgba(0,0,0,0)",
        },
        margin={"r": 24},
    )
    return figure


def comparison(document: Comparison, retention: float) -> go.Figure:
    """Prefill speed-up against KL to dense, a point a method at one retention; the Pareto front is joined."""
    placed = [
        (row, row.prefill_speedup, row.kl_nats) for row in document.at(retention) if row.prefill_speedup and row.kl_nats
    ]
    figure = _figure("KL(dense ‖ pruned) of the next token, nats", 1.12 * max([kl.value for *_, kl in placed] or [1]))
    joined = sorted((speedup.value, kl.value) for row, speedup, kl in placed if row.pareto)
    figure.add_scatter(
        x=[x for x, _ in joined],
        y=[y for _, y in joined],
        mode="lines",
        line={"color": PALETTE[0], "width": 1.5, "dash": _DOTTED},
        hoverinfo="skip",
        name="nothing is both faster and nearer",
    )
    for row, speedup, kl in placed:
        own = PALETTE[0] if row.pareto else _INK
        figure.add_scatter(
            x=[speedup.value],
            y=[kl.value],
            error_x=_bar(speedup.value, speedup.ci95, own),
            mode="markers+text",
            marker={"color": own, "size": 8, "symbol": "circle" if row.pareto else "circle-open"},
            text=[escape(row.method)],
            textposition="top center",
            textfont={"size": 11},
            hovertemplate=(
                f"<b>{escape(row.method)}</b><br>prefill {units.times_within(speedup.value, speedup.ci95)}"
                f"<br>KL {units.factor(kl.value)} nats<extra></extra>"
            ),
            showlegend=False,
            cliponaxis=False,
        )
    ends = [bound for _, speedup, _ in placed for bound in speedup.ci95] or [1.0]
    figure.update_xaxes(
        range=[min(ends) - 0.1, max(ends) + 0.1],
        ticksuffix="×",
        hoverformat=".2f",
        title={"text": "Prefill speed-up over dense"},
    )
    nats = [kl.value for *_, kl in placed]
    if nats and min(nats) > 0:  # methods lie orders of magnitude apart
        figure.update_yaxes(type="log", range=[log10(min(nats) / 1.5), log10(max(nats) * 1.5)], dtick=1)
    figure.update_layout(height=460)
    return figure


def answers(document: Comparison, retention: float) -> go.Figure:
    """Accuracy against prefill speed-up, a point a method at one retention, with both intervals."""
    figure = _figure("Questions answered right", 105, 0)
    figure.update_yaxes(ticksuffix=" %")
    if document.dense is not None and document.dense.accuracy is not None:
        _level(figure, 100 * document.dense.accuracy.value)
    ends = [1.0]
    for row in document.at(retention):
        speedup, right = row.prefill_speedup, row.accuracy
        if speedup is None or right is None:
            continue
        ends += speedup.ci95
        figure.add_scatter(
            x=[speedup.value],
            y=[100 * right.value],
            error_x=_bar(speedup.value, speedup.ci95),
            error_y=_bar(100 * right.value, (100 * right.ci95[0], 100 * right.ci95[1])),
            mode="markers+text",
            marker={"color": PALETTE[0], "size": 8},
            text=[escape(row.method)],
            textposition="top center",
            textfont={"size": 11},
            hovertemplate=(
                f"<b>{escape(row.method)}</b><br>prefill {units.times_within(speedup.value, speedup.ci95)}"
                f"<br>right {units.percent_within(right.value, right.ci95)}<extra></extra>"
            ),
            showlegend=False,
            cliponaxis=False,
        )
    figure.update_xaxes(
        range=[min(ends) - 0.1, max(ends) + 0.1],
        ticksuffix="×",
        hoverformat=".2f",
        title={"text": "Prefill speed-up over dense"},
    )
    figure.update_layout(height=460)
    return figure


def ablated_answers(rows: Sequence[Variant], dense: DenseSummary) -> go.Figure:
    """Accuracy of each variant with its interval; the default is filled, dense is the level line."""
    shown = [(row, row.accuracy.value, row.accuracy.ci95) for row in rows if row.accuracy]
    figure = _variants(
        "Questions answered right",
        [(row, 100 * value, (100 * ends[0], 100 * ends[1])) for row, value, ends in shown],
        [f"right {units.percent_within(value, ends)}" for _, value, ends in shown],
    )
    figure.update_yaxes(ticksuffix=" %", range=[0, 105])
    if dense.accuracy is not None:
        _level(figure, 100 * dense.accuracy.value)
    return figure


def ablated_nearness(rows: Sequence[Variant]) -> go.Figure:
    """KL to dense of each variant with its interval, the default filled."""
    shown = [(row, row.kl_nats.value, row.kl_nats.ci95) for row in rows if row.kl_nats]
    figure = _variants(
        "KL(dense ‖ pruned) of the next token, nats",
        shown,
        [
            f"KL {units.factor(middle)} nats [{units.factor(low)}, {units.factor(high)}]"
            for _, middle, (low, high) in shown
        ],
    )
    figure.update_yaxes(range=[0, 1.1 * max([ends[1] for *_, ends in shown] or [1]) or 1])
    return figure


def ablated_speedup(rows: Sequence[Variant]) -> go.Figure:
    """Prefill speed-up of each variant with its interval, the default filled; at the level line it is dense's time."""
    shown = [(row, row.prefill_speedup.value, row.prefill_speedup.ci95) for row in rows if row.prefill_speedup]
    figure = _variants(
        "Prefill speed-up over dense", shown, [units.times_within(middle, ends) for _, middle, ends in shown]
    )
    bounds = [bound for *_, ends in shown for bound in ends] + [1.0]
    figure.update_yaxes(ticksuffix="×", range=[min(bounds) - 0.1, max(bounds) + 0.1])
    _level(figure, 1.0)
    return figure


def _variants(title: str, shown: Sequence[tuple[Variant, float, tuple[float, float]]], text: list[str]) -> go.Figure:
    """A point a variant, side by side, each with its interval."""
    figure = _figure(title, 1)
    for (row, middle, ends), told in zip(shown, text, strict=True):
        figure.add_scatter(
            x=[escape(row.variant)],
            y=[middle],
            error_y=_bar(middle, ends),
            mode="markers",
            marker={"color": PALETTE[0], "size": 9, "symbol": "circle" if row.default else "circle-open"},
            hovertemplate=f"<b>{escape(row.variant)}</b>{', the default' * row.default}<br>{told}<extra></extra>",
            showlegend=False,
            cliponaxis=False,
        )
    figure.update_xaxes(type="category", range=[-0.5, len(shown) - 0.5], ticksuffix="", hoverformat=None, title=None)
    return figure


def _bar(middle: float, bounds: tuple[float, float], own: str = PALETTE[0]) -> dict[str, Any]:
    """A 95 % interval as an error bar."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [bounds[1] - middle],
        "arrayminus": [middle - bounds[0]],
        "color": own,
        "thickness": 1,
        "width": 0,
    }


def layers(document: LayersDocument) -> go.Figure:
    """Forward of each decoder layer against its number, dense and pruned, with intervals; stages are upright lines."""
    top = max(layer.dense_forward_ms.ci95[1] for layer in document.layers)
    top = max(top, *(layer.forward_ms.ci95[1] for layer in document.layers))
    figure = _figure("Milliseconds", 1.05 * top)
    x = [float(layer.layer) for layer in document.layers]
    for name, own, field in (("dense", _INK, "dense_forward_ms"), (document.method, PALETTE[0], "forward_ms")):
        found = [getattr(layer, field) for layer in document.layers]
        _band(figure, x, [one.ci95[0] for one in found], [one.ci95[1] for one in found], own, name)
        hover = [
            f"<b>{escape(name)}</b>, layer {layer.layer}<br>{units.milliseconds(one.value)}"
            for layer, one in zip(document.layers, found, strict=True)
        ]
        _line(figure, escape(name), x, [one.value for one in found], own, hover, group=name)
    for stage in document.stages:
        figure.add_vline(x=stage.layer + 0.5, line={"color": _INK, "width": 1, "dash": _DOTTED})
    figure.update_xaxes(range=[0, len(x) + 1], ticksuffix="", hoverformat=".0f", title={"text": "Decoder layer"})
    return figure


def bound(document: TheoryDocument) -> go.Figure:
    """The bound's term against the measured divergence, both logarithmic: a point a removal, a colour a stage."""
    figure = _figure("KL(dense ‖ pruned) of the next token, nats", 1)
    for stage, own in zip(document.stages, cycle(PALETTE), strict=False):
        # Nothing removed, or nothing moved, has no place on a logarithmic axis.
        shown = [removal for removal in stage.removals if removal.bound > 0 and removal.kl_nats > 0]
        figure.add_scatter(
            x=[removal.bound for removal in shown],
            y=[removal.kl_nats for removal in shown],
            mode="markers",
            name=f"after layer {stage.layer}",
            marker={"color": own, "size": 5, "opacity": 0.55},
            text=[
                f"<b>{escape(removal.choice)}</b>, question {removal.question + 1}, {removal.kept} kept"
                for removal in shown
            ],
            hovertemplate="%{text}<br>term %{x:.3g}, KL %{y:.3g} nats<extra></extra>",
        )
    figure.update_xaxes(
        type="log",
        autorange=True,
        ticksuffix="",
        dtick=1,
        exponentformat="power",
        title={"text": "(Σ s · ‖h‖)² over the removed tokens"},
    )
    figure.update_yaxes(type="log", autorange=True, dtick=1, exponentformat="power")
    figure.update_layout(height=460)
    return figure


def agreement(document: TheoryDocument) -> go.Figure:
    """Each layer's own saliency against the last layer's: rank correlation and share of the top tokens in common."""
    figure = _figure("Agreement with the last layer", 1.05)
    _level(figure, 0)
    lows = [0.0]
    for name, own, found in (
        ("rank correlation", PALETTE[0], [layer.last_layer_agreement for layer in document.layers]),
        (f"top {units.percent(TOP, 0)} in common", PALETTE[1], [layer.top_overlap for layer in document.layers]),
    ):
        lows += [one.ci95[0] for one in found if one is not None]
        _by_depth(figure, name, own, found, lambda one: units.correlation(one.value, one.ci95))
    figure.add_hline(y=TOP, line={"color": PALETTE[1], "width": 1, "dash": _DOTTED})
    figure.update_yaxes(range=[min(lows) - 0.05, 1.05])
    _depth(figure, document)
    return figure


def above_mean(document: TheoryDocument) -> go.Figure:
    """How many visual tokens of a question have a saliency above the layer's mean, by layer."""
    found = [layer.above_mean for layer in document.layers]
    figure = _figure("Visual tokens above the mean", 1.1 * max(one.ci95[1] for one in found))
    _by_depth(figure, "above the mean", PALETTE[0], found, lambda one: f"{units.count(one.value)} tokens")
    figure.update_layout(showlegend=False)
    _depth(figure, document)
    return figure


def _by_depth(
    figure: go.Figure, name: str, own: str, found: Sequence[Estimate | None], text: Callable[[Estimate], str]
) -> None:
    """A line over the layers with its interval; layers without a value are left out."""
    there = [(float(layer), one) for layer, one in enumerate(found, start=1) if one is not None]
    x = [layer for layer, _ in there]
    _band(figure, x, [one.ci95[0] for _, one in there], [one.ci95[1] for _, one in there], own, name)
    hover = [f"<b>{name}</b>, layer {layer:g}<br>{text(one)}" for layer, one in there]
    _line(figure, name, x, [one.value for _, one in there], own, hover, group=name)


def _depth(figure: go.Figure, document: TheoryDocument) -> None:
    """Layers as x, the stages as upright lines."""
    for stage in document.stages:
        figure.add_vline(x=stage.layer + 0.5, line={"color": _INK, "width": 1, "dash": _DOTTED})
    last = len(document.layers) + 1
    figure.update_xaxes(range=[0, last], ticksuffix="", hoverformat=".0f", title={"text": "Decoder layer"})


def _shortened(name: str) -> str:
    """A path's last parts: the table has all of it."""
    name = name.removeprefix("model.")
    return name if len(name) <= 40 else f"{name[:39]}…"


# How it is drawn.


def _figure(y_title: str, y_high: float, y_low: float = 0.0) -> go.Figure:
    """An empty figure over retention: transparent, quiet, with the legend above."""
    axis = {
        "gridcolor": "rgba(128,134,143,0.18)",
        "zeroline": False,
        "ticks": "",
        "automargin": True,
        "ticklabelstandoff": 6,
    }
    title = {"size": 13}
    figure = go.Figure()
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": _FONT, "size": 13, "color": _INK},
        margin={"l": 12, "r": 12, "t": 12, "b": 12},
        height=400,
        legend={"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"},
        hoverlabel={"align": "left", "font": {"family": _FONT, "size": 13}},
        xaxis={
            **axis,
            "range": [0, 102],
            "ticksuffix": " %",
            "hoverformat": ".1f",
            "title": {"text": "Retention", "font": title},
        },
        yaxis={**axis, "range": [y_low, y_high], "title": {"text": y_title, "standoff": 14, "font": title}},
    )
    return figure


def _level(figure: go.Figure, y: float) -> None:
    """The line at which pruned and dense are equal."""
    figure.add_hline(y=y, line={"color": _INK, "width": 1.5})


def _line(
    figure: go.Figure,
    name: str,
    x: list[float],
    y: list[float],
    own: str,
    text: list[str],
    *,
    group: str | None = None,
    dash: str = _SOLID,
    width: float = 2,
    symbol: str | list[str] | None = "circle",
    legend: bool = True,
    hover: bool = True,
) -> None:
    figure.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="lines+markers" if symbol else "lines",
        line={"color": own, "dash": dash, "width": width},
        marker={"symbol": symbol or "circle", "size": 7, "color": own},
        text=text,
        hovertemplate="%{text}<extra></extra>" if hover else None,
        hoverinfo=None if hover else "skip",
        legendgroup=group,
        showlegend=legend,
    )


def _rings(figure: go.Figure, x: list[float], y: list[float], text: list[str], *, group: str, legend: bool) -> None:
    figure.add_scatter(
        x=x,
        y=y,
        name="predicted",
        mode="markers",
        marker={"symbol": "circle-open", "size": 15, "color": _INK, "line": {"width": 1.5}},
        text=text,
        hovertemplate="%{text}<extra></extra>",
        legendgroup=group,
        showlegend=legend,
    )


def _band(figure: go.Figure, x: list[float], low: list[float], high: list[float], own: str, group: str) -> None:
    """A 95 % interval along a line; upright where there is but one point."""
    if len(x) == 1:
        _line(figure, "interval", [*x, *x], [*low, *high], own, [], group=group, symbol=None, legend=False, hover=False)
        return
    _area(figure, [*x, *reversed(x)], [*low, *reversed(high)], own, group, 0.22)


def _area(figure: go.Figure, x: list[float], y: list[float], own: str, group: str, opacity: float) -> None:
    red, green, blue = (int(own[i : i + 2], 16) for i in (1, 3, 5))
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines",
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},{opacity})",
        line={"width": 0},
        hoverinfo="skip",
        legendgroup=group,
        showlegend=False,
    )
