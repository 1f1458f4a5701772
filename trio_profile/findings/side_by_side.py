"""The report of several studies side by side: what is unlike, the speed-ups, the answers, and the exact counts."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import log

from trio_profile import units
from trio_profile.analysis.cells import CellSummary
from trio_profile.analysis.recommendation import CONTROL
from trio_profile.analysis.side_by_side import About, SideBySide, SideCell, StudyDifference
from trio_profile.findings import sides
from trio_profile.findings.blocks import Axis, Block, Chart, Entry, Page, Report, Sentences, Series, Table
from trio_profile.findings.charts import RETENTION, RIGHT_ANSWERS, ends, percents
from trio_profile.findings.definitions import numbers_page
from trio_profile.quantities import entries
from trio_profile.quantities.registry import COLUMNS
from trio_profile.records.estimate import Accuracy, Estimate
from trio_profile.text import listed

MOST_CHARTS = 6
"""So many methods have a chart. The table has all of them."""
_ABOUT: dict[About, str] = {
    "machine": "The studies ran on different hardware. Compare speed-ups, not times.",
    "versions": "Other versions of the libraries.",
    "code": "Other versions of the code.",
    "model": "Another model, or another form of it. Exact counts and answers cannot be compared.",
    "input": "Another input, or other questions. Speed-ups, counts or answers are not of the same work.",
    "options": "The methods ran with different options.",
    "files": "Files of the same name with other content.",
}
"""What a difference means for the reader."""
_NAMES = {
    "counted_macs": "counted MACs",
    "selection_macs": "MACs of the selection",
    "fastv_macs": "MACs by formula",
    "kv_bytes": "bytes of the KV cache",
    "budgets": "kept tokens",
}
_Points = Sequence[tuple[CellSummary, Estimate]]


def report(document: SideBySide) -> Report:
    """All pages of several studies."""
    models = list(dict.fromkeys(side.study.model for side in document.sides))
    facts = [f"{side.name}: {sides.device(side.environment)}" for side in document.sides]
    pages = [speedup_page(document)]
    if any(cell is not None and cell.accuracy is not None for one in document.cells for cell in one.cells):
        pages.append(answers_page(document))
    pages += [exact_page(document), sides.doubts_page(document), sides.studies_page(document), numbers_page()]
    return Report(
        subject=listed([side.name for side in document.sides]),
        model=models[0] if len(models) == 1 else f"{len(models)} models",
        facts=facts,
        pages=pages,
        data=document.model_dump_json(),
        banner=sides.banner(document),
        confidence=sides.confidence(document),
    )


def speedup_page(document: SideBySide) -> Page:
    """What is unlike, and the speed-ups with their ratios."""
    blocks: list[Block] = [*_unlike(document), Sentences("", [*_ratio_sentences(document)])]
    blocks.append(sides.recommendations(document))
    methods = _charted(document)
    blocks.append(_speedup_table(document))
    blocks += [_chart(document, method, "prefill", "Prefill", lambda cell: cell.prefill_speedup) for method in methods]
    first = document.sides[0].name
    return Page(
        "side-by-side",
        "Side by side",
        "Each study has measured its own dense model in turn with the pruned one, so a speed-up belongs to its study. "
        f"A ratio is the speed-up of a study divided by that of {first}: above 1 pruning pays more there. Its interval "
        "is Welch's, over the processes of both studies. On a CPU it allows for the state of each machine too. If it "
        "contains 1, these measurements show no difference.",
        blocks,
    )


def answers_page(document: SideBySide) -> Page:
    """Right answers of each study."""
    charts = [
        _chart(document, method, "answers", "Questions answered right", lambda cell: cell.accuracy)
        for method in _charted(document)
    ]
    return Page(
        "answers",
        "Answers",
        "Right answers of each study, with 95 % intervals. A difference is that of two independent samples of "
        "questions. If both studies asked the same questions, its interval is too wide.",
        [*charts, _answers_table(document)],
    )


def exact_page(document: SideBySide) -> Page:
    """Counts that must be equal if the same model runs, and where they are not."""
    shared = [cell for cell in document.cells if sum(one is not None for one in cell.cells) > 1]
    unequal = [cell for cell in shared if cell.unequal]
    blocks: list[Block] = []
    if not shared:
        blocks.append(Sentences("", ["No two of these studies have a cell in common."], tone="doubt"))
    elif not unequal:
        blocks.append(Sentences("", [f"Exact counts are the same in {units.number_of(len(shared), 'common cell')}."]))
    else:
        names = dict.fromkeys(_NAMES[name] for cell in unequal for name in cell.unequal)
        where = f"{len(unequal)} of {units.number_of(len(shared), 'common cell')}"
        blocks.append(Sentences("", [f"Not the same in {where}: {listed(list(names))}."], tone="doubt"))
        blocks.append(_exact_table(document, unequal))
    return Page(
        "exact",
        "Exact counts",
        "MACs, bytes and kept tokens do not depend on the machine. If they differ, the studies did other work.",
        blocks,
    )


# Sentences


def _unlike(document: SideBySide) -> list[Sentences]:
    """What is unlike, by what it is about; or that nothing is."""
    if not document.unlike:
        return [Sentences("", ["These studies have the same model, input, options, machine, versions and code."])]
    found: list[Sentences] = []
    for about, meaning in _ABOUT.items():
        if unlike := [one for one in document.unlike if one.about == about]:
            lines = [meaning, *(_difference(document, one) for one in unlike)]
            found.append(Sentences("Unlike: " + about, lines, tone="doubt"))
    return found


def _difference(document: SideBySide, unlike: StudyDifference) -> str:
    """How the studies differ in one field: `torch: 2.11.0 in A, 2.12.0 in B`."""
    told = [f"{value or 'not known'} in {side.name}" for side, value in zip(document.sides, unlike.values, strict=True)]
    return f"{unlike.name.replace('_', ' ')}: {', '.join(told)}."


def _ratio_sentences(document: SideBySide) -> Iterator[str]:
    """In how many cells each further study gains more, less, or no measurable difference."""
    first = document.sides[0].name
    for number, side in list(enumerate(document.sides))[1:]:
        ratios = [(cell, ratio) for cell in document.cells if (ratio := cell.prefill_ratios[number]) is not None]
        if not ratios:
            yield f"{side.name} and {first} have no timed cell in common."
            continue
        measurable = [one for one in ratios if entries.tone(one[1].ci95, 1)]
        more = sum(ratio.ci95[0] > 1 for _, ratio in measurable)
        less = len(measurable) - more
        cells = units.number_of(len(ratios), "common cell")
        if not measurable:
            yield f"Prefill speed-ups of {side.name} and {first} do not differ measurably in any of {cells}."
            continue
        farthest, ratio = max(measurable, key=lambda one: abs(log(one[1].value)))
        yield (
            f"Of {cells}, the prefill speed-up of {side.name} is larger than that of {first} in {more} and smaller in "
            f"{less}; farthest apart of these: {farthest.method} at {units.percent(farthest.nominal_retention)}, "
            f"{units.times_within(ratio.value, ratio.ci95)}."
        )


# Charts


def _charted(document: SideBySide) -> list[str]:
    """The methods with charts: trio, then those that most studies have finished at most retentions, controls last."""
    finished: Counter[str] = Counter()
    controls: set[str] = set()
    for one in document.cells:
        for cell in one.cells:
            if cell is not None and cell.status == "done":
                finished[one.method] += 1
                controls |= {one.method} if cell.remark == CONTROL else set()
    found = [method for method in document.methods if finished[method]]
    found.sort(key=lambda method: (method != "trio", method in controls, -finished[method]))
    return found[:MOST_CHARTS]


def _chart(
    document: SideBySide, method: str, id: str, caption: str, value: Callable[[CellSummary], Estimate | None]
) -> Chart:
    """One method: a line for each study."""
    answers = id == "answers"
    points: list[_Points] = [_points(document, method, number, value) for number in range(len(document.sides))]
    bounds = [bound for found in points for _, one in found for bound in one.ci95]
    low, high = min([1.0, *bounds]), max([1.0, *bounds])
    margin = 0.06 * (high - low) + 0.02
    return Chart(
        f"{id}-{document.methods.index(method)}",
        f"{caption}: {method}",
        f"{caption} of {method} by retention, a line for each study",
        RETENTION,
        RIGHT_ANSWERS if answers else Axis("Speed-up over dense", low - margin, high + margin, "×"),
        [_series(document, number, found, 100 if answers else 1) for number, found in enumerate(points) if found],
        levels=() if answers else (1.0,),
        detail=True,
    )


def _points(
    document: SideBySide, method: str, number: int, value: Callable[[CellSummary], Estimate | None]
) -> list[tuple[CellSummary, Estimate]]:
    cells = (one.cells[number] for one in document.cells if one.method == method)
    found = [(cell, estimate) for cell in cells if cell is not None and (estimate := value(cell)) is not None]
    return sorted(found, key=lambda point: point[0].realised)


def _series(document: SideBySide, number: int, points: _Points, scale: int) -> Series:
    name = document.sides[number].name
    low, high = ends([found.ci95 for _, found in points], scale)
    return Series(
        name,
        percents(cell.realised for cell, _ in points),
        [scale * found.value for _, found in points],
        [f"{name}, {cell.method} at {units.percent(cell.realised)}\n{_told(found)}" for cell, found in points],
        low,
        high,
        colour=number,
        width=2.5,
        group=name,
    )


def _told(found: Estimate) -> str:
    if isinstance(found, Accuracy):
        return f"{units.percent_within(found.value, found.ci95)} of {units.number_of(found.samples, 'question')}"
    return f"{units.times_within(found.value, found.ci95)}, {units.number_of(found.samples, 'pair')}"


# Tables


def _speedup_table(document: SideBySide) -> Table:
    names = [side.name for side in document.sides]
    columns = [*names, *(f"{name} / {names[0]}" for name in names[1:])]
    marked = sides.marks(document)
    rows = [
        [
            *_head(cell),
            *_in_each_study(cell, "prefill speed-up", marked),
            *map(entries.speedup, cell.prefill_ratios[1:]),
            *_in_each_study(cell, "total speed-up", marked),
            *map(entries.speedup, cell.total_ratios[1:]),
        ]
        for cell in document.cells
    ]
    return Table(
        "Speed-ups over dense, and their ratio",
        ("Method", "Retention", *columns, *columns),
        rows,
        (("", 2), ("Prefill", len(columns)), ("Total", len(columns))),
        keys=2,
        first=2 + len(columns),
    )


def _head(cell: SideCell) -> list[Entry]:
    retention = cell.nominal_retention
    return [Entry(cell.method), Entry(units.percent(retention), order=retention)]


def _in_each_study(cell: SideCell, column: str, marked: Sequence[Mapping[str, str]]) -> Iterator[Entry]:
    """One column of a cell in each study, with the doubts of this study about it.

    column: one of COLUMNS.
    marked: why the doubted cells of each study are doubted, by their ids.
    """
    for found, doubts in zip(cell.cells, marked, strict=True):
        if found is None:
            yield entries.NOTHING
        elif found.status != "done":
            yield Entry(found.status, title=found.reason or "", tone="absent")
        else:
            entry = COLUMNS[column].entry(found, None)
            yield entry if entry == entries.NOTHING else replace(entry, doubt=doubts.get(found.cell.id, ""))


def _answers_table(document: SideBySide) -> Table:
    names = [side.name for side in document.sides]
    dense = [side.dense.accuracy if side.dense is not None else None for side in document.sides]
    rows = [[Entry("dense"), entries.NOTHING, *map(entries.share, dense), *[entries.NOTHING] * (len(names) - 1)]]
    marked = sides.marks(document)
    rows += [
        [
            *_head(cell),
            *_in_each_study(cell, "right within", marked),
            *map(entries.points, cell.accuracy_differences[1:]),
        ]
        for cell in document.cells
    ]
    columns = ("Method", "Retention", *names, *(f"{name} − {names[0]}" for name in names[1:]))
    return Table("Questions answered right, and differences in points", columns, rows, keys=2)


def _exact_table(document: SideBySide, unequal: Sequence[SideCell]) -> Table:
    rows = [
        [*_head(cell), Entry(_NAMES[name]), *(_exact(one, name) for one in cell.cells)]
        for cell in unequal
        for name in cell.unequal
    ]
    columns = ("Method", "Retention", "quantity", *(side.name for side in document.sides))
    return Table("Exact counts that differ", columns, rows, keys=3)


def _exact(cell: CellSummary | None, name: str) -> Entry:
    value = None if cell is None else getattr(cell, name)
    if value is None:
        return entries.NOTHING
    if isinstance(value, tuple):
        return Entry(", ".join(map(str, value)))
    return Entry(units.exact(value), order=value)
