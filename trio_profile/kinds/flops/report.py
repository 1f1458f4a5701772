"""The report of one prefill's work: from the claim to the count, and operator by operator."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trio_profile import units
from trio_profile.cost.conventions import Convention, Match
from trio_profile.cost.factors import Factor, FormulaTotal
from trio_profile.cost.reconciliation import Operator, Term
from trio_profile.kinds.flops.document import FlopsDocument
from trio_profile.quantities.entries import NOTHING
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Step, Terms, Waterfall, tabulate
from trio_profile.text import listed


@dataclass(frozen=True)
class Unit:
    """The unit in which work is printed.

    name: as it is written.
    scale: how many of them make one multiply-add.
    """

    name: str
    scale: int

    def exact(self, macs: int) -> str:
        """Work with all its digits and its unit."""
        return f"{self.digits(macs)} {self.name}"

    def rounded(self, macs: int) -> str:
        """Work with four digits and its unit."""
        return f"{self.short(macs)} {self.name}"

    def digits(self, macs: int) -> str:
        """Work with all its digits."""
        return units.exact(self.scale * macs)

    def short(self, macs: int) -> str:
        """Work with four digits."""
        return units.count(self.scale * macs)


FACTORS: dict[Factor, str] = {
    "assumed": "assumed by the claim",
    "declared": "declared by the method",
    "autograd": "by autograd, the paper's procedure",
    "tail": "by the tail, ours",
    "counted": "counted",
}
"""The overhead factors as a reader calls them."""
_OF_GAMMA = (
    "The paper's appendix has γ = 1 + β, where β is the work of a backward pass. So γ = 1 is a backward pass that "
    "costs nothing. The paper prints no value. An overhead factor below 1 is no γ of the paper: it is less than one "
    "forward."
)
"""What a reader must know of γ."""
UNITS = {"macs": Unit("MACs", 1), "flops": Unit("FLOPs", 2)}


def report(document: FlopsDocument, unit: Literal["macs", "flops"] = "macs") -> Report:
    """The report of one prefill's work.

    unit: of the walks and sentences. The ledger always holds the counter's FLOPs.
    """
    study, in_unit = document.study, UNITS[unit]
    pages = [
        walk_page(document, in_unit),
        print_page(document),
        ledger_page(document, in_unit),
        numbers_page(document, in_unit),
    ]
    return Report(
        subject=document.method or "dense",
        model=study.model,
        facts=[
            f"{document.visual_tokens} visual + {document.text_tokens} text tokens",
            f"batch {study.batch}",
            "without weights" if study.device == "meta" else f"{study.attention} attention",
        ],
        pages=[page for page in pages if page.blocks],
        data=document.model_dump_json(),
    )


def walk_page(document: FlopsDocument, unit: Unit) -> Page:
    """From the paper's formula to the count."""
    blocks: list[Block] = [Sentences("", lines)] if (lines := _summary(document, unit)) else []
    if doubts := [
        f"{part.op} ran without a formula. It may multiply matrices, so the count may be too low."
        for part in document.uncounted
        if part.product
    ]:
        blocks.append(Sentences("INCOMPLETE: the count misses operators", doubts, tone="doubt"))
    caption, first, last = "From the claim to the count", "claimed: the paper's f(n)", _counted(document)
    claimed, residual = document.claimed.fastv_macs, document.residual_macs
    blocks.append(_walk("walk", caption, first, claimed, document.terms, residual, last, unit))
    return Page(
        "walk",
        caption,
        "Each bar is work that the formula leaves out, or work that the formula counts and the model does not do. All "
        f"numbers are the {unit.name} of one prefill. The tooltip of a bar has all digits.",
        blocks,
    )


def _summary(document: FlopsDocument, unit: Unit) -> list[str]:
    """The work that a method saves, and what the walk is about beyond the conclusion."""
    lines = []
    if document.claimed.fastv_saved is not None:
        lines.append(_saved(document))
    if document.method is not None and not document.selection_counted:
        lines.append(
            "The meta device selects no tokens: the cost of the selection is declared by the method, not counted."
        )
    if document.study.causal == "half":
        lines.append(
            f"With causal attention halved, the formula and its steps make {unit.exact(document.analytic_macs)}."
        )
    return lines


