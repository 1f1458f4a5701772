"""The report of one prefill's work: from the claim to the count, by both counters, and operator by operator."""

from collections.abc import Callable, Sequence

from trio_profile import units
from trio_profile.cost.conventions import Match
from trio_profile.cost.reconciliation import FlopsDocument, Term
from trio_profile.findings import charts as figures
from trio_profile.findings.blocks import Chart, Entry, Page, Report, Sentences, Table, Terms


def report(document: FlopsDocument) -> Report:
    """All pages of it."""
    study = document.study
    return Report(
        subject=document.method or "dense",
        model=study.model,
        facts=[
            f"{document.visual_tokens} visual + {document.text_tokens} text tokens",
            f"batch {study.batch}",
            "without weights" if study.device == "meta" else f"{study.attention} attention",
        ],
        pages=[page for build in PAGES if (page := build(document)).blocks],
        data=document.model_dump_json(),
    )


def walk_page(document: FlopsDocument) -> Page:
    """From the paper's figure to the count."""
    claimed, counted = document.claimed.fastv_macs, document.counted.torch_flops // 2
    residual = document.residual_macs
    lines = [
        f"The formula says {units.count(claimed)} MACs; {units.count(counted)} were counted, "
        f"{units.factor(counted / claimed)} times as many.",
        f"The terms between them leave {'nothing' if residual == 0 else units.exact(residual) + ' MACs'} unexplained.",
    ]
    if not document.selection_counted:
        lines.append("Nothing is chosen on the meta device: the choice stands as the method declares it.")
    doubts = [f"{part.op} ran without a formula, and may multiply." for part in document.uncounted if part.product]
    blocks: list[Sentences | Chart | Table | Terms] = [Sentences("", lines)]
    if doubts:
        blocks.append(Sentences("The count is not complete", doubts, tone="doubt"))
    terms = (*document.terms, Term(name="residual", macs=residual))
    blocks += _walk("walk", "claimed: the paper's f(n)", claimed, terms, "counted")
    return Page(
        "walk",
        "From the claim to the count",
        "Each bar is one thing that the formula leaves out, or puts in and the model does not do. All are "
        "multiply-adds of one prefill, exact to the last one.",
        blocks,
    )


def print_page(document: FlopsDocument) -> Page:
    """A printed figure, and the conventions that print it."""
    blocks: list[Sentences | Chart | Table | Terms] = []
    if (printed := document.printed) is not None:
        blocks.append(Sentences("", [_convention(found) for found in document.conventions]))
        blocks += _walk(
            "print",
            f"printed, as {printed.convention}",
            printed.figure,
            (*printed.terms, Term(name="residual", macs=printed.residual_macs)),
            "counted",
        )
    return Page(
        "print",
        "The printed figure",
        "Every convention in use was tried: which tokens, which layers, how many FFN matrices, head, tower, MACs or "
        "FLOPs. The walk begins at the print and puts one choice right after another.",
        blocks,
    )


def counters_page(document: FlopsDocument) -> Page:
    """torch's counter and fvcore side by side."""
    counted = document.counted
    if counted.fvcore_macs is None:
        reason = counted.fvcore_reason or "it was not asked"
        return Page("counters", "Two counters", "fvcore gives no count here.", [Sentences("", [reason])])
    terms = (*counted.fvcore_terms, Term(name="residual", macs=counted.fvcore_residual_macs or 0))
    return Page(
        "counters",
        "Two counters",
        "torch counts every operator that is dispatched; fvcore counts a traced graph, in which what nobody reads is "
        "missing, and so is every backward pass.",
        _walk("counters", "torch's counter", counted.torch_flops // 2, terms, "fvcore"),
    )


def ledger_page(document: FlopsDocument) -> Page:
    """Every operator that was dispatched."""
    with_formula = [
        [Entry(part.op), Entry(units.exact(part.calls)), Entry(units.exact(part.flops)), Entry(part.formula)]
        for part in document.ledger
    ]
    without = [
        [
            Entry(part.op, tone="loss" if part.product else ""),
            Entry(units.exact(part.calls)),
            Entry(units.size(part.output_bytes)),
        ]
        for part in document.uncounted
    ]
    return Page(
        "ledger",
        "Every operator",
        "What ran in the prefill, the choice of tokens included. An operator without a formula is listed with what it "
        "put out; the total is called complete only if none of those may hold a matrix product.",
        [
            Table("Counted", ("operator", "calls", "FLOPs", "whose formula"), with_formula),
            Table("Without a formula", ("operator", "calls", "output"), without, compact=True),
        ],
    )


def numbers_page(document: FlopsDocument) -> Page:
    """Retention, γ and decoding."""
    blocks: list[Sentences | Chart | Table | Terms] = []
    if (kept := document.retention) is not None:
        shares = {
            "asked": kept.nominal,
            "averaged over the layers": kept.layer_average,
            "in the last layer": kept.final_layer,
            "realised on this input": kept.realised,
        }
        blocks.append(Terms("Retention", [(name, units.percent(share, 2)) for name, share in shares.items()]))
    if (gammas := document.gammas) is not None:
        values = {
            "assumed by the claim": gammas.assumed,
            "declared by the method": gammas.declared,
            "by autograd, the paper's procedure": gammas.autograd,
            "by the tail, ours": gammas.tail,
            "counted": gammas.counted,
        }
        found = [(name, units.factor(value)) for name, value in values.items() if value is not None]
        blocks.append(Terms("γ: the choice over a forward of each layer that it looked at", found))
    decoding = document.decoding
    residual = decoding.residual_macs
    rows = [
        ("further tokens", units.exact(decoding.steps)),
        ("MACs by formula", units.exact(decoding.macs)),
        ("counted less formula", "not counted" if residual is None else units.exact(residual)),
    ]
    blocks.append(Terms("Decoding", rows))
    elements = [(part, units.count(count)) for part, count in document.elements.items()]
    blocks.append(Terms("Elements made without a product, in the decoder's layers: no MACs", elements))
    return Page("numbers", "Beside the prefill", "Four numbers are called retention, and five γ.", blocks)


PAGES: tuple[Callable[[FlopsDocument], Page], ...] = (walk_page, print_page, counters_page, ledger_page, numbers_page)


def _walk(id: str, first: str, start: int, terms: Sequence[Term], last: str) -> list[Chart | Table]:
    steps = [(term.name, term.macs) for term in terms]
    end = start + sum(macs for _, macs in steps)
    label = f"A waterfall from {units.count(start)} to {units.count(end)}; the table below it holds its steps."
    rows = [
        [Entry(name), Entry(units.exact(macs)), Entry(units.count(macs))]
        for name, macs in [(first, start), *steps, (last, end)]
    ]
    figure = figures.waterfall(
        first, start, [step for step in steps if step[1]], last, exact=lambda macs: f"{units.exact(macs)} MACs"
    )
    return [Chart(id, "MACs", label, figure), Table("Exactly", ("term", "MACs", ""), rows)]


def _convention(found: Match) -> str:
    value = f"{found.name}: {units.exact(found.value)}"
    if found.printed != "no":
        return f"{value}, {found.printed}."
    if found.text_tokens is not None:
        low, high = found.text_tokens
        return f"{found.name} would print it with {low if low == high else f'{low} to {high}'} text tokens."
    return f"No convention in use prints it. The nearest is {value}, off by {units.percent(found.off, 2)}."
