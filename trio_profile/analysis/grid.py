"""What the documents of sweeps, comparisons and ablations share: each is a grid of cells beside the dense model."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import Field

from trio_profile.analysis.cells import CellSummary, DenseSummary, summarise_dense
from trio_profile.analysis.doubts import Doubt, doubts
from trio_profile.analysis.pairs import CellPairs, pairs_of
from trio_profile.records.contents import Contents
from trio_profile.records.documents import StudyDocument
from trio_profile.records.schema import (
    Cell,
    Dense,
    Environment,
    KeptTokens,
    Measurement,
    Picture,
    Record,
    Round,
    Session,
    Study,
)

Made = TypeVar("Made", bound=StudyDocument)


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


def in_order(study: Study, measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the records of a study's cells in the study's order."""
    by_cell = {measurement.cell.id: measurement for measurement in measurements}
    return [by_cell[cell.id] for cell in study.cells() if cell.id in by_cell]


def fields_of(
    study: Study,
    environment: Environment,
    dense: Dense | None,
    ordered: Sequence[Measurement],
    sessions: Sequence[Session],
    rounds: Sequence[Round],
) -> dict[str, Any]:
    """Return the fields of a GridDocument.

    ordered: the records of the cells, in the study's order.
    sessions: in the order in which they began. rounds: in the order of measurement.
    """
    return {
        "sessions": tuple(sessions),
        "environment": environment,
        "study": study,
        "dense": summarise_dense(dense) if dense else None,
        "doubts": doubts(study, ordered, sessions, rounds),
        "pairs": pairs_of(ordered, sessions),
    }


def document_of(make: Callable[..., Made], contents: Contents) -> Made:
    """Return the document of a store's contents, with the kept tokens of its cells. make: derives it from records."""
    records = contents.study, contents.environment, contents.dense, contents.measurements
    document = make(*records, sessions=contents.sessions, rounds=contents.rounds)
    return document.model_copy(update={"tokens": token_maps(contents)})


def token_maps(contents: Contents) -> TokenMaps | None:
    """Return the kept tokens of a study's finished cells. None if the study keeps no picture, as old ones do not."""
    picture = contents.picture
    if picture is None:
        return None
    cells = tuple(
        CellTokens(cell=one.cell, realised=one.retention.realised if one.retention else None, kept=one.kept)
        for one in in_order(contents.study, list(contents.cells.values()))
        if one.kept is not None and one.kept.visual_tokens == picture.visual_tokens and one.status == "done"
    )
    return TokenMaps(picture=picture, cells=cells)
