"""The doubts about a study: the report of `check`, and the page and the sentence in the report of the study."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby

from trio_profile import units
from trio_profile.analysis.doubt import Doubt, cell_name, doubted_cells
from trio_profile.analysis.pairs import CellPairs
from trio_profile.findings.blocks import Axis, Block, Chart, Entry, Page, Report, Sentences, Series, Table
from trio_profile.records.schema import Cell, Measurement, Study

MOST_DRAWN = 24
"""The pairs of so many cells are drawn. measurements.jsonl and the data of the page have those of all."""
_HOW = (
    "Each doubt has a number, the threshold that it passed, and the next step. A doubt about the whole study is about "
    "all of its cells."
)
_SCOPE = "An interval covers another run on this machine, not another machine."
_PUBLISHED = (
    f"{_HOW} A study is published with its doubts: to measure it again until no doubt is left would select the result."
)


def report(study: Study, measurements: Sequence[Measurement], doubts: Sequence[Doubt]) -> Report:
    """The report of the doubts about a study.

    doubts: in the order of the cells, those about the whole study first.
    """
    blocks = [Sentences("", [tally(measurements, doubts)])]
    for cell, group in groupby(doubts, key=lambda doubt: doubt.cell):
        blocks.append(Sentences(cell_name(cell), [_sentence(doubt) for doubt in group], tone="doubt"))
    page = Page("doubts", "Cells and their doubts", _HOW, blocks)
    return Report(
        subject="Doubts", preposition="about", model=study.model, facts=[", ".join(study.methods)], pages=[page]
    )


def tally(measurements: Sequence[Measurement], doubts: Sequence[Doubt]) -> str:
    """How many cells were measured, refused, failed and doubted, and how many doubts are about the whole study."""
    done = [measurement.cell for measurement in measurements if measurement.status == "done"]
    parts = [f"{units.number_of(len(done), 'cell')} measured"]
    counts = Counter(measurement.status for measurement in measurements)
    parts += [f"{units.exact(counts[status])} {status}" for status in ("refused", "failed") if counts[status]]
    whole = sum(doubt.cell is None for doubt in doubts)
    about = f"; {units.number_of(whole, 'doubt')} about the whole study" if whole else ""
    return f"{', '.join(parts)}: {len(doubted_cells(doubts, done))} doubted{' alone' if whole else ''}{about}."


def summary(doubts: Sequence[Doubt], cells: Collection[Cell]) -> str:
    """How many of some cells are doubted and why, in one sentence.

    cells: the finished cells that the sentence is about.
    """
    doubted = doubted_cells(doubts, cells)
    whole = ", ".join(dict.fromkeys(doubt.kind for doubt in doubts if doubt.cell is None))
    alone = "doubted alone" if whole else "doubted"
    told = f"No cell is {alone}"
    if doubted:
        verb = "is" if len(doubted) == 1 else "are"
        kinds = Counter(kind for found in doubted.values() for kind in found)
        named = ", ".join(f"{kind} ({count})" for kind, count in kinds.items())
        told = f"{len(doubted)} of {units.number_of(len(cells), 'cell')} {verb} {alone}: {named}"
    return f"{told}; doubts about the whole study: {whole}." if whole else f"{told}."


def marks(doubts: Sequence[Doubt], cells: Collection[Cell]) -> dict[str, str]:
    """The kinds of doubt about each doubted cell in words, by the cell's id. Tables mark these cells."""
    return {name: f"doubted: {', '.join(kinds)}" for name, kinds in doubted_cells(doubts, cells).items()}


