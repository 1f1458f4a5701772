"""Budgets: above which retention they no longer stand in one proportion, and which stages drop next to none.

A method whose budgets stand in a proportion keeps it until the first budget is all tokens. Above that retention it
keeps all tokens at the first stage, and more at the later ones.
"""

from collections.abc import Sequence
from itertools import pairwise

from trio_profile.analysis.cells import CellSummary
from trio_profile.records.schema import Record

FEW = 0.02
"""A stage that drops at most this share of its tokens drops next to none."""
OF_TRIO = (92, 54, 22)
"""The proportion of the paper's budgets."""
_NEAR = 0.03
"""How far budgets may be from the proportion, as a share of all tokens. Whole numbers must meet the average."""


class IdleStage(Record):
    """A stage that drops next to no tokens, but scores all of them; or one that drops none, and does not run.

    method, nominal_retention: of its cell.
    layer: the stage acts after this layer.
    tokens: the visual tokens that it looks at.
    dropped: how many of them it drops.
    """

    method: str
    nominal_retention: float
    layer: int
    tokens: int
    dropped: int


def idle_stages(cells: Sequence[CellSummary], visual_tokens: int) -> list[IdleStage]:
    """The stages of all cells that drop next to no tokens.

    A stage that drops none costs nothing. It counts only behind a stage before the decoder: there `clamped_above` does
    not speak of it.
    """
    found: list[IdleStage] = []
    for cell in cells:
        for layer, (before, kept) in zip(cell.layers, pairwise((visual_tokens, *cell.budgets)), strict=False):
            if (0 if cell.layers[0] == 0 < layer else 1) <= before - kept <= FEW * before:
                found.append(
                    IdleStage(
                        method=cell.method,
                        nominal_retention=cell.nominal_retention,
                        layer=layer,
                        tokens=before,
                        dropped=before - kept,
                    )
                )
    return found


def clamped_above(cells: Sequence[CellSummary], visual_tokens: int, num_layers: int) -> float | None:
    """The retention above which one method's budgets cannot keep their proportion, averaged over the layers.

    The largest budgets below it show the proportion. Without a cell below it, the paper's proportion is taken for TRIO.
    None if no cell lies above it, if the proportion is not known, or if the budgets follow another rule.

    cells: the finished cells of the method.
    """
    ladders = sorted((cell for cell in cells if len(cell.budgets) > 1 and cell.budgets[-1] > 1), key=_average)
    if not ladders:
        return None
    first = ladders[0]
    limit = _limit(first.layers, first.budgets, num_layers)
    below = [cell for cell in ladders if cell.budgets[0] < visual_tokens and _average(cell) < limit]
    if below:
        # The largest budgets show the proportion most exactly.
        layers, known = below[-1].layers, below[-1].budgets
    elif first.method.startswith("trio") and len(first.budgets) == len(OF_TRIO):
        layers, known = first.layers, OF_TRIO
    else:
        return None
    limit = _limit(layers, known, num_layers)
    above = [cell for cell in ladders if _average(cell) > limit]
    follow = all(_follows(cell, known, visual_tokens) for cell in ladders if cell.layers == layers)
    return limit if above and follow else None


def _limit(layers: Sequence[int], budgets: Sequence[int], num_layers: int) -> float:
    """The layer average at which the first budget would be all tokens, in the proportion of these budgets."""
    runs = [later - earlier for earlier, later in pairwise((*layers, num_layers))]
    shares = (budget / budgets[0] for budget in budgets)
    return (layers[0] + sum(run * share for run, share in zip(runs, shares, strict=True))) / num_layers


def _follows(cell: CellSummary, known: Sequence[int], visual_tokens: int) -> bool:
    """Whether a cell's budgets are the known ones times a factor, limited to all tokens."""
    factor = cell.budgets[-1] / known[-1]
    wanted = (min(visual_tokens, factor * budget) for budget in known)
    near = _NEAR * visual_tokens
    return all(abs(budget - want) <= near for budget, want in zip(cell.budgets, wanted, strict=True))


def _average(cell: CellSummary) -> float:
    return cell.retention.layer_average if cell.retention else cell.nominal_retention
