"""From a claimed figure to the counted one, term by term, with nothing left over.

Pure integers, in MACs: the claim is the paper's f(n), the terms are the model's configuration and the method's declared
cost, the count is what ran. A module that no formula knows stands as a term of its own, as counted.
"""

from collections.abc import Mapping

from trio_profile.cost import formula as cost_model
from trio_profile.cost.conventions import PAPER, Convention, Match, Prefill, Printed, steps
from trio_profile.records.schema import FORMAT, VERSION, Environment, Record, Retention, Study


class Term(Record):
    """One step of the walk: what it is called, and how many MACs it adds."""

    name: str
    macs: int


class CountedWork(Record):
    """What ran, in MACs.

    macs: all of it. selection: inside the choices, None where nothing chose (the meta device) and the declared figure
    is part of `macs`. modules: everything beside decoder and head, by path.
    """

    macs: int
    selection: int | None
    modules: dict[str, int]


class Reconciliation(Record):
    """The walk from `claimed_macs` to `counted_macs`; what the terms do not explain is the residual."""

    claimed_macs: int
    terms: tuple[Term, ...]
    counted_macs: int
    residual_macs: int


def reconcile(
    prefill: Prefill,
    *,
    selection: int,
    known: Mapping[str, Mapping[str, int]],
    counted: CountedWork,
    convention: Convention = PAPER,
    figure: int | None = None,
) -> Reconciliation:
    """Walk from a convention's figure, by default the paper's F_inf + F_ov, to what ran.

    selection: the choices as the method declares them, for the batch. known: terms by module path, from configuration.
    figure: what is printed in place of the convention's own value; the difference is the walk's first term.
    """
    value = convention.value(prefill)
    claimed = value if figure is None else figure
    terms = [("print: its rounding, or what no convention explains", value - claimed), *steps(convention, prefill)]
    for module, parts in known.items():
        terms.extend((f"{module}: {part}", macs) for part, macs in parts.items())
    for module, macs in counted.modules.items():
        if module not in known:
            terms.append((f"{module}: no formula, as counted", macs))
    terms.append(("selection, as declared", selection))
    if counted.selection is not None:
        terms.append(("selection, counted less declared", counted.selection - selection))
    named = tuple(Term(name=name, macs=macs) for name, macs in terms if macs)
    explained = claimed + sum(term.macs for term in named)
    return Reconciliation(
        claimed_macs=claimed, terms=named, counted_macs=counted.macs, residual_macs=counted.macs - explained
    )


class CountedOp(Record):
    """An operator that ran with a formula: whose it is, `torch` or `trio-profile`, and what it gave in all calls."""

    op: str
    calls: int
    flops: int
    formula: str


class UncountedOp(Record):
    """An operator that ran without a formula. product: it may multiply matrices, and no total is whole without it."""

    op: str
    calls: int
    output_bytes: int
    product: bool


class Decoding(Record):
    """The forwards after the prefill, one token each: by formula, and as counted where they ran."""

    steps: int
    macs: int
    counted_macs: int | None
    residual_macs: int | None


class Gammas(Record):
    """γ, the work of the choices over one forward of each layer that they looked at, text included.

    assumed: by the claim, of a backward. declared: by the method's own formula. autograd, tail: what TRIO would take by
    the paper's procedure and by ours. counted: what ran.
    """

    assumed: float
    declared: float
    autograd: float | None = None
    tail: float | None = None
    counted: float | None = None


class PrintedClaim(Record):
    """A printed figure, the convention that it is held against, and the walk from it to the count."""

    figure: int
    convention: str
    name: str
    printed: Printed
    terms: tuple[Term, ...]
    residual_macs: int


class Claimed(Record):
    """The paper's figure: F_inf + F_ov for a pruned prefill, L · f(V0) for a dense one."""

    fastv_macs: int


class CountedTotals(Record):
    """What the counters saw. fvcore_macs: None with the reason where its tracer cannot follow.

    fvcore_terms: what fvcore leaves out of torch's count, by name; fvcore_residual_macs: what they do not explain.
    """

    torch_flops: int
    fvcore_macs: int | None = None
    fvcore_reason: str | None = None
    fvcore_terms: tuple[Term, ...] = ()
    fvcore_residual_macs: int | None = None


class FlopsDocument(Record):
    """One prefill's work, from the claim to the count. retention: None for the dense model.

    complete: no operator with a product ran uncounted. selection_counted: the choices ran and were counted; on the meta
    device nothing is chosen, and they stand as declared. analytic_macs: claim and terms together, decoder attention as
    `causal` has it. ledger, uncounted: every operator of the prefill that was dispatched, with a formula and without.
    elements: what the decoder's layers make without a product, by part; no convention in use counts it.
    printed: with a claim of the user's, that claim. conventions: those that print it.
    """

    format: str = FORMAT
    version: int = VERSION
    environment: Environment
    study: Study
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
    causal: cost_model.Causal
    analytic_macs: int
    gammas: Gammas | None
    decoding: Decoding
    elements: dict[str, int]
    ledger: tuple[CountedOp, ...]
    uncounted: tuple[UncountedOp, ...]
    printed: PrintedClaim | None = None
    conventions: tuple[Match, ...] = ()
    report: str | None = None
