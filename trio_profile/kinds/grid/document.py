"""Sweeps, comparisons and ablations have a grid as document: cells beside the dense model. Here is what they share."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from trio_profile.judge.doubts import Doubt, doubts
from trio_profile.judge.pairs import CellPairs, pairs_of
from trio_profile.kinds.grid.cells import CellSummary, DenseSummary, summarise_dense
from trio_profile.records.contents import Contents
from trio_profile.records.documents import StudyDocument
from trio_profile.records.schema import Cell, KeptTokens, Measurement, Picture, Record


class CellTokens(Record):
    """The tokens that one cell keeps.

    realised: the retention that the cell really ran at; None if it is not known.
    """

    cell: Cell
    realised: float | None
    kept: KeptTokens


class TokenMaps(Record):
    """The tokens that each cell keeps of the study's picture.

    cells: those with kept tokens of this picture, in the study's order. Empty if they cannot be placed on it.
    """

    picture: Picture
    cells: tuple[CellTokens, ...] = ()


class GridDocument(StudyDocument):
    """The cells of a study beside the dense model.

    dense: the dense model; None if it is not measured yet.
    doubts: the reasons not to trust numbers of the study, as `trio-profile show --doubts` prints them.
    tokens: the tokens that each cell keeps of the picture; None if the study has no picture. `--json` leaves them out,
        because they have hundreds of numbers for each stage; measurements.jsonl has them (docs/reference/format.md).
    pairs: the raw pairs of each cell. `--json` leaves them out; the page's data and `export --pairs` have them.
    report: path of report.html.
    """

    dense: DenseSummary | None
    doubts: list[Doubt] = Field(default_factory=list)
    tokens: TokenMaps | None = Field(default=None, exclude=True)
    pairs: list[CellPairs] = Field(default_factory=list, exclude=True)
    report: str | None = None

    @property
    def summaries(self) -> Sequence[CellSummary]:
        """All cells, in the order of the document."""
        raise NotImplementedError


def in_order(contents: Contents) -> list[Measurement]:
    """Return the records of a study's cells in the study's order."""
    by_cell = {measurement.cell.id: measurement for measurement in contents.measurements}
    return [by_cell[cell.id] for cell in contents.study.cells() if cell.id in by_cell]


def fields_of(contents: Contents) -> dict[str, Any]:
    """Return the fields of a GridDocument."""
    return {
        "sessions": tuple(contents.sessions),
        "environment": contents.environment,
        "study": contents.study,
        "dense": summarise_dense(contents.dense) if contents.dense else None,
        "doubts": doubts(contents),
        "tokens": token_maps(contents),
        "pairs": pairs_of(in_order(contents), contents.sessions),
    }


def token_maps(contents: Contents) -> TokenMaps | None:
    """Return the kept tokens of a study's finished cells. None if the study keeps no picture, as old ones do not."""
    picture = contents.picture
    if picture is None:
        return None
    cells = tuple(
        CellTokens(cell=cell.cell, realised=cell.retention.realised if cell.retention else None, kept=cell.kept)
        for cell in in_order(contents)
        if cell.kept is not None and cell.kept.visual_tokens == picture.visual_tokens and cell.status == "done"
    )
    return TokenMaps(picture=picture, cells=cells)
