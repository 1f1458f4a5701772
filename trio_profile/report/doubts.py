"""The doubts about a study: the report of `show --doubts`, and the page and the sentence in the report of the study."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from trio_profile import units
from trio_profile.judge.doubts import Doubt, cell_name, doubted_cells
from trio_profile.records.schema import Cell, Measurement, Study
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Table
from trio_profile.text import are, capital

_HOW = "Each doubt has a number, the threshold that it passed, and the next step."
_PUBLISHED = f"{_HOW} A new study does not replace this one: publish both, each with its doubts."
"""How to read the doubts of a study."""


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
    """How many cells were measured, refused and failed, and the doubts."""
    done = [measurement.cell for measurement in measurements if measurement.status == "done"]
    parts = [f"{units.number_of(len(done), 'cell')} measured"]
    counts = Counter(measurement.status for measurement in measurements)
    parts += [f"{units.exact(counts[status])} {status}" for status in ("refused", "failed") if counts[status]]
    return f"{', '.join(parts)}. {summary(doubts, done)}"


def summary(doubts: Sequence[Doubt], cells: Collection[Cell]) -> str:
    """How many of some cells are doubted, and how many doubts there are about the whole study.

    cells: the finished cells that the text is about.
    """
    lines = []
    if doubted := doubted_cells(doubts, cells):
        lines.append(f"{units.exact(len(doubted))} of {units.number_of(len(cells), 'cell')} {are(doubted)} doubted.")
    if whole := [doubt for doubt in doubts if doubt.cell is None]:
        lines.append(f"{units.number_of(len(whole), 'doubt')} {are(whole)} about the whole study.")
    return " ".join(lines) or ("No cell is doubted." if cells else "Nothing is doubted.")


def marks(doubts: Sequence[Doubt], cells: Collection[Cell]) -> dict[str, str]:
    """The doubts about each doubted cell in words, by the cell's id. Tables mark these cells."""
    return {name: f"doubted: {'; '.join(sentences)}" for name, sentences in doubted_cells(doubts, cells).items()}


def page(doubts: Sequence[Doubt], cells: Collection[Cell] = ()) -> Page:
    """The page of a study's doubts: those about the whole study, and those about cells.

    cells: the finished cells of the study; empty for a study that has none.
    """
    blocks: list[Block] = [Sentences("", [summary(doubts, cells)], detail=True), *_blocks(doubts)]
    return Page("doubts", "Doubts", _PUBLISHED, blocks, folded="Show the doubts")


def _blocks(doubts: Sequence[Doubt]) -> Iterator[Block]:
    """Doubts in words: those about the whole study, the strongest one of each kind about a cell, and all of these."""
    if whole := [_sentence(doubt) for doubt in doubts if doubt.cell is None]:
        yield Sentences(cell_name(None), whole, tone="doubt")
    about = [doubt for doubt in doubts if doubt.cell is not None]
    if about:
        kinds = dict.fromkeys(doubt.kind for doubt in about)
        strongest = [_strongest([doubt for doubt in about if doubt.kind == kind]) for kind in kinds]
        yield Sentences("single cells, the strongest doubt of each kind", strongest, tone="doubt")
        rows = [[Entry(cell_name(doubt.cell)), Entry(doubt.sentence)] for doubt in about]
        yield Table("Every doubt about a cell", ("cell", "what was seen"), rows, prose=True, detail=True)


def _strongest(doubts: Sequence[Doubt]) -> str:
    """The doubt that is furthest from its threshold, with its cell and the number of further cells."""
    names = {doubt.cell.id for doubt in doubts if doubt.cell is not None}
    most = max(doubts, key=lambda doubt: abs(doubt.found - doubt.threshold))
    more = f" (and {units.number_of(len(names) - 1, 'more cell')})" if len(names) > 1 else ""
    return f"{cell_name(most.cell)}{more}: {_sentence(most)}"


def _sentence(doubt: Doubt) -> str:
    return f"{capital(doubt.sentence)}. Next step: {doubt.next_step}."
