"""Compare printed ratios with the printed figures that they follow from."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from trio_profile.cost.conventions import Convention, find
from trio_profile.cost.printed import Interval, Printed
from trio_profile.inputs.claims.claims import Quantity, quantity
from trio_profile.inputs.claims.facts import Facts, Figure, Line, layer_work, work
from trio_profile.kinds.audit.checks import schedules
from trio_profile.kinds.audit.document import HOW, Finding, Subject, Verdict, judge, number, share
from trio_profile.text import listed


@dataclass(frozen=True)
class _Source:
    """A pair of rows from which a ratio may follow."""

    where: str
    sum: str
    ratio: Interval

    @property
    def text(self) -> str:
        return f"{self.sum} = {number(self.ratio.value)} in {self.where}"


def check(facts: Facts) -> Iterator[Finding]:
    """Check every speed-up, ratio, reduction and share against the rows from which it may follow."""
    for line in facts.lines:
        for name, text in line.row.figures.items():
            if (meant := quantity(name)).form in ("ratio", "reduction", "share") and not line.row.dense:
                yield _finding(facts, line, Figure(meant, Printed.of(text)))
    for line in facts.lines:
        if (printed := line.row.printed("overhead_below_pct")) is not None:
            yield _overhead(line, printed)


def _overhead(line: Line, printed: Printed) -> Finding:
    """Compare the method's total less that of a method that selects at no cost, over the dense total, with a bound."""
    subject = Subject("ratio", line.place, "overhead_below_pct", f"less than {printed.text}", "%")
    whole = None if line.dense is None else line.dense.figure("total")
    totals = [(other.row, total) for other in line.siblings if (total := other.figure("total"))]
    shares = [
        (
            (mine.amount.value - its.amount.value) / whole.amount.value * 100,
            f"({mine.printed.text} - {its.printed.text}) / {whole.printed.text}",
        )
        for row, mine in totals
        for other, its in totals
        if whole and row.method == line.row.method and not other.dense and not other.overhead
        if line.facts.same_share(row, other)
    ]
    if not shares:
        why = "Its table lacks the total of the method, of a method that selects at no cost, or of the dense model."
        return subject.finding("underdetermined", why)
    most = max(value for value, _ in shares)
    sums = listed([f"{text} = {number(value)} %" for value, text in shares])
    less, verdict = ("less", "supported") if most < printed.value else ("not less", "overstated")
    why = f"Of the dense total, the selection takes {sums}: {less} than {printed.text} %."
    return subject.finding(verdict, why, most)


def _finding(facts: Facts, line: Line, figure: Figure) -> Finding:
    printed, meant = figure.printed, figure.quantity
    sources = _sources(facts, line, meant) or _by_formula(line, meant)
    subject = Subject.of(line, "ratio", figure)
    if not sources and (most := _most(line, meant)) is not None:
        return _bounded(subject, line, figure, most)
    if not sources:
        why = f"No row prints {meant.base} of both this setting and the dense model: those two figures would decide it."
        return subject.finding("underdetermined", why)
    better = meant.form != "share"
    verdicts: list[Verdict] = [judge(printed, source.ratio, larger_is_better=better) for source in sources]
    fitting = [source for source, verdict in zip(sources, verdicts, strict=True) if verdict == "supported"]
    # Rows whose digits give the ratio directly are preferred to rows that need the rounding of their figures.
    used = [source for source in fitting if printed.how(source.ratio.value) != "no"] or fitting or sources
    first = used[0]
    verdict: Verdict = "supported"
    if fitting:
        same = listed([source.where for source in used if source.sum == first.sum])
        how = HOW[printed.how(first.ratio.value)] or "within what the rounding of its figures allows"
        why = f"{first.sum} = {number(first.ratio.value)} in {same}: {printed.text} {how}."
    else:
        # It is above some of the rows and below others, so it has no direction.
        verdict = verdicts[0] if len(set(verdicts)) == 1 else "not_comparable"
        why = "It follows from no row."
    if others := dict.fromkeys(source.text for source in sources if source not in fitting):
        why += f" Not from {listed(list(others))}."
    low, high = min(source.ratio.low for source in used), max(source.ratio.high for source in used)
    return subject.finding(verdict, why, Interval(low, high, first.ratio.value))


