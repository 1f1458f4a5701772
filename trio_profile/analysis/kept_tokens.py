"""The tokens that the cells of a study keep, on the study's picture."""

from collections.abc import Callable
from typing import TypeVar

from trio_profile.records.contents import Contents
from trio_profile.records.documents import StudyDocument
from trio_profile.records.schema import Cell, KeptTokens, Picture, Record

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


def token_maps(contents: Contents) -> TokenMaps | None:
    """Return the kept tokens of a study's finished cells. None if the study keeps no picture, as old ones do not."""
    picture = contents.picture
    if picture is None:
        return None
    seen = [contents.cells[cell.id] for cell in contents.study.cells() if cell.id in contents.cells]
    cells = tuple(
        CellTokens(cell=one.cell, realised=one.retention.realised if one.retention else None, kept=one.kept)
        for one in seen
        if one.kept is not None and one.kept.visual_tokens == picture.visual_tokens and one.status == "done"
    )
    return TokenMaps(picture=picture, cells=cells)


def document_of(make: Callable[..., Made], contents: Contents) -> Made:
    """Return the document of a store's contents, with the kept tokens of its cells. make: derives it from records."""
    document = make(
        contents.study,
        contents.environment,
        contents.dense,
        contents.measurements,
        sessions=contents.sessions,
        rounds=contents.rounds,
    )
    return document.model_copy(update={"tokens": token_maps(contents)})