def _saved(document: FlopsDocument) -> str:
    """The paper's Saved: with the claim's γ, and with the overhead factor of the method that ran."""
    saved = document.claimed.fastv_saved or 0.0
    begin = f"Saved by the paper's formula, 1 − F_total / ({document.num_layers} · f({document.visual_tokens})): "
    totals = {total.factor: total for total in document.formula_totals}
    if (ran := totals.get("counted") or totals.get("declared")) is None:
        return f"{begin}{units.percent(saved)}."
    return (
        f"{begin}{units.percent(saved)} with γ = {units.plain(totals['assumed'].value)}, "
        f"{units.percent(ran.fastv_saved)} with the overhead factor {units.factor(ran.value)} that {document.method} "
        f"{'has by count' if ran.factor == 'counted' else 'declares'}."
    )


def _counted(document: FlopsDocument) -> str:
    declared = document.method is not None and not document.selection_counted
    return "counted, selection declared" if declared else "counted"


def print_page(document: FlopsDocument) -> Page:
    """A printed figure, and the conventions that give it. The walk starts in the unit of the printed figure."""
    blocks: list[Block] = []
    if (printed := document.printed) is not None:
        blocks.append(Sentences("", printed_sentences(document)))
        caption, first = "From the printed figure to the count", f"printed, as {printed.convention}"
        steps = printed.figure, printed.terms, printed.residual_macs
        blocks.append(_walk("print", caption, first, *steps, "counted", UNITS["macs"]))
    return Page(
        "print",
        "The printed figure",
        "Every convention in use was tried: which tokens, which layers, how many FFN matrices, head, tower, MACs or "
        "FLOPs. The walk begins at the printed figure. Each step corrects one point of its convention.",
        blocks,
    )


def printed_sentences(document: FlopsDocument) -> list[str]:
    """Each convention, then the γ of the paper's formula, then who counts other numbers of visual tokens."""
    return [
        *(_convention(match, document) for match in document.conventions if match.gamma is None),
        *_gammas([match for match in document.conventions if match.gamma is not None], document),
        *_counts(document),
    ]


def _convention(match: Match, document: FlopsDocument) -> str:
    """The value of one convention, beside the printed figure."""
    if match.printed != "no":
        how = "Rounded" if match.printed == "rounded" else "Cut off, not rounded"
        return f"{_gives(match, document)}. {how}, that is the printed figure. It counts {match.name}."
    if match.text_tokens is not None:
        low, high = match.text_tokens
        tokens = units.number_of(low, "text token") if low == high else f"{low} to {high} text tokens"
        return f"{match.code} would give the printed figure with {tokens}."
    dense = " If it is the figure of the dense model, leave out --retention." if document.study.retentions else ""
    return (
        f"No convention in use gives the printed figure. The nearest is {match.code}: {units.exact(match.value)}, "
        f"off by {units.percent(match.off, 2)}.{dense}"
    )


def _gives(match: Match, document: FlopsDocument) -> str:
    """The value of a convention. A dense figure of another number of visual tokens is written as the paper does."""
    value, other = units.exact(match.value), f"{match.code} with {match.visual_tokens} visual tokens"
    if match.visual_tokens is None:
        return f"{match.code} gives {value}"
    if match.convention == Convention():
        return f"{document.num_layers} · f({match.visual_tokens}) is {value}: {other}"
    return f"{other} gives {value}"


def _gammas(matches: list[Match], document: FlopsDocument) -> Iterator[str]:
    """The γ with which the paper's formula gives the figure, by the number of visual tokens."""
    needed: list[str] = []
    for match in matches:
        low, high = (units.factor(end) for end in match.gamma or (0, 0))
        tokens = match.visual_tokens or document.visual_tokens
        needed.append(f"{low}{'' if low == high else f' to {high}'} with {tokens} visual tokens")
    if needed:
        yield f"The paper's formula F_inf + γ · Σ f(V) gives the printed figure if γ is {listed(needed)}."
        yield (
            "One figure does not decide between γ and the conventions above. `trio-profile audit` counts as the dense "
            "figure of the same table does. It leaves the budgets open too, so its interval of γ is wider."
        )


def _counts(document: FlopsDocument) -> Iterator[str]:
    """Who counts each other number of visual tokens."""
    sources = {match.visual_tokens: match.counted_by for match in document.conventions if match.visual_tokens}
    others = [f"{tokens} are {source}." for tokens, source in sources.items()]
    if others:
        yield " ".join([f"This input has {document.visual_tokens} visual tokens.", *others])


