"""The report of several studies side by side: what is unlike, and one table of their cells; the rest is folded."""

from collections.abc import Iterator
from math import log

from trio_profile import units
from trio_profile.analysis.side_by_side import About, SideBySide, SideCell
from trio_profile.findings import doubts, recommendation
from trio_profile.findings.blocks import Block, Confidence, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.findings.definitions import environment_terms, numbers_page
from trio_profile.findings.study_page import finished_cells, sessions_table, unfinished
from trio_profile.findings.table import Grid, Key, table
from trio_profile.quantities import entries
from trio_profile.quantities.entries import NOTHING
from trio_profile.quantities.quantity import Column
from trio_profile.quantities.summary import CellSummary
from trio_profile.records.schema import Environment
from trio_profile.text import listed

_HOW = (
    "Each study has measured its own dense model in turn with the pruned one, so a speed-up belongs to its study. A "
    "ratio is the speed-up of a study divided by that of the first one. Its interval is Welch's, over the processes of "
    "both studies. A difference of right answers is that of two independent samples of questions: if both studies "
    "asked the same questions, its interval is too wide."
)
_ABOUT: dict[About, str] = {
    "machine": "Other hardware, so compare speed-ups, not times",
    "versions": "Other versions of the libraries",
    "code": "Other versions of the code",
    "model": "Another model or another form of it, so exact counts and answers cannot be compared",
    "input": "Another input or other questions, so the work is not the same",
    "options": "Other options of the methods",
    "files": "Files of the same name with other content",
}
"""The meaning of a difference for the reader."""
_NAMES = {
    "counted_macs": "counted MACs",
    "selection_macs": "MACs of the selection",
    "fastv_macs": "MACs by formula",
    "kv_bytes": "bytes of the KV cache",
    "budgets": "kept tokens",
}


def report(document: SideBySide) -> Report:
    """All pages of several studies. Studies without a common cell end after their differences."""
    models = list(dict.fromkeys(side.study.model for side in document.sides))
    pages = [verdict_page(document)]
    if _shared(document):
        pages += [doubts_page(document), studies_page(document), numbers_page()]
    texts = (recommendation.banner(side.study.model, document.sessions_of(i)) for i, side in enumerate(document.sides))
    return Report(
        subject=listed([side.name for side in document.sides]),
        model=models[0] if len(models) == 1 else f"{len(models)} models",
        facts=[f"{side.name}: {_device(side.environment)}" for side in document.sides],
        pages=pages,
        data=document.model_dump_json(),
        banner=" ".join(dict.fromkeys(text for text in texts if text)),
        confidence=[
            Confidence(sure.level, "; ".join(sure.reasons), f"study {side.name}")
            for side in document.sides
            if (sure := side.recommendation.confidence) is not None
        ],
    )


def verdict_page(document: SideBySide) -> Page:
    """The differences, what each study recommends, and the speed-ups with their ratios."""
    blocks: list[Block] = [Sentences("", ["No two of these studies have a cell in common."], tone="doubt")]
    if _shared(document):
        picks = [f"{side.name}: {recommendation.sentence(side.recommendation)}" for side in document.sides]
        blocks = [Sentences("", [*_ratios(document)]), _table(document), Sentences("What each study recommends", picks)]
    if document.unlike:
        blocks.append(Sentences("In what the studies differ", [*_differences(document)], tone="doubt"))
    else:
        blocks.append(Sentences("", ["These studies have the same model, input, options, machine, versions and code."]))
    return Page("side-by-side", "Side by side", _HOW, blocks)


def doubts_page(document: SideBySide) -> Page:
    """The doubts of each study, and its cells without numbers."""
    blocks: list[Block] = []
    for number, side in enumerate(document.sides):
        cells = [summary for cell in document.cells if (summary := cell.cells[number]) is not None]
        lines = [doubts.summary(side.doubts, finished_cells(cells)), *unfinished(cells)]
        blocks.append(Sentences(side.name, lines, detail=True))
        blocks += doubts.blocks_of(side.doubts, side.name)
    return Page("doubts", "Doubts", doubts.PUBLISHED, blocks, folded="Show the doubts")


