"""The report of several studies side by side: what is unlike, and one table of their cells; the rest is folded."""

from collections.abc import Callable, Iterator
from math import log
from typing import Any

from trio_profile import units
from trio_profile.analysis.recommendation import CONTROL
from trio_profile.analysis.side_by_side import About, SideBySide, SideCell
from trio_profile.findings import doubts, recommendation
from trio_profile.findings.blocks import Block, Chart, Confidence, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.findings.charts import RETENTION, RIGHT_ANSWERS, by_retention, speedup_axis
from trio_profile.findings.definitions import environment_terms, numbers_page
from trio_profile.findings.study_page import finished_cells, sessions_table
from trio_profile.findings.table import Grid, Key, table
from trio_profile.quantities import entries
from trio_profile.quantities.entries import NOTHING
from trio_profile.quantities.quantity import Column
from trio_profile.quantities.summary import CellSummary
from trio_profile.records.estimate import Accuracy
from trio_profile.records.schema import Cell, Environment
from trio_profile.text import listed

MOST_CHARTS = 6
"""So many methods have a chart. The table has all of them."""
_ABOUT: dict[About, str] = {
    "machine": "Other hardware, so compare speed-ups, not times",
    "versions": "Other versions of the libraries",
    "code": "Other versions of the code",
    "model": "Another model or another form of it, so exact counts and answers cannot be compared",
    "input": "Another input or other questions, so the work is not the same",
    "options": "Other options of the methods",
    "files": "Files of the same name with other content",
}
"""What a difference means for the reader."""
_NAMES = {
    "counted_macs": "counted MACs",
    "selection_macs": "MACs of the selection",
    "fastv_macs": "MACs by formula",
    "kv_bytes": "bytes of the KV cache",
    "budgets": "kept tokens",
}
_WEAKEST_FIRST = ("low", "medium", "high")


def report(document: SideBySide) -> Report:
    """All pages of several studies. Studies without a common cell end after their differences."""
    models = list(dict.fromkeys(side.study.model for side in document.sides))
    pages = [verdict_page(document)]
    if _shared(document):
        pages += [charts_page(document), doubts_page(document), studies_page(document), numbers_page()]
    texts = (recommendation.banner(side.study.model, document.sessions_of(i)) for i, side in enumerate(document.sides))
    return Report(
        subject=listed([side.name for side in document.sides]),
        model=models[0] if len(models) == 1 else f"{len(models)} models",
        facts=[f"{side.name}: {_device(side.environment)}" for side in document.sides],
        pages=pages,
        data=document.model_dump_json(),
        banner=" ".join(dict.fromkeys(text for text in texts if text)),
        confidence=_confidence(document),
    )


def verdict_page(document: SideBySide) -> Page:
    """What is unlike, what each study recommends, and the speed-ups with their ratios."""
    blocks: list[Block] = [Sentences("", ["No two of these studies have a cell in common."], tone="doubt")]
    if _shared(document):
        told = [f"{side.name}: {recommendation.sentence(side.recommendation)}" for side in document.sides]
        blocks = [Sentences("", [*_ratios(document)]), _table(document), Sentences("What each study recommends", told)]
    if document.unlike:
        blocks.append(Sentences("In what the studies differ", [*_differences(document)], tone="doubt"))
    else:
        blocks.append(Sentences("", ["These studies have the same model, input, options, machine, versions and code."]))
    return Page("side-by-side", "Side by side", "", blocks)


def charts_page(document: SideBySide) -> Page:
    """Speed-up and right answers of each method, a line for each study."""
    return Page(
        "charts",
        "Charts",
        "Each study has measured its own dense model in turn with the pruned one, so a speed-up belongs to its study. "
        "A ratio is the speed-up of a study divided by that of the first one. Its interval is Welch's, over the "
        "processes of both studies. A difference of right answers is that of two independent samples of questions: if "
        "both studies asked the same questions, its interval is too wide.",
        [
            chart
            for method in _charted(document)
            for chart in (
                _chart(document, method, "prefill", "Prefill speed-up", lambda cell: cell.prefill_speedup),
                _chart(document, method, "answers", "Questions answered right", lambda cell: cell.accuracy),
            )
            if chart.series
        ],
        folded="Show a line for each study",
    )


def doubts_page(document: SideBySide) -> Page:
    """The doubts of each study."""
    blocks: list[Block] = []
    for number, side in enumerate(document.sides):
        blocks.append(Sentences(side.name, [doubts.summary(side.doubts, _finished(document, number))], detail=True))
        blocks += doubts.blocks_of(side.doubts, side.name)
    return Page("doubts", "Doubts", doubts.PUBLISHED, blocks, folded="Show the doubts")


def studies_page(document: SideBySide) -> Page:
    """Where each study was measured, and each of its sessions."""
    blocks: list[Block] = []
    for number, side in enumerate(document.sides):
        asked = [("model", side.study.model), ("methods", ", ".join(side.study.methods)), ("dtype", side.study.dtype)]
        asked += [("code", ", ".join(side.code))] if side.code else []
        blocks.append(Terms(side.name, [*asked, *environment_terms(side.environment)], detail=True))
        blocks.append(sessions_table(document.sessions_of(number), f"Sessions of {side.name}"))
    return Page("studies", "The studies", "", blocks, folded="Show where each study was measured")


def _device(where: Environment) -> str:
    return where.cpu if where.device_name == "cpu" else where.device_name


def _shared(document: SideBySide) -> list[SideCell]:
    """The cells that more than one study has."""
    return [cell for cell in document.cells if sum(one is not None for one in cell.cells) > 1]


