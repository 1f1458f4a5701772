"""One prefill's work: the formula's figure, what the counters saw run, and every term between them."""

from decimal import Decimal

from trio_core.method import Method
from trio_profile import cost_model
from trio_profile.analysis.conventions import explain
from trio_profile.analysis.reconciliation import (
    Claimed,
    CountedTotals,
    CountedWork,
    FlopsDocument,
    Term,
    UncountedOp,
    reconcile,
)
from trio_profile.environment import collect
from trio_profile.profilers import flops_counted, flops_meta
from trio_profile.profilers.flops_counted import Breakdown
from trio_profile.schema import Retention, Shape, Study
from trio_profile.study import Planned, plan
from trio_profile.towers import DEAD_LAYER, vision_terms
from trio_profile.workload import Workload, build


def run(
    study: Study, *, dense: bool, causal: cost_model.Causal = "dense", claim: Decimal | None = None
) -> FlopsDocument:
    """Count the first cell of a study, or its dense model.

    On the meta device modules run without weights, and a method's choice is what it declares. causal: how the decoder's
    attention stands in the analytic total. claim: a printed figure whose convention is to be found.

    Raises StudyError for a model or an input that cannot be used, OptionError for a retention out of reach.
    """
    on_meta = study.device == "meta"
    workload = build(study, weights=not on_meta)
    shape = workload.shape
    cell = None if dense else plan(study, shape)[0]
    visual = (shape.visual_tokens,) * shape.num_layers if cell is None else cell.schedule.tokens_by_layer
    declared = 0 if cell is None else cell.selection_macs(shape)
    realised = cell and cell.schedule.layer_average
    if on_meta:
        seen = flops_meta.prefill(workload.adapter, workload.inputs, [n + shape.text_tokens for n in visual])
    else:
        seen, trace = flops_counted.prefill(workload, cell and cell.method)
        if trace is not None:
            visual, realised = trace.schedules[0].tokens_by_layer, trace.realised_retention
    known = vision_terms(workload.model, workload.inputs)
    walk = reconcile(
        shape,
        visual,
        overhead=0 if cell is None else cell.fastv_overhead_macs(shape, study.gamma),
        selection=declared,
        known=known,
        counted=CountedWork(
            macs=seen.macs + (declared if on_meta else 0),
            selection=None if on_meta else seen.selection_macs,
            modules=seen.modules,
        ),
    )
    vision = sum(sum(known[path].values()) if path in known else macs for path, macs in seen.modules.items())
    return FlopsDocument(
        environment=collect("cpu" if on_meta else study.device),
        study=study,
        method=None if cell is None else cell.cell.method,
        retention=cell and _retention(cell, realised),
        layers=() if cell is None else cell.schedule.layers,
        budgets=() if cell is None else cell.schedule.budgets,
        visual_tokens=shape.visual_tokens,
        text_tokens=shape.text_tokens,
        claimed=Claimed(fastv_macs=walk.claimed_macs),
        counted=_totals(workload, cell and cell.method, seen, walk.counted_macs, known, on_meta=on_meta),
        terms=walk.terms,
        residual_macs=walk.residual_macs,
        complete=not any(part.has_product for part in seen.uncounted),
        selection_counted=not on_meta,
        causal=causal,
        analytic_macs=walk.counted_macs - walk.residual_macs - _halved(shape, visual, causal),
        gamma=study.gamma,
        gamma_counted=_gamma(shape, cell, declared if on_meta else seen.selection_macs),
        uncounted=tuple(
            UncountedOp(op=part.op, calls=part.calls, output_bytes=part.output_bytes, product=part.has_product)
            for part in seen.uncounted
        ),
        conventions=() if claim is None else tuple(explain(claim, shape, vision)),
    )


def _retention(cell: Planned, realised: float | None) -> Retention:
    assert realised is not None
    schedule = cell.schedule
    return Retention(
        nominal=cell.cell.retention,
        layer_average=schedule.layer_average,
        final_layer=schedule.final_layer,
        realised=realised,
    )


def _totals(
    workload: Workload,
    method: Method | None,
    seen: Breakdown,
    macs: int,
    known: dict[str, cost_model.Terms],
    *,
    on_meta: bool,
) -> CountedTotals:
    """Both counters, and what fvcore's tracer leaves out: the choices, and a layer whose output nobody reads."""
    if on_meta:
        return CountedTotals(torch_flops=2 * macs, fvcore_reason="its tracer needs data, and the meta device has none")
    fvcore_macs, reason = flops_counted.fvcore(workload, method)
    if fvcore_macs is None:
        return CountedTotals(torch_flops=2 * macs, fvcore_reason=reason)
    left_out = {"selection: a tracer cannot follow a backward pass": seen.selection_macs}
    left_out |= {f"{path}: {DEAD_LAYER}": parts[DEAD_LAYER] for path, parts in known.items() if DEAD_LAYER in parts}
    terms = tuple(Term(name=name, macs=-part) for name, part in left_out.items() if part)
    residual = fvcore_macs - macs - sum(term.macs for term in terms)
    return CountedTotals(
        torch_flops=2 * macs, fvcore_macs=fvcore_macs, fvcore_terms=terms, fvcore_residual_macs=residual
    )


def _halved(shape: Shape, visual: tuple[int, ...], causal: cost_model.Causal) -> int:
    """What counting causal attention halved takes off the decoder."""
    tokens = [n + shape.text_tokens for n in visual]
    width = shape.query_width
    saved = (cost_model.attention_macs(n, width) - cost_model.attention_macs(n, width, causal) for n in tokens)
    return shape.batch * sum(saved)


def _gamma(shape: Shape, cell: Planned | None, selection_macs: int) -> float | None:
    """The choices' work over one forward of each layer that they looked at, text included."""
    if cell is None or not cell.stage_tokens:
        return None
    widths = (shape.hidden, shape.intermediate, shape.query_width, shape.kv_width, shape.ffn_matrices)
    forwards = sum(cost_model.layer_macs(n + shape.text_tokens, *widths) for n in cell.stage_tokens)
    return selection_macs / (shape.batch * forwards)
