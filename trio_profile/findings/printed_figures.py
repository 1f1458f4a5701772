"""The figures that a paper prints, beside the measured ones: in the charts, and as a page of their own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trio_profile import units
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.cost.printed import Printed
from trio_profile.errors import StudyError
from trio_profile.findings import blocks, doubts
from trio_profile.findings.blocks import Axis, Chart, Entry, Page, Report, Sentences, Series
from trio_profile.findings.charts import colour_of
from trio_profile.judge.audit.claims import Claims
from trio_profile.judge.audit.facts import Facts, Line
from trio_profile.judge.audit.measured import NEAR
from trio_profile.judge.audit.quantities import quantity
from trio_profile.judge.audit.reader import read
from trio_profile.quantities import entries
from trio_profile.records.schema import Cell
from trio_profile.text import listed

What = Literal["prefill", "total", "accuracy"]
_WORDS: dict[What, str] = {"prefill": "prefill speed-up", "total": "total speed-up", "accuracy": "accuracy kept"}
"""What is printed, in words. The keys are the ids of the charts that show it."""
_LAST_PAGES = ("doubts", "study", "numbers")


@dataclass(frozen=True)
class Figure:
    """One printed figure of a method at a retention.

    value: the speed-up, or the share of the dense accuracy that is kept.
    text: the figure as printed, or the two printed times that it is made of.
    model: of the claim; empty if it names none.
    table: name of its table in the claims file. where: its place in the paper.
    """

    what: What
    method: str
    model: str
    retention: float
    value: float
    text: str
    table: str
    where: str


def with_printed(report: Report, document: Any, claims: str) -> Report:
    """The report of a sweep or a comparison with the figures of a claims file.

    claims: a file, or the name of one that ships with the package.
    Raises ClaimsError if the claims cannot be read. Raises StudyError for another kind of study, and for claims that
    print no speed-up and no accuracy of the study's methods at any retention.
    """
    if not isinstance(document, SweepDocument | Comparison):
        raise StudyError("--claims: this kind of study has no speed-ups by retention; name a sweep or a comparison")
    printing = read(claims)
    figures = [one for one in _figures(printing) if one.method in document.study.methods]
    if not figures:
        methods = listed(document.study.methods)
        raise StudyError(
            f"{printing.label} prints no speed-up and no accuracy of {methods} at a retention: name other claims"
        )
    # Figures of the study's own model are what it can be compared with. Others are shown only without these.
    figures = [one for one in figures if _is_same(one.model, document.study.model)] or figures
    pages = [replace(page, blocks=[_drawn(block, document, figures) for block in page.blocks]) for page in report.pages]
    place = next((i for i, page in enumerate(pages) if page.id in _LAST_PAGES), len(pages))
    return replace(report, pages=[*pages[:place], _page(document, printing, figures), *pages[place:]])


def _is_same(claimed: str, model: str) -> bool:
    """Whether a study's model is the model of a claim. A repository of the hub has further words in its name."""
    return claimed != "" and claimed.casefold() in model.casefold()


# Reading the claims


def _figures(claims: Claims) -> Iterator[Figure]:
    for line in Facts.of(claims).lines:
        row = line.row
        if not row.dense and (retention := _retention(line)) is not None:
            where = line.table.where or line.label
            for what, value, text in (*_stated(line), *_quotients(line)):
                yield Figure(what, row.method, row.model, retention, value, text, line.label, where)


def _retention(line: Line) -> float | None:
    """The retention of a row: as it states it, or by its number of tokens."""
    if line.retention is not None:
        return float(line.retention.value)
    return float(Printed.of(line.row.tokens).value / line.model.visual_tokens) if line.row.tokens else None


def _stated(line: Line) -> Iterator[tuple[What, float, str]]:
    """The speed-ups and the accuracy that a row prints."""
    for name, text in line.row.figures.items():
        meant, value = quantity(name), float(Printed.of(text).value)
        if name == "accuracy_kept_pct":
            yield "accuracy", value / 100, f"{text} %"
        elif meant.base in ("prefill", "total") and meant.form in ("ratio", "reduction", "share"):
            ratio = {"ratio": value, "reduction": 100 / (100 - value) if value < 100 else 0, "share": 100 / value}
            yield meant.base, ratio[meant.form], f"{text} {meant.unit}".replace(" ×", "×")


def _quotients(line: Line) -> Iterator[tuple[What, float, str]]:
    """The speed-ups that follow from the printed times of a row and of its dense row."""
    bases: tuple[Literal["prefill", "total"], ...] = ("prefill", "total")
    stated = {what for what, _, _ in _stated(line)}
    for base in bases:
        whole, part = line.dense.figure(base) if line.dense else None, line.figure(base)
        if whole is not None and part is not None and base not in stated:
            yield base, float(whole.amount.value / part.amount.value), f"{whole.text} / {part.text}"


# Charts


def _drawn(block: blocks.Block, document: SweepDocument | Comparison, figures: Sequence[Figure]) -> blocks.Block:
    """A block with the printed figures, if it is a chart of one of their quantities."""
    if not isinstance(block, Chart) or block.id not in _WORDS:
        return block
    series = list(_series(document, [one for one in figures if one.what == block.id]))
    if not series:
        return block
    # The two charts of speed-ups keep one axis.
    speedups = [one.value for one in figures if one.what != "accuracy"]
    axis = block.y if block.id == "accuracy" else _widened(block.y, speedups)
    return replace(block, label=_label(block, series), y=axis, series=[*block.series, *series])


