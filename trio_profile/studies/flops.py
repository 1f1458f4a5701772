"""One prefill's work: the formula's figure, what the counters saw run, and every term between them."""

from dataclasses import replace
from decimal import Decimal

from trio_core.methods.method import Method
from trio_core.pruning import prune
from trio_profile.cost import formula as cost_model
from trio_profile.cost.conventions import Convention, Prefill, explain, match
from trio_profile.cost.reconciliation import (
    Claimed,
    CountedOp,
    CountedTotals,
    CountedWork,
    Decoding,
    FlopsDocument,
    Gammas,
    PrintedClaim,
    Term,
    UncountedOp,
    reconcile,
)
from trio_profile.inputs.environment import collect
from trio_profile.inputs.towers import vision_terms
from trio_profile.inputs.workload import Workload, build
from trio_profile.profilers import flops_counted, flops_meta
from trio_profile.profilers.flops_counted import Breakdown
from trio_profile.records.schema import Retention, Shape, Study
from trio_profile.studies.plan import Planned, plan


def run(
    study: Study,
    *,
    dense: bool,
    causal: cost_model.Causal = "dense",
    claim: Decimal | None = None,
    convention: Convention | None = None,
) -> FlopsDocument:
    """Count the first cell of a study, or its dense model.

    On the meta device modules run without weights, and a method's choice is what it declares. causal: how the decoder's
    attention stands in the analytic total. claim: a printed figure for this prefill, whose convention is to be found;
    convention: the one that it is held against, whether or not it prints the figure.

    Raises StudyError for a model or an input that cannot be used, OptionError for a retention out of reach.
    """
    on_meta = study.device == "meta"
    workload = build(study, weights=not on_meta)
    shape = workload.shape
    cell = None if dense else plan(study, shape)[0]
    method = cell and cell.method
    visual = (shape.visual_tokens,) * shape.num_layers if cell is None else cell.schedule.tokens_by_layer
    declared = 0 if cell is None else cell.selection_macs(shape)
    realised = cell and cell.schedule.layer_average
    decoded = None
    if on_meta:
        if method is not None:
            with prune(workload.model, method):
                pass  # refuses what could not be pruned with weights either
        seen, decoded = flops_meta.count(
            workload.adapter, workload.inputs, [n + shape.text_tokens for n in visual], workload.new_tokens - 1
        )
    else:
        seen, trace = flops_counted.prefill(workload, method)
        decoded = flops_counted.decoding(workload, method, seen.macs)
        if trace is not None:
            visual, realised = trace.schedules[0].tokens_by_layer, trace.realised_retention
    known = vision_terms(workload.model, workload.inputs)
    prefill = Prefill(
        shape,
        visual,
        vision_macs=sum(sum(known[path].values()) if path in known else macs for path, macs in seen.modules.items()),
        overhead_macs=0 if cell is None else cell.fastv_overhead_macs(shape, study.gamma),
    )
    counted = CountedWork(
        macs=seen.macs + (declared if on_meta else 0),
        selection=None if on_meta else seen.selection_macs,
        modules=seen.modules,
    )
    walk = reconcile(prefill, selection=declared, known=known, counted=counted)
    matches = [] if claim is None else explain(claim, prefill)
    printed = None
    if claim is not None:
        held = match(claim, convention, prefill) if convention else matches[0]
        from_print = reconcile(
            prefill, selection=declared, known=known, counted=counted, convention=held.convention, figure=int(claim)
        )
        printed = PrintedClaim(
            figure=int(claim),
            convention=held.code,
            name=held.name,
            printed=held.printed,
            terms=from_print.terms,
            residual_macs=from_print.residual_macs,
        )
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
        counted=_totals(workload, method, seen, walk.counted_macs, on_meta=on_meta),
        terms=walk.terms,
        residual_macs=walk.residual_macs,
        complete=not any(part.has_product for part in seen.uncounted),
        selection_counted=not on_meta,
        causal=causal,
        analytic_macs=walk.counted_macs - walk.residual_macs - _halved(shape, visual, causal),
        gammas=cell and _gammas(shape, cell, study.gamma, None if on_meta else seen.selection_macs),
        decoding=_decoding(shape, visual, workload.new_tokens - 1, decoded),
        elements=_elements(shape, visual),
        ledger=tuple(
            CountedOp(op=part.op, calls=part.calls, flops=part.flops, formula=part.formula)
            for part in seen.operators
            if part.formula
        ),
        uncounted=tuple(
            UncountedOp(op=part.op, calls=part.calls, output_bytes=part.output_bytes, product=part.has_product)
            for part in seen.uncounted
        ),
        printed=printed,
        conventions=tuple(matches),
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


