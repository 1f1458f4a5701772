"""The walk from a claimed figure to the counted one: named terms, and a residual that should be 0.

All values are whole numbers of MACs. The claim is a convention's figure. The terms come from the model's configuration
and from the work that the method declares. The count is what ran. A module without a formula becomes a term of its own,
with its counted work.
"""

from collections.abc import Mapping

from trio_profile.cost.conventions import PAPER, Convention, Prefill, steps
from trio_profile.records.schema import Record


class Term(Record):
    """One step of the walk: its name, and the MACs that it adds."""

    name: str
    macs: int


class Operator(Record):
    """An operator that ran.

    op: its name.
    calls: how often it ran.
    flops: the work of all calls; 0 without a formula.
    output_bytes: bytes that all calls returned.
    formula: who wrote the formula, `torch` or `trio-profile`; None if it has none.
    product: whether it may multiply matrices. If so, and if it has no formula, the total is incomplete.
    """

    op: str
    calls: int
    flops: int
    output_bytes: int
    formula: str | None
    product: bool


class CountedWork(Record):
    """The work that ran.

    macs: all of it.
    selection: the part inside the method's selections. None on the meta device, where nothing is selected and `macs`
        contains the declared work instead.
    modules: MACs of every module beside the decoder and the head, by path.
    """

    macs: int
    selection: int | None
    modules: dict[str, int]


class Reconciliation(Record):
    """The walk from `claimed_macs` to `counted_macs`.

    residual_macs: what the terms do not explain.
    """

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
    counted_for: Prefill | None = None,
) -> Reconciliation:
    """The walk from a convention's figure to what ran. The default convention is the paper's F_inf + F_ov.

    selection: MACs of the selections as the method declares them, for the batch.
    known: terms by module path, from the model's configuration.
    counted: what ran.
    figure: a printed figure that replaces the convention's own value. The difference becomes the first term.
    counted_for: the same prefill with the number of visual tokens that the figure counts; None for the same number.
    """
    value = convention.value(counted_for or prefill)
    claimed = value if figure is None else figure
    terms = [("print: its rounding, or what no convention explains", value - claimed)]
    if counted_for is not None:
        tokens = f"visual tokens: {prefill.shape.visual_tokens}, not {counted_for.shape.visual_tokens}"
        terms.append((tokens, convention.value(prefill) - value))
    terms += steps(convention, prefill)
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