def _confidence(document: SideBySide) -> list[Confidence]:
    """The confidence of the weakest study, with the reasons of each; none if no study recommends anything."""
    known = [(side.name, sure) for side in document.sides if (sure := side.recommendation.confidence) is not None]
    if not known:
        return []
    weakest = min((sure for _, sure in known), key=lambda sure: _WEAKEST_FIRST.index(sure.level))
    return [
        Confidence(weakest.level, ". ".join(f"{name}: {sure.level}, {'; '.join(sure.reasons)}" for name, sure in known))
    ]


def _finished(document: SideBySide, number: int) -> list[Cell]:
    """The finished cells of a study. number: of the study, from 0."""
    return finished_cells(found for cell in document.cells if (found := cell.cells[number]) is not None)


# Sentences


def _differences(document: SideBySide) -> Iterator[str]:
    """How the studies differ: `Other versions of the libraries: torch 2.11.0 in A, 2.12.0 in B.`"""
    names = [side.name for side in document.sides]
    for about, meaning in _ABOUT.items():
        parts = [
            f"{one.name.replace('_', ' ')} "
            + ", ".join(f"{value or 'not known'} in {name}" for name, value in zip(names, one.values, strict=True))
            for one in document.unlike
            if one.about == about
        ]
        if parts:
            yield f"{meaning}: {'; '.join(parts)}."


def _ratios(document: SideBySide) -> Iterator[str]:
    """In how many cells each further study gains more, less, or no measurable difference."""
    first = document.sides[0].name
    for number, side in list(enumerate(document.sides))[1:]:
        ratios = [(cell, ratio) for cell in document.cells if (ratio := cell.prefill_ratios[number]) is not None]
        apart = [(cell, ratio) for cell, ratio in ratios if entries.tone(ratio.ci95, 1)]
        cells = units.number_of(len(ratios), "common cell")
        if not ratios:
            yield f"{side.name} and {first} have no timed cell in common."
        elif not apart:
            yield f"Prefill speed-ups of {side.name} and {first} do not differ measurably in any of {cells}."
        else:
            more = sum(ratio.ci95[0] > 1 for _, ratio in apart)
            farthest, ratio = max(apart, key=lambda pair: abs(log(pair[1].value)))
            yield (
                f"Of {cells}, the prefill speed-up of {side.name} is larger than that of {first} in {more} and smaller "
                f"in {len(apart) - more}; farthest apart: {farthest.method} at "
                f"{units.percent(farthest.nominal_retention)}, {units.times_within(ratio.value, ratio.ci95)}."
            )


# Charts


def _charted(document: SideBySide) -> list[str]:
    """The methods with charts: trio, then those that most studies have finished at most retentions, controls last."""
    done = [(one.method, cell) for one in document.cells for cell in one.cells if cell and cell.status == "done"]
    names = [method for method, _ in done]
    controls = {method for method, cell in done if cell.remark == CONTROL}
    found = [method for method in document.methods if method in names]
    found.sort(key=lambda method: (method != "trio", method in controls, -names.count(method)))
    return found[:MOST_CHARTS]


def _chart(document: SideBySide, method: str, id: str, caption: str, value: Callable[[Any], Any]) -> Chart:
    """One method: a line for each study."""
    lines = []
    for number, side in enumerate(document.sides):
        cells = [cell for one in document.cells if one.method == method and (cell := one.cells[number])]
        lines.append((side.name, number, sorted(cells, key=lambda cell: cell.realised)))
    series = by_retention(lines, value)
    answers = any(isinstance(value(cell), Accuracy) for _, _, cells in lines for cell in cells)
    return Chart(
        f"{id}-{document.methods.index(method)}",
        f"{caption}: {method}",
        f"{caption} of {method} by retention, a line for each study",
        RETENTION,
        RIGHT_ANSWERS if answers else speedup_axis(series),
        series,
        levels=() if answers else (1.0,),
        detail=True,
    )


# The table


def _table(document: SideBySide) -> Table:
    """A row for each cell of each study: speed-ups and right answers, and how they differ from the first study's."""
    first = document.sides[0].name
    rows: list[tuple[Cell, CellSummary]] = []
    for cell in document.cells:
        rows += [(found.cell, _row(document, cell, number)) for number, found in enumerate(cell.cells) if found]
    columns = (
        "prefill",
        Column(f"prefill / {first}", lambda row, _: entries.speedup(row.prefill_ratio)),
        "total",
        Column(f"total / {first}", lambda row, _: entries.speedup(row.total_ratio)),
        "right within",
        Column(f"right − {first}", lambda row, _: entries.points(row.accuracy_apart), needs_answers=True),
        Column(
            "exact counts", lambda row, _: Entry("differ", title=row.unequal, tone="loss") if row.unequal else NOTHING
        ),
    )
    known = next((side.dense for side in document.sides if side.dense and side.dense.accuracy), None)
    keys = ("method", Key("study", lambda _, __, row: Entry(row.study, doubt=row.mark)), "asked")
    caption = "Speed-ups over dense, and how the studies differ. Exact counts must be equal if the same model runs"
    return table(Grid(rows, known, document.methods, {}), caption, columns, keys, in_sight=f"prefill / {first}")


def _row(document: SideBySide, cell: SideCell, number: int) -> CellSummary:
    """A cell of one study, with its differences to the first study. number: of the study, from 0."""
    found, side = cell.cells[number], document.sides[number]
    assert found is not None
    marks = doubts.marks(side.doubts, [found.cell]) if found.status == "done" else {}
    return found.model_copy(
        update={
            "study": side.name,
            "mark": marks.get(found.cell.id, ""),
            "prefill_ratio": cell.prefill_ratios[number],
            "total_ratio": cell.total_ratios[number],
            "accuracy_apart": cell.accuracy_differences[number],
            "unequal": ", ".join(_NAMES[name] for name in cell.unequal),
        }
    )
