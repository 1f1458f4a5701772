"""The charts of a sweep: speed-up, answers, work, cache and the cost of selection, each against retention."""

from collections.abc import Callable, Iterable

from trio_profile import units
from trio_profile.analysis.sweep import CellSummary, DenseSummary, SweepDocument
from trio_profile.findings import break_even
from trio_profile.findings.blocks import Axis, Chart, Dash, Marker, Series, Upright
from trio_profile.findings.cells import finished
from trio_profile.findings.charts import RETENTION, RIGHT_ANSWERS, colour_of, ends, highest, percents
from trio_profile.quantities.counted_macs import selection_share, without_selection
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.records.estimate import Measured


def prefill_speedup(document: SweepDocument) -> Chart:
    """Speed-up of the prefill, with intervals and the break-even of each method."""
    return _speedup(document, "prefill", "Prefill", "prefill_ms", lambda cell: cell.prefill_speedup)


def total_speedup(document: SweepDocument) -> Chart:
    """Speed-up of prefill and decoding together. Its axis is that of `prefill_speedup`."""
    tokens = document.study.new_tokens
    caption = f"Prefill and {tokens} new token{'s' if tokens != 1 else ''}"
    return _speedup(document, "total", caption, "total_ms", lambda cell: cell.total_speedup)


def work(document: SweepDocument, method: str) -> Chart:
    """The work of one method as a ratio to dense, by formula and counted, and its prefill time."""
    series: list[Series] = []
    timed = [(cell, cell.prefill_speedup) for cell in finished(document, method) if cell.prefill_speedup]
    if timed:
        # The ratio pruned over dense is the speed-up turned round, and so are the ends of its interval.
        low, high = [1 / found.ci95[1] for _, found in timed], [1 / found.ci95[0] for _, found in timed]
        series.append(
            Series(
                "prefill time, measured",
                _x([cell for cell, _ in timed]),
                [1 / found.value for _, found in timed],
                [_time_text(found) for _, found in timed],
                low,
                high,
                colour=colour_of(document, method),
                width=2.5,
                group="time",
            )
        )
    for name, line, marker, count, whole in _kinds_of_work(document.dense):
        found = _counted(document, method, count)
        text = [f"{units.percent(macs / whole)}, {units.exact(macs)} MACs" for _, macs in found]
        y = [macs / whole for _, macs in found]
        series.append(Series(name, [x for x, _ in found], y, text, line=line, marker=marker))
    return Chart(
        f"work-{document.study.methods.index(method)}",
        method,
        f"Work and prefill time of {method} over dense, by retention",
        RETENTION,
        Axis("Pruned over dense", 0, highest(_work_ratios(document))),
        series,
        levels=(1.0,),
        together=True,
        detail=True,
    )


def cache(document: SweepDocument) -> Chart:
    """Bytes of the KV cache over dense, as each method holds them and as its schedule predicts (rings)."""
    whole = document.dense.kv_bytes if document.dense else None
    methods = [method for method in document.study.methods if finished(document, method)] if whole else []
    held = [_held(document, method, whole or 1, len(methods) - i) for i, method in enumerate(methods)]
    predicted = [_predicted(document, method, whole or 1, legend=i == 0) for i, method in enumerate(methods)]
    series = [*held, *predicted]
    return Chart(
        "cache",
        "Bytes held",
        "KV cache bytes over dense, by retention",
        RETENTION,
        Axis("KV cache, pruned over dense", 0, highest(y for one in series for y in one.y)),
        series,
        levels=(1.0,),
        detail=True,
    )


def accuracy(document: SweepDocument) -> Chart:
    """The share of questions answered right, with intervals; the level line is dense."""
    whole = document.dense.accuracy if document.dense else None
    series = []
    for method in document.study.methods:
        points = [(cell, cell.accuracy) for cell in finished(document, method) if cell.accuracy]
        low, high = ends([found.ci95 for _, found in points], 100)
        text = [
            f"{method} at {units.percent(cell.realised)}\n"
            f"{units.percent_within(found.value, found.ci95)} of {found.samples} questions"
            for cell, found in points
        ]
        x, y = _x([cell for cell, _ in points]), percents(found.value for _, found in points)
        colour = colour_of(document, method)
        series.append(Series(method, x, y, text, low, high, colour=colour, width=2.5, group=method))
    return Chart(
        "accuracy",
        "Questions answered right",
        "Share of questions answered right, by retention",
        RETENTION,
        RIGHT_ANSWERS,
        series,
        levels=(100 * whole.value,) if whole else (),
        detail=True,
    )


def selection(document: SweepDocument) -> Chart:
    """The share of each method's counted work that goes into selecting tokens."""
    series = []
    for method in document.study.methods:
        shares = [(cell, selection_share(cell)) for cell in finished(document, method)]
        found = [(cell, share) for cell, share in shares if share is not None]
        x, y = _x([cell for cell, _ in found]), percents(share for _, share in found)
        text = [_selection_text(cell, share) for cell, share in found]
        series.append(Series(method, x, y, text, colour=colour_of(document, method)))
    most = max((y for one in series for y in one.y), default=0.0)
    return Chart(
        "selection",
        "What selection costs",
        "Share of the counted work that selection takes, by retention",
        RETENTION,
        Axis("Selection, of counted MACs", 0, 1.15 * most or 10, " %"),
        series,
        detail=True,
    )


# Speed-up


