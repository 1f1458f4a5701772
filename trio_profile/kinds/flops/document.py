"""The document of `trio-profile flops`: the steps from the claimed work of one prefill to the counted work."""

from trio_profile import units
from trio_profile.cost.conventions import Match, figure, find
from trio_profile.cost.factors import FormulaTotal, Gammas
from trio_profile.cost.reconciliation import Operator, Term
from trio_profile.errors import StudyError
from trio_profile.judge.claims import of_work
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.documents import StudyDocument
from trio_profile.records.record import OneOrMore
from trio_profile.records.schema import Record, Retention, Study


class Claimed(Record):
    """The work by the paper's formula.

    fastv_macs: F_inf + F_ov for a pruned prefill; L · f(V0) for a dense prefill.
    fastv_saved: Saved of the paper, 1 − fastv_macs / (L · f(V0)); None for a dense prefill.
    """

    fastv_macs: OneOrMore
    fastv_saved: float | None = None


class CountedTotals(Record):
    """The totals of the two counters.

    torch_flops: the total of torch's counter.
    fvcore_macs: the total of fvcore; None if its tracer cannot follow the model.
    fvcore_reason: why the tracer cannot follow.
    fvcore_terms: the parts of torch's total that fvcore does not count.
    fvcore_residual_macs: the difference of the totals that these terms do not explain.
    """

    torch_flops: int
    fvcore_macs: int | None = None
    fvcore_reason: str | None = None
    fvcore_terms: tuple[Term, ...] = ()
    fvcore_residual_macs: int | None = None


class Decoding(Record):
    """The forwards after the prefill, one token each.

    steps: how many forwards.
    macs: their work by formula.
    counted_macs: their work as counted; None if they did not run.
    residual_macs: counted less formula; None if they did not run.
    """

    steps: int
    macs: int
    counted_macs: int | None
    residual_macs: int | None


class PrintedClaim(Record):
    """A printed figure that the user gave, and the steps from it to the counted work.

    figure: the printed number.
    convention: the code of the convention that it is compared with.
    terms: the steps.
    residual_macs: what the terms do not explain.
    """

    figure: int
    convention: str
    terms: tuple[Term, ...]
    residual_macs: int


class FlopsDocument(StudyDocument):
    """The output of `trio-profile flops --json`.

    method, retention: None for the dense model.
    layers, budgets: the schedule's stages, and the tokens kept at each.
    terms: the steps from the claim to the count.
    residual_macs: what the terms do not explain.
    complete: whether every operator with a product was counted.
    selection_counted: whether the selections ran and were counted. On the meta device nothing is selected, and the
        declared work stands in their place.
    analytic_macs: the claim and all terms together, with decoder attention counted as the study says.
    formula_totals: the paper's formula with each overhead factor; empty for a method without F_ov.
    decoding: the forwards after the prefill.
    ledger: every operator of the prefill that ran with a formula.
    uncounted: every operator of the prefill that ran without one.
    printed: the printed figure that the user gave; None without one.
    conventions: the conventions that give this figure.
    num_layers: layers of the decoder.
    report: path of report.html.
    """

    method: str | None
    retention: Retention | None
    layers: tuple[int, ...]
    budgets: tuple[int, ...]
    visual_tokens: int
    text_tokens: int
    claimed: Claimed
    counted: CountedTotals
    terms: tuple[Term, ...]
    residual_macs: int
    complete: bool
    selection_counted: bool
    analytic_macs: int
    gammas: Gammas | None
    formula_totals: tuple[FormulaTotal, ...] = ()
    decoding: Decoding
    ledger: tuple[Operator, ...]
    uncounted: tuple[Operator, ...]
    printed: PrintedClaim | None = None
    conventions: tuple[Match, ...] = ()
    num_layers: int
    report: str | None = None


def prepare(study: Study) -> Study:
    """Return the study with its method, which is trio by default. A study without a retention has no method.

    Raises StudyError if a method has no retention, or if a convention has no claimed figure.
    """
    if study.methods and not study.retentions:
        raise StudyError(f"method {study.methods[0]!r} prunes to a retention: give --retention too")
    if study.convention and study.claimed is None:
        raise StudyError(f"convention {study.convention!r} is for a printed figure: give --claimed too")
    if study.claimed is not None:
        figure(study.claimed)
    if study.convention is not None:
        find(study.convention)
    return study.model_copy(update={"methods": study.methods or ("trio",)}) if study.retentions else study


def conclude(document: FlopsDocument) -> Conclusion:
    """Return whether the claimed and the counted work were taken apart without a rest."""
    residual, printed, counted = document.residual_macs, document.printed, document.counted.torch_flops // 2
    claimed, terms = document.claimed.fastv_macs, document.terms
    if not residual and printed is not None and printed.residual_macs:
        claimed, terms, residual = printed.figure, printed.terms, printed.residual_macs
    return of_work(
        claimed=f"{units.count(claimed)} MACs",
        counted=f"{units.count(counted)} MACs",
        times=counted / claimed,
        terms=len(terms),
        residual=f"{units.exact(residual)} MACs" if residual else "",
        missed=[operator.op for operator in document.uncounted if operator.product],
        declared=not document.selection_counted and document.method is not None,
    )
