"""Overhead factors of a method, and the paper's formula with each of them in place of γ."""

from dataclasses import replace
from typing import get_args

from trio_profile.cost import formula
from trio_profile.cost.factors import Factor, FormulaTotal, Gammas
from trio_profile.engine.plan import PlannedCell
from trio_profile.records.schema import Shape


def gammas(shape: Shape, cell: PlannedCell, assumed: float, counted: int | None) -> Gammas | None:
    """Return the assumed, the declared and the counted factor; None if no stage drops tokens.

    counted: the counted MACs of the selections; None if they did not run.
    """
    if not cell.stage_tokens:
        return None
    tokens = [n + shape.text_tokens for n in cell.stage_tokens]
    forwards = shape.batch * formula.decoder_macs(tokens, shape)

    def with_saliency(saliency: str) -> float | None:
        if "saliency" not in cell.method.option_names():
            return None
        return replace(cell, method=replace(cell.method, saliency=saliency)).selection_macs(shape) / forwards

    return Gammas(
        assumed=assumed,
        declared=cell.selection_macs(shape) / forwards,
        autograd=with_saliency("autograd"),
        tail=with_saliency("tail"),
        counted=None if counted is None else counted / forwards,
    )


def formula_totals(
    shape: Shape, cell: PlannedCell, gammas: Gammas | None, inference_macs: int
) -> tuple[FormulaTotal, ...]:
    """Return the work by the paper's formula with each overhead factor. Empty for a method without F_ov.

    gammas: the factors; None if no stage drops tokens.
    inference_macs: F_inf of the batch.
    """
    if gammas is None or not cell.fastv_overhead_macs(shape, gammas.assumed):
        return ()
    totals: list[FormulaTotal] = []
    for factor in get_args(Factor):
        if (value := getattr(gammas, factor)) is not None:
            total = inference_macs + cell.fastv_overhead_macs(shape, value)
            totals.append(FormulaTotal(factor=factor, value=value, fastv_macs=total, fastv_saved=saved(shape, total)))
    return tuple(totals)


def saved(shape: Shape, macs: int) -> float:
    """Return Saved of the paper: 1 − macs / (L · f(V0)). macs: F_total of the batch."""
    return 1 - macs / dense_macs(shape)


def dense_macs(shape: Shape) -> int:
    """Return L · f(V0) of the batch: the work of the dense prefill by the paper's formula."""
    tokens = (shape.visual_tokens,) * shape.num_layers
    return formula.fastv_inference(tokens, shape.hidden, shape.intermediate) * shape.batch
