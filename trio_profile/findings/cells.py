"""The cells of a study: which are finished, and where they lie."""

from collections.abc import Iterable, Sequence

from trio_profile.analysis.sweep import CellSummary, SweepDocument
from trio_profile.records.schema import Cell


def finished(document: SweepDocument, method: str) -> list[CellSummary]:
    """The finished cells of a method, least retention first."""
    done = [cell for cell in document.cells if cell.method == method and cell.status == "done" and cell.retention]
    return sorted(done, key=lambda cell: cell.realised)


def finished_cells(summaries: Iterable[CellSummary]) -> list[Cell]:
    """The finished cells, as records name them."""
    return [summary.cell for summary in summaries if summary.status == "done"]


def any_finished(document: SweepDocument) -> bool:
    """Whether any cell is finished."""
    return any(cell.status == "done" for cell in document.cells)


def planned(document: SweepDocument) -> list[tuple[Cell, CellSummary | None]]:
    """Every cell of the study in its order, and what was measured of it, if anything."""
    seen = {summary.cell.id: summary for summary in document.cells}
    return [(cell, seen.get(cell.id)) for cell in document.study.cells()]


def notes(told: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """What readers must know of how prefills ran, each sentence once. told: what ran, with its notes."""
    return list(dict.fromkeys(f"{name}: {note}." for name, found in told for note in found))