def _sources(facts: Facts, line: Line, meant: Quantity) -> list[_Source]:
    """The row itself if it has both figures, or else other rows of the same setting."""
    base, row = meant.base, line.row
    if line.dense and (whole := line.dense.figure(base)) and (part := line.figure(base)):
        return [_source(line.place, meant, whole, part)]
    anything = row.retention is None and row.tokens is None
    return [
        _source(other.place, meant, whole, part)
        for dense, other in facts.pairs()
        if (whole := dense.figure(base)) and (part := other.figure(base))
        if (other.row.model, other.row.method) == (row.model, row.method)
        if anything or facts.same_setting(line, other)
    ]


def _by_formula(line: Line, meant: Quantity) -> list[_Source]:
    """The work of a printed schedule by the table's own convention, if no amounts are printed."""
    schedule, code = line.row.schedule, line.table.convention
    if schedule is None or code is None or meant.base not in ("flops", "macs"):
        return []
    model = line.model
    whole, part = (
        Figure(quantity("flops_t"), Printed(number(counted / 10**12), counted / 10**12, Fraction(0)))
        for tokens in ([model.visual_tokens] * model.layers, schedule.tokens_by_layer(model))
        for counted in (work(find(code), model, tokens, line.text_count),)
    )
    return [_source(f"{line.label} by {code}, in T", meant, whole, part)]


def _most(line: Line, meant: Quantity) -> Fraction | None:
    """The largest ratio of dense to pruned that the row's retention allows, whatever the budgets; None if not known.

    Work is the decoder's on visual tokens alone: text, the tower, the output layer and the selection lessen the ratio.
    """
    if line.retention is None or meant.base not in ("flops", "macs", "kv"):
        return None
    kept, model = line.retention.allowed.low, line.model
    if meant.base == "kv":
        return 1 / kept
    average = Interval.at(kept * model.visual_tokens)
    layers = line.facts.claims.layers_of(line.row) or None
    conventions = [find(line.table.convention)] if line.table.convention else [Convention(ffn=2), Convention(ffn=3)]
    ratios = []
    for convention in conventions:
        cost = layer_work(convention.model_copy(update={"tokens": "visual"}), model, 0)
        least = schedules.bounds(model, layers, average, cost)
        if least is not None:
            ratios.append(model.layers * cost(Fraction(model.visual_tokens)) / least.layers.low)
    return max(ratios, default=None)


def _bounded(subject: Subject, line: Line, figure: Figure, most: Fraction) -> Finding:
    """The finding on a ratio that no row prints, beside the largest one that its retention allows."""
    assert line.retention is not None
    form, printed = figure.quantity.form, figure.printed
    bound = {"ratio": most, "reduction": 100 * (1 - 1 / most), "share": 100 / most}[form]
    verdict = judge(printed, Interval.at(bound), larger_is_better=form != "share")
    limit = "at least" if form == "share" else "at most"
    why = f"At a retention of {share(line.retention.value)}, whatever the budgets, it is {limit} {number(bound)}."
    if figure.quantity.base != "kv":
        why += " That leaves out text, the vision tower, the output layer and the selection: they lessen the saving."
    if verdict == "overstated":
        return subject.finding(verdict, why, bound)
    return subject.finding("underdetermined", f"{why} The amounts of both, or the budgets, would decide it.")


def _source(where: str, meant: Quantity, whole: Figure, part: Figure) -> _Source:
    if meant.base == "throughput":  # the only quantity here that pruning makes larger
        whole, part = part, whole
    scale = whole.quantity.scale / part.quantity.scale
    dense, own = whole.printed.text, part.printed.text
    dense = dense if scale == 1 else f"({dense} · {number(scale)})"
    if meant.form == "ratio":
        return _Source(where, f"{dense} / {own}", whole.amount / part.amount)
    left = (part.amount / whole.amount).times(100)
    if meant.form == "share":
        return _Source(where, f"100 · {own} / {dense}", left)
    return _Source(where, f"100 · (1 - {own} / {dense})", Interval.at(100) - left)
