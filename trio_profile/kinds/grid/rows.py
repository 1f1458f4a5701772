"""The rows of a grid, for spreadsheets and data frames: one row a cell, or one row a pair."""

from collections import Counter
from collections.abc import Sequence

from trio_profile.judge.doubts import Doubt, doubted_cells
from trio_profile.judge.pairs import COLUMNS
from trio_profile.kinds.grid.document import GridDocument
from trio_profile.quantities.summary import CellSummary, DenseSummary
from trio_profile.study.table_rows import Flat, filled, flat, of_study, text_of


def cell_rows(document: GridDocument) -> list[Flat]:
    """Return the cells of a document: one row a cell, also for those that failed."""
    groups = {id(row): group.name for group in getattr(document, "groups", ()) for row in group.rows}
    named = [({"group": groups[id(cell)]} if groups else {}, cell) for cell in document.summaries]
    return filled([{**group, **_cell_row(document, cell)} for group, cell in named])


def pair_rows(document: GridDocument) -> list[Flat]:
    """Return the raw pairs of a document: one row a pair, in the order of measurement within each cell and session."""
    rows: list[Flat] = []
    for cell in document.pairs:
        of_cell = {"method": cell.method, "retention": cell.retention, "options": text_of(cell.options)}
        numbers: Counter[tuple[int, str]] = Counter()
        for place, (session, phase) in enumerate(zip(cell.session, cell.phase, strict=True)):
            numbers[session, phase] += 1
            rows.append(
                {
                    **of_study(document.study),
                    **of_cell,
                    "session": session,
                    "phase": phase,
                    "pair": numbers[session, phase],
                    **{name: cell.times[name][place] if name in cell.times else None for name in COLUMNS},
                    "clock_mhz": None if cell.clock_mhz is None else cell.clock_mhz[place],
                    "disturbed": cell.disturbed[place],
                }
            )
    return rows


def _cell_row(document: GridDocument, cell: CellSummary) -> Flat:
    """One cell: what was asked, where, the cell's own quantities, and the dense model's."""
    speedup, agreement = cell.prefill_speedup, cell.top1_agreement
    return {
        "kind": document.study.verb,
        **of_study(document.study),
        "device_name": document.environment.device_name,
        "commit": document.environment.commit,
        "pairs": None if speedup is None else speedup.samples,
        "processes": None if speedup is None else speedup.sessions,
        "stopped": None if speedup is None else speedup.stopped,
        "questions": None if agreement is None else agreement.samples,
        "doubts": _doubts(document.doubts, cell),
        **flat(type(cell), cell),
        **flat(DenseSummary, document.dense, "dense_"),
    }


def _doubts(doubts: Sequence[Doubt], cell: CellSummary) -> str:
    """The kinds of doubt about a cell, and those about the whole study."""
    own = doubted_cells(doubts, [cell.cell]).get(cell.cell.id, ())
    return " ".join(dict.fromkeys([*own, *(doubt.kind for doubt in doubts if doubt.cell is None)]))
