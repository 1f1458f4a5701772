"""The kind `flops`: the claimed work of one prefill, the counted work, and the terms between them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trio_core.errors import TrioError, UnsupportedInput
from trio_core.pruning import check_prunable
from trio_core.trace import Trace
from trio_profile.cost import formula
from trio_profile.cost.conventions import (
    PAPER,
    Match,
    OtherCount,
    Prefill,
    explain_counts,
    figure,
    find,
    match,
    prefill_of,
)
from trio_profile.cost.reconciliation import CountedWork, Term, reconcile
from trio_profile.engine import factors
from trio_profile.engine.plan import PlannedCell, plan_cell, resolve
from trio_profile.inputs.claims.facts import known_counts
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.picture import lay_out
from trio_profile.inputs.towers import vision_terms
from trio_profile.inputs.workload import Workload
from trio_profile.kinds.flops.document import Claimed, CountedTotals, Decoding, FlopsDocument, PrintedClaim
from trio_profile.profilers import flops_counted
from trio_profile.profilers.flops_counted import Breakdown
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.schema import Shape, Study


@dataclass(frozen=True)
class CountedPrefill:
    """The counts of one prefill. On the meta device the modules run without weights and compute nothing.

    cell: the cell; None for the dense model.
    breakdown: the counted work by operator and module.
    visual: the visual tokens that each layer ran on.
    realised: the realised retention; None for the dense model.
    trace: pruning's; None for the dense model, and on the meta device.
    decoded: counted MACs of decoding; None if nothing was decoded.
    known: MACs that follow from the configuration, by module path and name of the term.
    on_meta: whether it is on the meta device.
    """

    cell: PlannedCell | None
    workload: Workload
    breakdown: Breakdown
    visual: tuple[int, ...]
    realised: float | None
    trace: Trace | None
    decoded: int | None
    known: Mapping[str, Mapping[str, int]]
    on_meta: bool

    @property
    def declared(self) -> int:
        """The MACs of the selections by the method's own formula."""
        return 0 if self.cell is None else self.cell.selection_macs(self.workload.shape)

    @property
    def counted(self) -> CountedWork:
        """The counted work. On the meta device no selection runs, so its declared work is added."""
        breakdown = self.breakdown
        return CountedWork(
            macs=breakdown.macs + (self.declared if self.on_meta else 0),
            selection=None if self.on_meta else breakdown.selection_macs,
            modules=breakdown.modules,
        )

    def prefill(self, gamma: float) -> Prefill:
        """Return the prefill to which conventions are applied. gamma: the backward factor γ."""
        known = self.known
        return Prefill(
            self.workload.shape,
            self.visual,
            vision_macs=sum(
                sum(known[path].values()) if path in known else macs for path, macs in self.breakdown.modules.items()
            ),
            overhead_macs=0 if self.cell is None else self.cell.fastv_overhead_macs(self.workload.shape, gamma),
        )


def run(study: Study, directory: Path | None = None, watch: Watch = ignore) -> FlopsDocument:  # noqa: ARG001
    """Count one prefill of the study's cell. A study without a retention counts the dense model.

    On the meta device the modules run without weights, and the selections have their declared work.
    Raises StudyError if the model or the input cannot be used. Raises OptionError if no schedule reaches the retention.
    """
    watch(Step(f"loading {study.model}"))
    plan = resolve(study, weights=study.device != "meta")
    cell = plan.cells[0] if plan.cells else None
    session = open_session("cpu" if study.device == "meta" else study.device, inputs=input_digests(study))
    watch(Step(f"counting one prefill of {study.model}"))
    counts = _count(plan.workload, cell, on_meta=study.device == "meta")
    prefill = counts.prefill(study.gamma)
    walk = reconcile(prefill, selection=counts.declared, known=counts.known, counted=counts.counted)
    shape, operators = plan.workload.shape, counts.breakdown.operators
    gammas = None if cell is None else factors.gammas(shape, cell, study.gamma, counts.counted.selection)
    inference = PAPER.value(prefill) - prefill.overhead_macs
    matches, printed = _printed(study, counts, prefill)
    return FlopsDocument(
        sessions=(session,),
        environment=session.environment,
        study=study,
        method=None if cell is None else cell.cell.method,
        retention=None if cell is None or counts.realised is None else cell.retention(counts.realised),
        layers=() if cell is None else cell.schedule.layers,
        budgets=() if cell is None else cell.schedule.budgets,
        visual_tokens=shape.visual_tokens,
        text_tokens=shape.text_tokens,
        num_layers=shape.num_layers,
        claimed=Claimed(
            fastv_macs=walk.claimed_macs, fastv_saved=None if cell is None else factors.saved(shape, walk.claimed_macs)
        ),
        counted=_totals(counts, walk.counted_macs),
        terms=walk.terms,
        residual_macs=walk.residual_macs,
        complete=not any(part.product and not part.formula for part in operators),
        selection_counted=not counts.on_meta,
        analytic_macs=walk.counted_macs - walk.residual_macs - _halved(shape, counts.visual, study.causal),
        gammas=gammas,
        formula_totals=() if cell is None else factors.formula_totals(shape, cell, gammas, inference),
        decoding=_decoding(shape, counts.visual, plan.workload.new_tokens - 1, counts.decoded),
        ledger=tuple(part for part in operators if part.formula),
        uncounted=tuple(part for part in operators if not part.formula),
        printed=printed,
        conventions=tuple(matches),
    )


