"""The studies of a side-by-side report one by one: what each recommends, its doubts, and its sessions."""

from collections.abc import Iterator

from trio_profile.analysis.side_by_side import SideBySide
from trio_profile.findings import doubts, recommendation
from trio_profile.findings.blocks import Block, Confidence, Page, Sentences, Terms
from trio_profile.findings.cells import finished_cells
from trio_profile.findings.study_page import sessions_table
from trio_profile.records.schema import Cell, Environment

_WEAKEST_FIRST = ("low", "medium", "high")


def banner(document: SideBySide) -> str:
    """What must be known of the built-in models among the studies; empty if there are none."""
    found = (
        recommendation.banner(side.study.model, document.sessions_of(number))
        for number, side in enumerate(document.sides)
    )
    return " ".join(dict.fromkeys(text for text in found if text))


def confidence(document: SideBySide) -> Confidence | None:
    """The confidence of the weakest study, with the reasons of each; None if no study recommends anything."""
    badges = [(side.name, badge) for side in document.sides if (badge := recommendation.badge(side.recommendation))]
    if not badges:
        return None
    weakest = min((badge for _, badge in badges), key=lambda badge: _WEAKEST_FIRST.index(badge.level))
    return Confidence(weakest.level, ". ".join(f"{name}: {badge.level}, {badge.why}" for name, badge in badges))


def recommendations(document: SideBySide) -> Sentences:
    """What to do by each study."""
    lines = [f"{side.name}: {recommendation.block(side.recommendation).lines[0]}" for side in document.sides]
    return Sentences("What each study recommends", lines)


def doubts_page(document: SideBySide) -> Page:
    """The doubts of each study."""
    blocks: list[Block] = []
    for number, side in enumerate(document.sides):
        cells = _finished(document, number)
        blocks.append(Sentences(side.name, [doubts.summary(side.doubts, cells)], detail=True))
        blocks += doubts.blocks_of(side.doubts, side.name)
    return Page("doubts", "Doubts", doubts.PUBLISHED, blocks)


def marks(document: SideBySide) -> list[dict[str, str]]:
    """For each study why its doubted cells are doubted, by the cell's id."""
    return [doubts.marks(side.doubts, _finished(document, number)) for number, side in enumerate(document.sides)]


def studies_page(document: SideBySide) -> Page:
    """What was asked of each study, where it was measured, and each of its sessions."""
    blocks: list[Block] = []
    for number, side in enumerate(document.sides):
        blocks.append(Terms(side.name, list(_facts(document, number)), detail=True))
        blocks.append(sessions_table(document.sessions_of(number), f"Sessions of {side.name}"))
    return Page("studies", "The studies", "", blocks)


def device(where: Environment) -> str:
    """The name of the device that ran a study."""
    return where.cpu if where.device_name == "cpu" else where.device_name


def _finished(document: SideBySide, number: int) -> list[Cell]:
    """The finished cells of a study. number: of the study, from 0."""
    return finished_cells(found for cell in document.cells if (found := cell.cells[number]) is not None)


def _facts(document: SideBySide, number: int) -> Iterator[tuple[str, str]]:
    side = document.sides[number]
    study, where = side.study, side.environment
    yield "model", study.model
    yield "methods", ", ".join(study.methods)
    yield "device", f"{device(where)}, {study.dtype}, {study.attention} attention"
    yield "host", where.hostname
    yield "torch, transformers", f"{where.torch}, {where.transformers}"
    if side.code:
        yield "code", ", ".join(side.code)
    if side.dense is not None:
        yield "tokens", f"{side.dense.visual_tokens} visual, {side.dense.text_tokens} of text"
