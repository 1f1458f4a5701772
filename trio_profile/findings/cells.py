"""The cells of a sweep: which are finished, where they lie, and what is derived from one cell alone."""

from collections.abc import Iterable, Sequence

from trio_profile.analysis.sweep import CellSummary, SweepDocument
from trio_profile.records.schema import Cell


def finished(document: SweepDocument, method: str) -> list[CellSummary]:
    """The finished cells of a method, least retention first."""
    done = [cell for cell in document.cells if cell.method == method and cell.status == "done" and cell.retention]
    return sorted(done, key=realised)


def finished_cells(document: SweepDocument) -> list[Cell]:
    """The finished cells of all methods, as records name them."""
    return [
        Cell(method=cell.method, retention=cell.nominal_retention) for cell in document.cells if cell.status == "done"
    ]


def any_finished(document: SweepDocument) -> bool:
    """Whether any cell is finished."""
    return any(cell.status == "done" for cell in document.cells)


def planned(document: SweepDocument) -> list[tuple[str, float, CellSummary | None]]:
    """Every cell of the study in its order: method, retention asked for, and what was measured, if anything."""
    seen = {(cell.method, cell.nominal_retention): cell for cell in document.cells}
    return [(cell.method, cell.retention, seen.get((cell.method, cell.retention))) for cell in document.study.cells()]


def realised(cell: CellSummary) -> float:
    """The retention that a cell really ran at; of a cell that never ran, the one that was asked for."""
    return cell.retention.realised if cell.retention else cell.nominal_retention


def notes(told: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """What readers must know of how prefills ran, each sentence once. told: what ran, with its notes."""
    return list(dict.fromkeys(f"{name}: {note}." for name, found in told for note in found))


def selection_share(cell: CellSummary) -> float | None:
    """The share of a cell's counted work that is selection."""
    if not cell.counted_macs or cell.selection_macs is None:
        return None
    return cell.selection_macs / cell.counted_macs


def without_selection(cell: CellSummary) -> int | None:
    """The counted MACs of a cell without those of its selection."""
    return None if cell.counted_macs is None else cell.counted_macs - (cell.selection_macs or 0)
