"""The doubts about a study: the report of `show --doubts`, and the page and the sentence in the report of the study."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from trio_profile import units
from trio_profile.analysis.doubts import Doubt, cell_name, doubted_cells
from trio_profile.analysis.pairs import CellPairs
from trio_profile.findings.blocks import Axis, Block, Chart, Entry, Page, Report, Sentences, Series, Table, Upright
from trio_profile.records.schema import Cell, Measurement, Study

MOST_DRAWN = 24
"""The pairs of so many cells are drawn. measurements.jsonl and the data of the page have those of all."""
_HOW = "Each doubt has a number, the threshold that it passed, and the next step."
PUBLISHED = f"{_HOW} Publish a study with its doubts. To measure again until no doubt is left is to select the result."
"""How to read the doubts of a study."""
_SCOPE = "An interval covers another run on this machine, not another machine."
_SCOPE_OF_ONE = "An interval covers this run alone: another process may differ by more."
_BEGIN = 0.5
"""A session begins so far before its first pair on the axis of the chart."""


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
    """How many cells were measured, refused and failed, and what is doubted."""
    done = [measurement.cell for measurement in measurements if measurement.status == "done"]
    parts = [f"{units.number_of(len(done), 'cell')} measured"]
    counts = Counter(measurement.status for measurement in measurements)
    parts += [f"{units.exact(counts[status])} {status}" for status in ("refused", "failed") if counts[status]]
    return f"{', '.join(parts)}. {summary(doubts, done)}"


def summary(doubts: Sequence[Doubt], cells: Collection[Cell]) -> str:
    """How many of some cells are doubted and why, and the doubts about the whole study.

    cells: the finished cells that the text is about.
    """
    lines = []
    if doubted := doubted_cells(doubts, cells):
        kinds = Counter(kind for found in doubted.values() for kind in found)
        named = ", ".join(f"{kind} {units.exact(count)}" for kind, count in kinds.items())
        lines.append(f"Doubts about single cells: {len(doubted)} of {units.exact(len(cells))} ({named}).")
    if whole := dict.fromkeys(doubt.kind for doubt in doubts if doubt.cell is None):
        lines.append(f"Doubts about the whole study: {', '.join(whole)}.")
    return " ".join(lines) or "No cell is doubted."


def marks(doubts: Sequence[Doubt], cells: Collection[Cell]) -> dict[str, str]:
    """The kinds of doubt about each doubted cell in words, by the cell's id. Tables mark these cells."""
    return {name: f"doubted: {', '.join(kinds)}" for name, kinds in doubted_cells(doubts, cells).items()}


def page(doubts: Sequence[Doubt], cells: Collection[Cell], pairs: Sequence[CellPairs], methods: Sequence[str]) -> Page:
    """The page of a study's doubts: those about the whole study, those about cells, and the raw pairs.

    cells: the finished cells of the study.
    methods: in the study's order, which gives them their colours.
    """
    blocks: list[Block] = [Sentences("", [summary(doubts, cells), *_scope(pairs)], detail=True), *blocks_of(doubts)]
    if pairs:
        blocks.append(raw_pairs(pairs, methods, doubted_cells(doubts, cells)))
    return Page("doubts", "Doubts", PUBLISHED, blocks)


def blocks_of(doubts: Sequence[Doubt], name: str = "") -> Iterator[Block]:
    """Doubts in words: those about the whole study, the strongest one of each kind about a cell, and all of these.

    name: of the study, where a page has several.
    """
    of = f"{name}: " if name else ""
    if whole := [_sentence(doubt) for doubt in doubts if doubt.cell is None]:
        yield Sentences(of + cell_name(None), whole, tone="doubt")
    about = [doubt for doubt in doubts if doubt.cell is not None]
    if about:
        kinds = dict.fromkeys(doubt.kind for doubt in about)
        strongest = [_strongest([doubt for doubt in about if doubt.kind == kind]) for kind in kinds]
        yield Sentences(f"{of}single cells, the strongest doubt of each kind", strongest, tone="doubt")
        rows = [[Entry(cell_name(doubt.cell)), Entry(doubt.kind), Entry(doubt.sentence)] for doubt in about]
        columns = ("cell", "doubt", "what was found")
        caption = f"{of}every doubt about a cell" if of else "Every doubt about a cell"
        yield Table(caption, columns, rows, prose=True, detail=True)


