"""The page of the figures that a paper prints, beside the measured ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trio_profile import units
from trio_profile.cost.printed import Printed
from trio_profile.errors import StudyError
from trio_profile.inputs.claims.claims import Claims, quantity, read
from trio_profile.inputs.claims.facts import Facts, Line
from trio_profile.kinds.audit.document import NEAR
from trio_profile.quantities import entries
from trio_profile.report import doubts
from trio_profile.report.blocks import Entry, Page, Report, Sentences, tabulate
from trio_profile.report.palette import number_of
from trio_profile.text import listed

Quantity = Literal["prefill", "total", "accuracy"]
_WORDS: dict[Quantity, str] = {"prefill": "prefill speed-up", "total": "total speed-up", "accuracy": "accuracy kept"}
"""The printed quantities in words."""
COMPARED = ("sweep", "compare")
"""The kinds of study that have speed-ups by retention."""
_LAST_PAGES = ("doubts", "study", "numbers")


@dataclass(frozen=True)
class Figure:
    """One printed figure of a method at a retention.

    model: of the claim.
    text: a speed-up, or the share of the dense accuracy that is kept.
    source: the printed figures from which a speed-up follows; empty if it is printed itself.
    where: its place in the paper.
    """

    quantity: Quantity
    method: str
    model: str
    retention: float
    text: str
    source: str
    where: str


def with_printed(report: Report, document: Any, claims: str) -> Report:
    """The report of a sweep or a comparison with the figures of a claims file.

    claims: a file, or the name of one that ships with the package.
    Raises ClaimsError if the claims cannot be read. Raises StudyError for another kind of study, and for claims that
    print no speed-up and no accuracy of the study's methods at any retention.
    """
    if not hasattr(document, "summaries") or document.study.verb not in COMPARED:
        raise StudyError("--claims: this kind of study has no speed-ups by retention; name a sweep or a comparison")
    printing = read(claims)
    figures = [figure for figure in _figures(printing) if figure.method in document.study.methods]
    if not figures:
        methods = listed(document.study.methods)
        raise StudyError(
            f"{printing.label} prints no speed-up and no accuracy of {methods} at a retention: name other claims"
        )
    # Figures of the study's own model can be compared with it. Others are shown only without these.
    figures = [figure for figure in figures if _is_same(figure.model, document.study.model)] or figures
    place = next((i for i, page in enumerate(report.pages) if page.id in _LAST_PAGES), len(report.pages))
    page = _page(document, printing, figures)
    return replace(report, pages=[*report.pages[:place], page, *report.pages[place:]])


def _is_same(claimed: str, model: str) -> bool:
    """Whether a study's model is the model of a claim. A repository of the hub has further words in its name."""
    return claimed.casefold() in model.casefold()


# Reading the claims


def _figures(claims: Claims) -> Iterator[Figure]:
    for line in Facts.of(claims).lines:
        row = line.row
        if not row.dense and (retention := _retention(line)) is not None:
            where = line.table.where or line.label
            for name, text, source in (*_stated(line), *_quotients(line)):
                yield Figure(name, row.method, row.model, retention, text, source, where)


def _retention(line: Line) -> float | None:
    """The retention of a row: as it states it, or by its number of tokens."""
    if line.retention is not None:
        return float(line.retention.value)
    return float(Printed.of(line.row.tokens).value / line.model.visual_tokens) if line.row.tokens else None


def _stated(line: Line) -> Iterator[tuple[Quantity, str, str]]:
    """The accuracy and the speed-ups that a row prints, as ratios or as shares of the dense time."""
    for name, text in line.row.figures.items():
        meant, value = quantity(name), float(Printed.of(text).value)
        if name == "accuracy_kept_pct":
            yield "accuracy", f"{text} %", ""
        elif meant.base in ("prefill", "total") and meant.form == "ratio":
            yield meant.base, f"{text}×", ""
        elif meant.base in ("prefill", "total") and meant.form in ("reduction", "share"):
            left = 100 - value if meant.form == "reduction" else value
            yield meant.base, units.times(100 / left if left > 0 else 0), f"{text} %"


def _quotients(line: Line) -> Iterator[tuple[Quantity, str, str]]:
    """The speed-ups that follow from the printed times of a row and of its dense row."""
    bases: tuple[Literal["prefill", "total"], ...] = ("prefill", "total")
    stated = {name for name, _, _ in _stated(line)}
    for base in bases:
        whole, part = line.dense.figure(base) if line.dense else None, line.figure(base)
        if whole is not None and part is not None and base not in stated:
            speedup = units.times(float(whole.amount.value / part.amount.value))
            yield base, speedup, f"{whole.text} / {part.text}"


# The page


def _page(document: Any, claims: Claims, figures: Sequence[Figure]) -> Page:
    source = f" ({claims.source})" if claims.source else ""
    lines = [f"Printed in: {claims.paper}{source}."]
    if not any(_is_same(figure.model, document.study.model) for figure in figures):
        models = listed(list(dict.fromkeys(figure.model for figure in figures)))
        lines.append(
            f"The printed figures are of {models}, and this study ran {document.study.model}: compare how they change "
            "with the retention, not how large they are."
        )
    cells = [summary.cell for summary in document.summaries]
    marks = doubts.marks(document.doubts, cells)
    columns: dict[str, Callable[[Figure], Entry]] = {
        "Method": lambda figure: Entry(figure.method, colour=number_of(figure.method)),
        "Retention": lambda figure: Entry(units.percent(figure.retention), order=figure.retention),
        "quantity": lambda figure: Entry(_WORDS[figure.quantity]),
        "as printed": lambda figure: Entry(figure.text, note=figure.source),
        "measured": lambda figure: _measured(document, figure, marks),
        "model of the claim": lambda figure: Entry(figure.model),
        "place": lambda figure: Entry(figure.where),
    }
    return Page(
        "as-printed",
        "As printed",
        "The figures that a paper prints for the methods of this study, and the measured ones at the same retention. A "
        "quotient of two times is computed from the printed times. Printed figures have no intervals.",
        [
            Sentences("", lines, tone="doubt" if len(lines) > 1 else "finding"),
            tabulate("Printed and measured", columns, figures, keys=3, detail=True),
        ],
    )


def _measured(document: Any, figure: Figure, marks: Mapping[str, str]) -> Entry:
    """The measured value at the retention of a figure. marks: why each doubted cell is doubted, by its id."""
    cells = [cell for cell in document.summaries if cell.method == figure.method]
    nearest = min(cells, key=lambda cell: abs(cell.realised - figure.retention), default=None)
    if nearest is None or abs(nearest.realised - figure.retention) > NEAR:
        return entries.NOTHING
    doubt = marks.get(nearest.cell.id, "")
    if figure.quantity != "accuracy":
        speedup = nearest.prefill_speedup if figure.quantity == "prefill" else nearest.total_speedup
        return replace(entries.speedup(speedup), doubt=doubt if speedup else "")
    dense = document.dense.accuracy if document.dense is not None else None
    if nearest.accuracy is None or dense is None or not dense.value:
        return entries.NOTHING
    return Entry(units.percent(nearest.accuracy.value / dense.value), doubt=doubt)