def ledger_page(document: FlopsDocument, unit: Unit) -> Page:
    """Every operator that was dispatched, and the differences to fvcore's count."""
    counted: dict[str, Callable[[Operator], Entry]] = {
        "operator": lambda part: Entry(part.op),
        "calls": lambda part: Entry(units.exact(part.calls)),
        "FLOPs": lambda part: Entry(units.exact(part.flops)),
        "whose formula": lambda part: Entry(part.formula or ""),
    }
    uncounted: dict[str, Callable[[Operator], Entry]] = {
        "operator": lambda part: Entry(part.op, tone="loss" if part.product else ""),
        "calls": lambda part: Entry(units.exact(part.calls)),
        "output": lambda part: Entry(units.size(part.output_bytes)),
    }
    return Page(
        "ledger",
        "Every operator",
        "What ran in the prefill, the selection included. An operator without a formula is listed with the size of its "
        "output. The total is called complete only if none of those operators may multiply matrices.",
        [
            tabulate("Counted", counted, document.ledger, detail=True),
            tabulate("Without a formula", uncounted, document.uncounted, compact=True, detail=True),
            _fvcore(document, unit),
        ],
    )


def _fvcore(document: FlopsDocument, unit: Unit) -> Block:
    """The terms that lead from torch's count to fvcore's, or why fvcore gives no count."""
    counted = document.counted
    if counted.fvcore_macs is None:
        return Sentences("", [f"fvcore gives no count: {counted.fvcore_reason or 'it was not asked'}"], detail=True)
    steps = counted.torch_flops // 2, counted.fvcore_terms, counted.fvcore_residual_macs or 0
    walk = _walk("fvcore", "From torch's count to fvcore's", "torch's counter", *steps, "fvcore", unit)
    return replace(walk, detail=True)


def numbers_page(document: FlopsDocument, unit: Unit) -> Page:
    """Retention, overhead factors and decoding."""
    blocks: list[Block] = []
    if (kept := document.retention) is not None:
        shares = {
            "asked": kept.nominal,
            "averaged over the layers": kept.layer_average,
            "in the last layer": kept.final_layer,
            "realised on this input": kept.realised,
        }
        blocks.append(Terms("Retention", [(name, units.percent(share, 2)) for name, share in shares.items()]))
    blocks += _overhead_blocks(document, unit)
    decoding, residual = document.decoding, document.decoding.residual_macs
    rows = [
        ("further tokens", units.exact(decoding.steps)),
        ("by formula", unit.exact(decoding.macs)),
        ("counted less formula", "not counted" if residual is None else unit.exact(residual)),
    ]
    blocks.append(Terms("Decoding", rows))
    return Page(
        "numbers",
        "Retention, γ and decoding",
        "Several numbers are called retention, and several overhead factors stand for γ. Each row names one of them.",
        blocks,
    )


def _overhead_blocks(document: FlopsDocument, unit: Unit) -> list[Block]:
    """The overhead factors, and the paper's formula with each of them."""
    if document.gammas is None:
        return []
    totals = {total.factor: total for total in document.formula_totals}
    known: dict[Factor, float] = {
        factor: value for factor in FACTORS if (value := getattr(document.gammas, factor)) is not None
    }

    def of_total(factor: Factor, entry: Callable[[FormulaTotal], Entry]) -> Entry:
        return entry(totals[factor]) if factor in totals else NOTHING

    columns: dict[str, Callable[[Factor], Entry]] = {
        "overhead factor": lambda factor: Entry(FACTORS[factor]),
        "value": lambda factor: Entry(units.factor(known[factor])),
        f"F_total, {unit.name}": lambda factor: of_total(factor, lambda total: Entry(unit.short(total.fastv_macs))),
        "Saved": lambda factor: of_total(factor, lambda total: Entry(units.percent(total.fastv_saved))),
    }
    caption = (
        "Work of the selection, divided by one forward of each layer that it probed, and the paper's formula with it: "
        f"Saved = 1 − F_total / ({document.num_layers} · f({document.visual_tokens}))"
    )
    return [tabulate(caption, columns, known), *([Sentences("", [_OF_GAMMA])] if totals else [])]


def _walk(
    id: str, caption: str, first: str, start: int, terms: Sequence[Term], residual: int, last: str, unit: Unit
) -> Waterfall:
    """A waterfall from one sum to another, whose last step is the residual."""
    steps = [*((term.name, term.macs) for term in terms), ("residual", residual)]
    end = start + sum(macs for _, macs in steps)
    label = f"A waterfall from {unit.rounded(start)} to {unit.rounded(end)}, step by step."
    head, *bars, foot = (
        Step(name, unit.scale * macs, unit.short(macs), unit.digits(macs))
        for name, macs in ((first, start), *steps, (last, end))
    )
    return Waterfall(id, f"{caption}, {unit.name}", label, head, bars, foot)