def _count(workload: Workload, cell: PlannedCell | None, *, on_meta: bool) -> CountedPrefill:
    """Count one prefill. cell: None for the dense model."""
    shape, method = workload.shape, cell and cell.method
    visual = (shape.visual_tokens,) * shape.num_layers if cell is None else cell.schedule.tokens_by_layer
    realised, trace = cell and cell.schedule.layer_average, None
    if on_meta:
        if method is not None:
            check_prunable(workload.model, method)
            if method.thins_tower:
                raise UnsupportedInput(
                    f"device meta: method {method.name!r} chooses by pixels which patches enter the vision tower, and "
                    "meta has no pixels; count on the cpu"
                )
        tokens = [n + shape.text_tokens for n in visual]
        breakdown, decoded = flops_counted.on_meta(workload.adapter, workload.inputs, tokens, workload.new_tokens - 1)
    else:
        breakdown, trace = flops_counted.prefill(workload, method)
        decoded = flops_counted.decoding(workload, method, breakdown.macs)
        if trace is not None:
            visual, realised = trace.schedules[0].tokens_by_layer, trace.realised_retention
    thinned = method is not None and method.thins_tower  # then the tower counts as it ran
    known = {} if thinned else vision_terms(workload.model, workload.inputs)
    return CountedPrefill(cell, workload, breakdown, visual, realised, trace, decoded, known, on_meta)


def _printed(study: Study, counts: CountedPrefill, prefill: Prefill) -> tuple[list[Match], PrintedClaim | None]:
    """Return the conventions that give the claimed figure, and the steps from the figure to the counted work."""
    if study.claimed is None:
        return [], None
    claim = figure(study.claimed)
    others = _other_counts(counts.workload, study, prefill, counts.cell)
    matches = explain_counts(claim, prefill, others, study.gamma)
    convention_match = match(claim, find(study.convention), prefill) if study.convention else matches[0]
    counted_for = prefill_of(convention_match, prefill, others)
    walk = reconcile(
        prefill,
        selection=counts.declared,
        known=counts.known,
        counted=counts.counted,
        convention=convention_match.convention,
        figure=int(claim.value),
        counted_for=None if counted_for is prefill else counted_for,
    )
    return matches, PrintedClaim(
        figure=int(claim.value),
        convention=convention_match.code,
        terms=walk.terms,
        residual_macs=walk.residual_macs,
    )


def _other_counts(workload: Workload, study: Study, prefill: Prefill, cell: PlannedCell | None) -> list[OtherCount]:
    """Return the same prefill with each other number of visual tokens in use. A printed figure may count one of them.

    cell: with the method of the prefill; None for the dense model. A number that its schedule refuses is left out.
    """
    others: list[OtherCount] = []
    for tokens, sources in _count_sources(workload).items():
        if tokens == workload.shape.visual_tokens:
            continue
        shape = prefill.shape.model_copy(update={"visual_tokens": tokens})
        visual, overhead = (tokens,) * shape.num_layers, 0
        if cell is not None:
            try:
                other = plan_cell(cell.cell, study, shape)
            except TrioError:
                continue
            visual, overhead = other.schedule.tokens_by_layer, other.fastv_overhead_macs(shape, study.gamma)
        same = replace(prefill, shape=shape, visual_by_layer=visual, overhead_macs=overhead)
        others.append(OtherCount(same, "; ".join(sources)))
    return others


def _count_sources(workload: Workload) -> dict[int, list[str]]:
    """Return who counts so, by the number: the picture without line ends, its base crop alone, or as papers count."""
    by_number: dict[int, list[str]] = {}
    layout = lay_out(workload.adapter, workload.inputs)
    if layout is not None and (line_ends := sum(grid.rows for grid in layout.grids if grid.newline)):
        by_number[workload.shape.visual_tokens - line_ends] = [f"the picture without its {line_ends} line ends"]
        base = layout.grids[0]
        by_number.setdefault(base.rows * base.columns, []).append("its base crop alone")
    for tokens, sources in known_counts(workload.shape).items():
        by_number.setdefault(tokens, []).extend(sources)
    return by_number


def _totals(counts: CountedPrefill, macs: int) -> CountedTotals:
    """Return the totals of both counters. fvcore leaves out the selections, and modules whose output is never used.

    macs: the total of torch's counter.
    """
    if counts.on_meta:
        return CountedTotals(torch_flops=2 * macs, fvcore_reason="its tracer needs data, and the meta device has none")
    traced, reason = flops_counted.fvcore(counts.workload, counts.cell and counts.cell.method, counts.trace)
    if traced is None:
        return CountedTotals(torch_flops=2 * macs, fvcore_reason=reason)
    left_out = {"selection: a tracer cannot follow a backward pass": counts.breakdown.selection_macs}
    for path, part in traced.leaves_out(counts.breakdown).items():
        left_out[f"{path}: traced as dead, but it runs"] = part
    terms = tuple(Term(name=name, macs=-part) for name, part in left_out.items() if part)
    residual = traced.macs - macs - sum(term.macs for term in terms)
    return CountedTotals(
        torch_flops=2 * macs, fvcore_macs=traced.macs, fvcore_terms=terms, fvcore_residual_macs=residual
    )


def _halved(shape: Shape, visual: tuple[int, ...], causal: formula.Causal) -> int:
    """Return the MACs that the decoder loses if causal attention is counted as half. visual: tokens of each layer."""
    tokens = [n + shape.text_tokens for n in visual]
    width = shape.query_width
    saved = (formula.attention_macs(n, width) - formula.attention_macs(n, width, causal) for n in tokens)
    return shape.batch * sum(saved)


def _decoding(shape: Shape, visual: tuple[int, ...], steps: int, counted: int | None) -> Decoding:
    """Return the work of the forwards after the prefill, by formula and as counted."""
    cached = [n + shape.text_tokens for n in visual]
    macs = shape.batch * formula.decode_macs(cached, steps, shape)
    return Decoding(
        steps=steps, macs=macs, counted_macs=counted, residual_macs=None if counted is None else counted - macs
    )