def _speedup(
    document: SweepDocument, id: str, caption: str, quantity: str, speedup: Callable[[CellSummary], Measured | None]
) -> Chart:
    low, high = _speedup_range(document)
    methods = document.study.methods
    found = [f"{method} {break_even.pays(document, method, quantity)}" for method in methods]
    lines = [_speedup_series(document, method, quantity, speedup) for method in methods]
    return Chart(
        id,
        caption,
        f"{QUANTITIES[quantity].label}, speed-up over dense by retention: {'; '.join(found)}",
        RETENTION,
        Axis("Speed-up over dense", low, high, "×"),
        [line for line in lines if line.x],
        levels=(1.0,),
        uprights=[upright for method in methods for upright in _break_even_line(document, method, quantity)],
        detail=True,
    )


def _speedup_series(
    document: SweepDocument, method: str, quantity: str, speedup: Callable[[CellSummary], Measured | None]
) -> Series:
    points = [(cell, found) for cell in finished(document, method) if (found := speedup(cell))]
    low, high = ends([found.ci95 for _, found in points])
    return Series(
        f"{method}: {break_even.pays(document, method, quantity)}",
        _x([cell for cell, _ in points]),
        [found.value for _, found in points],
        [_speedup_text(method, cell, found) for cell, found in points],
        low,
        high,
        colour=colour_of(document, method),
        hollow=[found.stopped != "converged" for _, found in points],
        width=2.5,
        group=method,
    )


def _speedup_range(document: SweepDocument) -> tuple[float, float]:
    """One axis for prefill and total, so that the two charts can be compared by eye."""
    quantities = [q for cell in document.cells for q in (cell.prefill_speedup, cell.total_speedup) if q]
    low = min((q.ci95[0] for q in quantities), default=1.0)
    high = max((q.ci95[1] for q in quantities), default=1.0)
    margin = 0.06 * (max(high, 1.0) - min(low, 1.0)) + 0.02
    return min(low, 1.0) - margin, max(high, 1.0) + margin


def _break_even_line(document: SweepDocument, method: str, quantity: str) -> list[Upright]:
    """The break-even of a method as an upright line, if the sweep has one."""
    found = break_even.find(document, method, quantity)
    if found.retention is None or found.ci95 is None:
        return []
    low, high = (100 * bound for bound in found.ci95)
    text = f"{method} breaks even at {units.percent_within(found.retention, found.ci95)}"
    return [Upright(100 * found.retention, low, high, text, colour_of(document, method), method)]


def _speedup_text(method: str, cell: CellSummary, found: Measured) -> str:
    budgets = ", ".join(units.exact(budget) for budget in cell.budgets)
    return (
        f"{method} at {units.percent(cell.realised)}\n{units.times_within(found.value, found.ci95)}\n"
        f"{found.samples} pairs, stopped: {found.stopped}\ntokens kept: {budgets}"
    )


# Work, cache, selection


def _kinds_of_work(dense: DenseSummary | None) -> list[tuple[str, Dash, Marker, Callable, int]]:
    """The lines of a work chart: name, dash, marker, the MACs of a cell, the MACs of dense."""
    if dense is None:
        return []
    return [
        ("counted", "solid", "circle", lambda cell: cell.counted_macs, dense.counted_macs),
        ("counted, no selection", "dash", "diamond", without_selection, dense.counted_macs),
        ("claimed by formula", "dot", "square", lambda cell: cell.fastv_macs, dense.fastv_macs),
    ]


def _work_ratios(document: SweepDocument) -> Iterable[float]:
    """All values that the work charts show, of all methods: they have one axis."""
    for cell in document.cells:
        if cell.prefill_speedup:
            yield 1 / cell.prefill_speedup.ci95[0]
        for _, _, _, count, whole in _kinds_of_work(document.dense):
            yield (count(cell) or 0) / whole


def _held(document: SweepDocument, method: str, whole: int, rank: int) -> Series:
    """Methods at one retention hold nearly the same bytes. Thinner lines lie upon thicker ones, so all are seen."""
    x, y, text = _bytes(document, method, whole, "held", lambda cell: cell.kv_bytes)
    return Series(method, x, y, text, colour=colour_of(document, method), width=2 * rank, group=method)


def _predicted(document: SweepDocument, method: str, whole: int, *, legend: bool) -> Series:
    x, y, text = _bytes(document, method, whole, "predicted", lambda cell: cell.kv_bytes_predicted)
    return Series("predicted", x, y, text, line=None, marker="ring", size=15, group=method, legend=legend)


def _bytes(
    document: SweepDocument, method: str, whole: int, what: str, count: Callable[[CellSummary], int | None]
) -> tuple[list[float], list[float], list[str]]:
    """Where a method's cells lie, their bytes over `whole`, and what the pointer shows."""
    found = _counted(document, method, count)
    text = [
        f"{method}, {what}\n{units.size(held)} of {units.size(whole)}, {units.percent(held / whole)}"
        for _, held in found
    ]
    return [x for x, _ in found], [held / whole for _, held in found], text


def _counted(
    document: SweepDocument, method: str, count: Callable[[CellSummary], int | None]
) -> list[tuple[float, int]]:
    """Where a method's cells lie, and the count of each."""
    return [(100 * cell.realised, n) for cell in finished(document, method) if (n := count(cell)) is not None]


def _x(cells: Iterable[CellSummary]) -> list[float]:
    return percents(cell.realised for cell in cells)


def _time_text(found: Measured) -> str:
    return f"{units.percent_within(1 / found.value, (1 / found.ci95[1], 1 / found.ci95[0]))} of dense time"


def _selection_text(cell: CellSummary, share: float) -> str:
    text = (
        f"{cell.method} at {units.percent(cell.realised)}\n"
        f"{units.percent(share)}: {units.exact(cell.selection_macs or 0)} MACs"
    )
    if cell.gamma is not None and cell.gamma.counted is not None:
        counted, assumed = units.factor(cell.gamma.counted), units.plain(cell.gamma.assumed)
        text += f"\noverhead factor {counted} counted, γ = {assumed} assumed"
    return text