def studies_page(document: SideBySide) -> Page:
    """Where each study was measured, and each of its sessions."""
    blocks: list[Block] = []
    for number, side in enumerate(document.sides):
        facts = [("model", side.study.model), ("methods", ", ".join(side.study.methods)), ("dtype", side.study.dtype)]
        facts += [("code", ", ".join(side.code))] if side.code else []
        blocks.append(Terms(side.name, [*facts, *environment_terms(side.environment)], detail=True))
        blocks.append(sessions_table(document.sessions_of(number), f"Sessions of {side.name}"))
    return Page("studies", "The studies", "", blocks, folded="Show where each study was measured")


def _device(where: Environment) -> str:
    return where.cpu if where.device_name == "cpu" else where.device_name


def _shared(document: SideBySide) -> bool:
    """Whether any cell belongs to more than one study."""
    return any(sum(summary is not None for summary in cell.cells) > 1 for cell in document.cells)


# Sentences


def _differences(document: SideBySide) -> Iterator[str]:
    """How the studies differ: `Other versions of the libraries: torch 2.11.0 in A, 2.12.0 in B.`"""
    names = [side.name for side in document.sides]
    for about, meaning in _ABOUT.items():
        parts = [
            f"{field.name.replace('_', ' ')} "
            + ", ".join(f"{value or 'not known'} in {name}" for name, value in zip(names, field.values, strict=True))
            for field in document.unlike
            if field.about == about
        ]
        if parts:
            yield f"{meaning}: {'; '.join(parts)}."


def _ratios(document: SideBySide) -> Iterator[str]:
    """In how many cells each further study gains measurably more or less than the first one."""
    first = document.sides[0].name
    for number, side in list(enumerate(document.sides))[1:]:
        ratios = [(cell, ratio) for cell in document.cells if (ratio := cell.prefill_ratios[number]) is not None]
        tones = [entries.tone(ratio.ci95, 1) for _, ratio in ratios]
        text = (
            f"Of {units.number_of(len(ratios), 'common cell')}, the prefill speed-up of {side.name} is measurably "
            f"larger than that of {first} in {tones.count('gain')} and smaller in {tones.count('loss')}."
        )
        apart = [pair for pair, tone in zip(ratios, tones, strict=True) if tone]
        if apart:
            cell, ratio = max(apart, key=lambda pair: abs(log(pair[1].value)))
            place = f"{cell.method} at {units.percent(cell.nominal_retention)}"
            text += f" Farthest apart: {place}, {units.times_within(ratio.value, ratio.ci95)}."
        yield text


# The table


def _table(document: SideBySide) -> Table:
    """A row for each cell of each study: speed-ups and right answers, and how they differ from the first study's."""
    first = document.sides[0].name
    rows = [
        _row(document, cell, number, summary)
        for cell in document.cells
        for number, summary in enumerate(cell.cells)
        if summary is not None and summary.status == "done"
    ]
    columns = (
        "prefill",
        Column(f"prefill / {first}", lambda row, _: entries.speedup(row.prefill_ratio)),
        "total",
        Column(f"total / {first}", lambda row, _: entries.speedup(row.total_ratio)),
        "right [95 %]",
        Column(f"right − {first}", lambda row, _: entries.points(row.accuracy_apart), needs_answers=True),
        Column(
            "exact counts", lambda row, _: Entry("differ", title=row.unequal, tone="loss") if row.unequal else NOTHING
        ),
    )
    known = next((side.dense for side in document.sides if side.dense and side.dense.accuracy), None)
    keys = ("method", Key("study", lambda _, row: Entry(row.study, doubt=row.mark)), "asked")
    caption = "Speed-ups over dense, and how the studies differ. Exact counts must be equal if the same model runs"
    return table(Grid(rows, known, document.methods, {}), caption, columns, keys, in_sight=f"prefill / {first}")


def _row(document: SideBySide, cell: SideCell, number: int, summary: CellSummary) -> CellSummary:
    """A cell of one study, with its differences to the first study. number: of the study, from 0."""
    side = document.sides[number]
    return summary.model_copy(
        update={
            "study": side.name,
            "mark": doubts.marks(side.doubts, [summary.cell]).get(summary.cell.id, ""),
            "prefill_ratio": cell.prefill_ratios[number],
            "total_ratio": cell.total_ratios[number],
            "accuracy_apart": cell.accuracy_differences[number],
            "unequal": ", ".join(_NAMES[name] for name in cell.unequal),
        }
    )