def page(doubts: Sequence[Doubt], cells: Collection[Cell], pairs: Sequence[CellPairs], methods: Sequence[str]) -> Page:
    """The page of a study's doubts: those about the whole study, those about cells, and the raw pairs.

    cells: the finished cells of the study.
    methods: in the study's order, which gives them their colours.
    """
    blocks: list[Block] = [Sentences("", [summary(doubts, cells), _SCOPE], detail=True)]
    if whole := [_sentence(doubt) for doubt in doubts if doubt.cell is None]:
        blocks.append(Sentences(cell_name(None), whole, tone="doubt"))
    about = [doubt for doubt in doubts if doubt.cell is not None]
    if about:
        kinds = dict.fromkeys(doubt.kind for doubt in about)
        strongest = [_strongest([doubt for doubt in about if doubt.kind == kind]) for kind in kinds]
        blocks.append(Sentences("single cells, the strongest doubt of each kind", strongest, tone="doubt"))
        rows = [[Entry(cell_name(doubt.cell)), Entry(doubt.kind), Entry(doubt.sentence)] for doubt in about]
        blocks.append(
            Table("Every doubt about a cell", ("cell", "doubt", "what was found"), rows, prose=True, detail=True)
        )
    if pairs:
        blocks.append(raw_pairs(pairs, methods, doubted_cells(about, cells)))
    return Page("doubts", "Doubts", _PUBLISHED, blocks)


def raw_pairs(pairs: Sequence[CellPairs], methods: Sequence[str], doubted: Collection[str] = ()) -> Chart:
    """The speed-up of every pair of a cell in the order of measurement, for MOST_DRAWN cells.

    doubted: the ids of the cells with doubts. They are drawn first, and in colour.
    """
    ordered = sorted(pairs, key=lambda cell: _cell_of(cell).id not in doubted)
    shown = ordered[:MOST_DRAWN]
    loud = {_cell_of(cell).id for cell in shown if _cell_of(cell).id in doubted} or {_cell_of(shown[0]).id}
    series = [_pairs_of(cell, methods, quiet=_cell_of(cell).id not in loud) for cell in shown]
    most = max(len(one.x) for one in series)
    count = "each cell" if len(shown) == len(pairs) else f"{len(shown)} of {units.number_of(len(pairs), 'cell')}"
    return Chart(
        "pairs",
        "Every pair, in the order of measurement",
        f"Speed-up of the prefill in every pair of {count}, in the order of measurement. Doubted cells come first",
        Axis("Pair of the cell", 0, most + 1, digits=0),
        Axis("Prefill speed-up of one pair", suffix="×"),
        series,
        levels=(1.0,),
        picker=len(series) > 1,
        height=460,
        detail=True,
    )


def _cell_of(pairs: CellPairs) -> Cell:
    return Cell(method=pairs.method, retention=pairs.retention, options=pairs.options)


def _pairs_of(cell: CellPairs, methods: Sequence[str], *, quiet: bool) -> Series:
    """The pairs of one cell as points. A pair that other work disturbed is hollow."""
    ratios = [dense / pruned for dense, pruned in zip(cell.dense_prefill_ms, cell.prefill_ms, strict=True)]
    name = cell_name(_cell_of(cell))
    text = [
        f"{name}\npair {number}, session {session}: {units.times(ratio)}\n"
        f"dense {units.milliseconds(dense)}, pruned {units.milliseconds(pruned)}, "
        f"{'dense' if first else 'pruned'} first{', disturbed' if disturbed else ''}"
        for number, (ratio, session, dense, pruned, first, disturbed) in enumerate(
            zip(
                ratios,
                cell.session,
                cell.dense_prefill_ms,
                cell.prefill_ms,
                cell.dense_first,
                cell.disturbed,
                strict=True,
            ),
            start=1,
        )
    ]
    return Series(
        name,
        list(range(1, len(ratios) + 1)),
        ratios,
        text,
        colour=methods.index(cell.method) if cell.method in methods else None,
        line=None,
        hollow=[bool(disturbed) for disturbed in cell.disturbed],
        size=5,
        group=name,
        quiet=quiet,
    )


def _strongest(doubts: Sequence[Doubt]) -> str:
    """The doubt that is furthest from its threshold, with its cell and the number of further cells."""
    names = {doubt.cell.id for doubt in doubts if doubt.cell is not None}
    most = max(doubts, key=lambda doubt: abs(doubt.found - doubt.threshold))
    more = f" (and {units.number_of(len(names) - 1, 'more cell')})" if len(names) > 1 else ""
    return f"{cell_name(most.cell)}{more}: {_sentence(most)}"


def _sentence(doubt: Doubt) -> str:
    return f"{doubt.kind}: {doubt.sentence}. Next step: {doubt.next_step}."
