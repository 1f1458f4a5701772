"""From a claimed figure to the counted one, term by term, with nothing left over.

Pure integers, in MACs: the claim is the paper's f(n), the terms are the model's configuration and the method's declared
cost, the count is what ran. A module that no formula knows stands as a term of its own, as counted.
"""

from collections.abc import Mapping, Sequence

from trio_profile import cost_model
from trio_profile.analysis.conventions import Match
from trio_profile.schema import FORMAT, VERSION, Environment, Record, Retention, Shape, Study


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
    shape: Shape,
    visual_by_layer: Sequence[int],
    *,
    overhead: int,
    selection: int,
    known: Mapping[str, Mapping[str, int]],
    counted: CountedWork,
) -> Reconciliation:
    """Walk from F_inf + F_ov to what ran.

    visual_by_layer: visual tokens that each decoder layer ran on. overhead: F_ov as the claim has it, for the batch.
    selection: the choices as the method declares them, for the batch. known: terms by module path, from configuration.
    """
    d, m, batch, text = shape.hidden, shape.intermediate, shape.batch, shape.text_tokens
    claimed = batch * cost_model.fastv_inference(visual_by_layer, d, m) + overhead

    def layers(tokens: Sequence[int]) -> int:
        widths = (d, m, shape.query_width, shape.kv_width, shape.ffn_matrices)
        return batch * sum(cost_model.layer_macs(n, *widths) for n in tokens)

    visual = sum(visual_by_layer)
    gate = batch * visual * d * m * (shape.ffn_matrices - 2)
    narrower = batch * visual * 2 * d * (shape.kv_width - d)
    heads = batch * sum(
        2 * n * d * (shape.query_width - d) + 2 * n * n * (shape.query_width - d) for n in visual_by_layer
    )
    tokens = [n + text for n in visual_by_layer]
    terms = [
        ("overhead that the claim assumes", -overhead),
        ("FFN: its gate", gate),
        ("keys and values: grouped", narrower),
        ("queries: another width", heads),
        ("text tokens", layers(tokens) - layers(visual_by_layer)),
        ("head, one row", batch * d * shape.vocabulary),
    ]
    for module, parts in known.items():
        terms.extend((f"{module}: {part}", macs) for part, macs in parts.items())
    for module, macs in counted.modules.items():
        if module not in known:
            terms.append((f"{module}: no formula, as counted", macs))
    terms.append(("selection, as declared", selection))
    if counted.selection is not None:
        terms.append(("selection, counted less declared", counted.selection - selection))
    steps = tuple(Term(name=name, macs=macs) for name, macs in terms if macs)
    explained = claimed + sum(term.macs for term in steps)
    return Reconciliation(
        claimed_macs=claimed, terms=steps, counted_macs=counted.macs, residual_macs=counted.macs - explained
    )


class UncountedOp(Record):
    """An operator that ran without a formula. product: its name says that it multiplies matrices: no total is whole."""

    op: str
    calls: int
    output_bytes: int
    product: bool


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
    `causal` has it. gamma: the backward factor that the claim assumes, and the one that the choices' work amounts to.
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
    gamma: float
    gamma_counted: float | None
    uncounted: tuple[UncountedOp, ...]
    conventions: tuple[Match, ...] = ()