def _label(chart: Chart, printed: Sequence[Series]) -> str:
    return f"{chart.label}. As printed: {listed(list(dict.fromkeys(one.name for one in printed)))}"


def _series(document: SweepDocument | Comparison, figures: Sequence[Figure]) -> Iterator[Series]:
    """A dotted line for each method, model and table. The legend names each method and model once."""
    named: set[str] = set()
    for method, model, table in dict.fromkeys((one.method, one.model, one.table) for one in figures):
        own = [one for one in figures if (one.method, one.model, one.table) == (method, model, table)]
        points = [(one, y) for one in sorted(own, key=lambda one: one.retention) if (y := _height(document, one))]
        if points:
            name, x, y = _name(method, model), [100 * one.retention for one, _ in points], [y for _, y in points]
            curve = _curve(name, x, y, [_tooltip(name, one) for one, _ in points], colour_of(document, method))
            yield replace(curve, legend=name not in named)
            named.add(name)


def _name(method: str, model: str) -> str:
    return f"{method} as printed, {model}" if model else f"{method} as printed"


def _curve(name: str, x: Sequence[float], y: Sequence[float], text: Sequence[str], colour: int) -> Series:
    """Printed points: hollow diamonds, joined by a dotted line."""
    return Series(
        name,
        x,
        y,
        text,
        colour=colour,
        line="dot" if len(x) > 1 else None,
        marker="diamond",
        hollow=[True] * len(x),
        size=9,
        group=name,
    )


def _height(document: SweepDocument | Comparison, figure: Figure) -> float | None:
    """Where a figure lies in its chart. A share of the dense accuracy is drawn as that share of our dense accuracy."""
    if figure.what != "accuracy":
        return figure.value
    dense = document.dense.accuracy if document.dense is not None else None
    return None if dense is None else 100 * figure.value * dense.value


def _tooltip(name: str, figure: Figure) -> str:
    return "\n".join([f"{name}, at {units.percent(figure.retention)}", *_told(figure)])


def _told(figure: Figure) -> list[str]:
    """What a paper prints, and where; and how a share of its accuracy is drawn."""
    drawn = ["drawn as this share of our dense accuracy"] if figure.what == "accuracy" else []
    return [f"{_WORDS[figure.what]}: {figure.text}", figure.where, *drawn]


def _widened(axis: Axis, values: Sequence[float]) -> Axis:
    """The axis with room for further values."""
    if axis.low is None or axis.high is None:
        return axis
    margin = 0.05 * (max(axis.high, *values) - min(axis.low, *values))
    return replace(axis, low=min(axis.low, min(values) - margin), high=max(axis.high, max(values) + margin))


# The page


def _page(document: SweepDocument | Comparison, claims: Claims, figures: Sequence[Figure]) -> Page:
    source = f" ({claims.source})" if claims.source else ""
    lines = [f"Printed in: {claims.paper}{source}."]
    if not any(_is_same(one.model, document.study.model) for one in figures):
        models = [model for model in dict.fromkeys(one.model for one in figures) if model]
        lines.append(
            f"The printed figures are of {listed(models) or 'an unnamed model'}, and this study ran "
            f"{document.study.model}: compare the shape of the curves, not their height."
        )
    cells = [Cell(method=one.method, retention=one.nominal_retention) for one in document.summaries]
    marked = doubts.marks(document.doubts, cells)
    rows = [_row(document, one, marked) for one in figures]
    columns = ("Method", "Retention", "quantity", "as printed", "measured", "model of the claim", "place")
    return Page(
        "as-printed",
        "As printed",
        "What a paper prints for the methods of this study, and what was measured here at the same retention. A "
        "quotient of two times is computed from the printed times. Printed figures have no intervals.",
        [
            Sentences("", lines, tone="doubt" if len(lines) > 1 else "finding"),
            blocks.Table("Printed and measured", columns, rows, keys=3, detail=True),
        ],
    )


def _row(document: SweepDocument | Comparison, figure: Figure, marked: Mapping[str, str]) -> list[Entry]:
    """A printed figure beside the measured one. marked: why each doubted cell is doubted, by its id."""
    derived = figure.what != "accuracy" and not figure.text.endswith("×")
    return [
        Entry(figure.method, colour=colour_of(document, figure.method)),
        Entry(units.percent(figure.retention), order=figure.retention),
        Entry(_WORDS[figure.what]),
        Entry(units.times(figure.value), note=figure.text) if derived else Entry(figure.text),
        _measured(document, figure, marked),
        Entry(figure.model or "–"),
        Entry(figure.where),
    ]


def _measured(document: SweepDocument | Comparison, figure: Figure, marked: Mapping[str, str]) -> Entry:
    near = [
        one
        for one in document.summaries
        if one.method == figure.method and abs(one.realised - figure.retention) <= NEAR
    ]
    if not near:
        return entries.NOTHING
    cell = min(near, key=lambda one: abs(one.realised - figure.retention))
    doubt = marked.get(cell.cell.id, "")
    if figure.what != "accuracy":
        found = cell.prefill_speedup if figure.what == "prefill" else cell.total_speedup
        return replace(entries.speedup(found), doubt=doubt if found else "")
    dense = document.dense.accuracy if document.dense is not None else None
    if cell.accuracy is None or dense is None or not dense.value:
        return entries.NOTHING
    return Entry(units.percent(cell.accuracy.value / dense.value), doubt=doubt)