def _totals(workload: Workload, method: Method | None, seen: Breakdown, macs: int, *, on_meta: bool) -> CountedTotals:
    """Both counters, and what fvcore's tracer leaves out: the choices, and modules whose output nobody reads."""
    if on_meta:
        return CountedTotals(torch_flops=2 * macs, fvcore_reason="its tracer needs data, and the meta device has none")
    traced, reason = flops_counted.fvcore(workload, method)
    if traced is None:
        return CountedTotals(torch_flops=2 * macs, fvcore_reason=reason)
    left_out = {"selection: a tracer cannot follow a backward pass": seen.selection_macs}
    left_out |= {f"{path}: traced as dead, but it runs": part for path, part in traced.leaves_out(seen).items()}
    terms = tuple(Term(name=name, macs=-part) for name, part in left_out.items() if part)
    residual = traced.macs - macs - sum(term.macs for term in terms)
    return CountedTotals(
        torch_flops=2 * macs, fvcore_macs=traced.macs, fvcore_terms=terms, fvcore_residual_macs=residual
    )


def _halved(shape: Shape, visual: tuple[int, ...], causal: cost_model.Causal) -> int:
    """What counting causal attention halved takes off the decoder."""
    tokens = [n + shape.text_tokens for n in visual]
    width = shape.query_width
    saved = (cost_model.attention_macs(n, width) - cost_model.attention_macs(n, width, causal) for n in tokens)
    return shape.batch * sum(saved)


def _decoding(shape: Shape, visual: tuple[int, ...], steps: int, counted: int | None) -> Decoding:
    cached = [n + shape.text_tokens for n in visual]
    widths = (shape.hidden, shape.intermediate, shape.query_width, shape.kv_width, shape.ffn_matrices)
    macs = shape.batch * cost_model.decode_macs(cached, steps, *widths, shape.vocabulary)
    return Decoding(
        steps=steps, macs=macs, counted_macs=counted, residual_macs=None if counted is None else counted - macs
    )


def _elements(shape: Shape, visual: tuple[int, ...]) -> cost_model.Terms:
    widths = (shape.hidden, shape.intermediate, shape.query_width, shape.kv_width, shape.heads, shape.ffn_matrices)
    layers = [cost_model.layer_elements(n + shape.text_tokens, *widths) for n in visual]
    return {part: shape.batch * sum(layer[part] for layer in layers) for part in layers[0]}


def _gammas(shape: Shape, cell: Planned, assumed: float, counted: int | None) -> Gammas | None:
    """The work of the choices over one forward of each layer that they looked at: assumed, declared, seen."""
    if not cell.stage_tokens:
        return None
    widths = (shape.hidden, shape.intermediate, shape.query_width, shape.kv_width, shape.ffn_matrices)
    looked_at = [n + shape.text_tokens for n in cell.stage_tokens]
    forwards = shape.batch * cost_model.decoder_macs(looked_at, *widths)

    def by(saliency: str) -> float | None:
        if "saliency" not in cell.method.option_names():
            return None
        return replace(cell, method=replace(cell.method, saliency=saliency)).selection_macs(shape) / forwards

    return Gammas(
        assumed=assumed,
        declared=cell.selection_macs(shape) / forwards,
        autograd=by("autograd"),
        tail=by("tail"),
        counted=None if counted is None else counted / forwards,
    )