def _scope(pairs: Sequence[CellPairs]) -> list[str]:
    """What the intervals cover: with one process of some cell, this run alone. Nothing where no pair was measured."""
    processes = min((len(set(cell.session)) for cell in pairs), default=0)
    return [] if not processes else [_SCOPE if processes > 1 else _SCOPE_OF_ONE]


def raw_pairs(pairs: Sequence[CellPairs], methods: Sequence[str], doubted: Collection[str] = ()) -> Chart:
    """The speed-up of every pair of a cell in the order of measurement, for MOST_DRAWN cells.

    A session begins at the same place for all of these cells, so that one line can mark it.

    doubted: the ids of the cells with doubts. They are drawn first, and in colour.
    """
    ordered = sorted(pairs, key=lambda cell: _cell_of(cell).id not in doubted)
    shown = ordered[:MOST_DRAWN]
    loud = {_cell_of(cell).id for cell in shown if _cell_of(cell).id in doubted} or {_cell_of(shown[0]).id}
    begins, end = _places(shown)
    all_drawn = len(shown) == len(pairs)
    count = "each cell" if all_drawn else f"{len(shown)} of {units.number_of(len(pairs), 'cell')}"
    some = f"Pairs of {count}, in the order of measurement. The doubted cells come first"
    return Chart(
        "pairs",
        "Every pair, in the order of measurement" if all_drawn else some,
        f"Speed-up of the prefill in every pair of {count}, in the order of measurement. A line stands where a session "
        "begins. Doubted cells come first",
        Axis("Pairs of the cell, session after session", 0, end, digits=0),
        Axis("Prefill speed-up of one pair", suffix="×"),
        [_pairs_of(cell, methods, begins, quiet=_cell_of(cell).id not in loud) for cell in shown],
        levels=(1.0,),
        uprights=[Upright(begin + _BEGIN, dash="dot") for begin in begins.values() if begin],
        picker=len(shown) > 1,
        height=460,
        detail=True,
    )


def _places(cells: Sequence[CellPairs]) -> tuple[dict[int, int], int]:
    """Where each session begins on the axis, and where the last one ends. A session is as long as its longest cell."""
    counts = [
        Counter(session for session, phase in zip(cell.session, cell.phase, strict=True) if phase == "prefill")
        for cell in cells
    ]
    begins, end = dict[int, int](), 0
    for session in sorted({session for count in counts for session in count}):
        begins[session] = end
        end += max(count[session] for count in counts)
    return begins, end + 1


def _cell_of(pairs: CellPairs) -> Cell:
    return Cell(method=pairs.method, retention=pairs.retention, options=pairs.options)


def _pairs_of(cell: CellPairs, methods: Sequence[str], begins: Mapping[int, int], *, quiet: bool) -> Series:
    """The pairs of one cell as points. A pair that other work disturbed is hollow.

    begins: where each session begins on the axis.
    """
    runs = [
        (session, dense, pruned, disturbed)
        for session, phase, dense, pruned, disturbed in zip(
            cell.session,
            cell.phase,
            cell.times["dense_prefill_ms"],
            cell.times["prefill_ms"],
            cell.disturbed,
            strict=True,
        )
        if phase == "prefill" and dense and pruned
    ]
    ratios = [dense / pruned for _, dense, pruned, _ in runs]
    name = cell_name(_cell_of(cell))
    within: Counter[int] = Counter()
    places, text = [], []
    for ratio, (session, dense, pruned, disturbed) in zip(ratios, runs, strict=True):
        within[session] += 1
        places.append(begins[session] + within[session])
        text.append(
            f"{name}\nsession {session}, round {within[session]}: {units.times(ratio)}\n"
            f"dense {units.milliseconds(dense)}, pruned {units.milliseconds(pruned)}{', disturbed' * bool(disturbed)}"
        )
    return Series(
        name,
        places,
        ratios,
        text,
        colour=methods.index(cell.method) if cell.method in methods else None,
        line=None,
        hollow=[bool(disturbed) for _, _, _, disturbed in runs],
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
