"""Compare printed ratios with the printed figures that they follow from."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from trio_profile.judge.audit.claims import Row, Table
from trio_profile.judge.audit.facts import Facts, work
from trio_profile.judge.audit.finding import Finding, Subject, Verdict, as_printed, judge, listed, number, place
from trio_profile.judge.audit.printed import Interval, Printed
from trio_profile.judge.audit.quantities import Quantity, quantity
from trio_profile.cost.conventions import find


@dataclass(frozen=True)
class _Source:
    """A pair of rows from which a ratio may follow."""

    where: str
    sum: str
    value: Fraction
    interval: Interval


def check(facts: Facts) -> Iterator[Finding]:
    """Check every speed-up, ratio, reduction and share against the rows from which it may follow."""
    for table, row in facts.claims.rows():
        for name, text in row.figures.items():
            meant = quantity(name)
            if meant.form in ("ratio", "reduction", "share") and row.method is not None:
                yield _finding(facts, table, row, meant, Printed.of(text))


def overheads(facts: Facts) -> Iterator[Finding]:
    """Check `overhead_below_pct`: the method's total less that of a random method, over the dense total."""
    for table, row in facts.claims.rows():
        if "overhead_below_pct" not in row.figures:
            continue
        printed, dense = Printed.of(row.figures["overhead_below_pct"]), table.dense(row.model)
        own = [r for r in table.rows if r.method == row.method and facts.amount(r, "total")]
        others = [r for r in table.rows if r.method is not None and not r.overhead and facts.amount(r, "total")]
        whole = facts.amount(dense, "total")
        found = [
            (
                100 * (mine[1].value - its[1].value) / whole[1].value,
                f"({mine[1].text} - {its[1].text}) / {whole[1].text}",
            )
            for r in own
            for other in others
            if whole and facts.same_share(r, other)
            if (mine := facts.amount(r, "total")) and (its := facts.amount(other, "total"))
        ]
        subject = Subject("ratio", place(table, row), "overhead_below_pct", f"less than {printed.text}", "%")
        if not found:
            why = "Its table lacks the total of the method, of a method that selects at no cost, or of the dense model."
            yield subject.finding("underdetermined", why)
            continue
        most = max(value for value, _ in found)
        sums = listed(f"{text} = {number(value)} %" for value, text in found)
        verdict: Verdict = "supported" if most < printed.value else "overstated"
        why = f"Of the dense total, the selection takes {sums}: {'less' if most < printed.value else 'not less'} than "
        yield subject.finding(verdict, f"{why}{printed.text} %.", most)


def _finding(facts: Facts, table: Table, row: Row, meant: Quantity, printed: Printed) -> Finding:
    sources = list(_sources(facts, table, row, meant))
    if not sources and (computed := _by_formula(facts, table, row, meant)) is not None:
        sources = [computed]
    subject = Subject("ratio", place(table, row), meant.name, printed.text, meant.unit)
    if not sources:
        why = f"No row prints {meant.base} of both this setting and the dense model: those two figures would decide it."
        return subject.finding("underdetermined", why)
    verdicts: list[Verdict] = [
        judge(printed, source.interval, larger_is_better=meant.form != "share") for source in sources
    ]
    fitting = [source for source, verdict in zip(sources, verdicts, strict=True) if verdict == "supported"]
    others = [source for source, verdict in zip(sources, verdicts, strict=True) if verdict != "supported"]
    # Rows whose digits give the ratio directly are preferred to rows that need the rounding of their figures.
    exact = [source for source in fitting if printed.how(source.value) != "no"]
    shown = exact or fitting or sources
    first = shown[0]
    if fitting:
        same = [source.where for source in shown if source.sum == first.sum]
        how = as_printed(printed, first.value) or "within what the rounding of its figures allows"
        why = f"{first.sum} = {number(first.value)} in {listed(same)}: {printed.text} {how}."
        verdict: Verdict = "supported"
    else:
        # It is above some of the rows and below others, so it has no direction.
        verdict = verdicts[0] if len(set(verdicts)) == 1 else "not_comparable"
        why = f"It follows from no row: {first.sum} = {number(first.value)} in {first.where}."
        others = [source for source in others if source is not first]
    if others:
        sums = listed(dict.fromkeys(f"{o.sum} = {number(o.value)} in {o.where}" for o in others))
        why += f" {'Not from' if fitting else 'Nor'} {sums}."
    bounds = Interval(min(s.interval.low for s in shown), max(s.interval.high for s in shown))
    return subject.finding(verdict, why, first.value, bounds)


def _sources(facts: Facts, table: Table, row: Row, meant: Quantity) -> Iterator[_Source]:
    own = facts.amount(row, meant.base)
    if own and (dense := facts.amount(table.dense(row.model), meant.base)):
        yield _source(place(table, row), meant, dense, own)
        return
    for other, dense_row, pruned in facts.pairs():
        dense, mine = facts.amount(dense_row, meant.base), facts.amount(pruned, meant.base)
        if dense is None or mine is None or (pruned.model, pruned.method) != (row.model, row.method):
            continue
        anything = row.retention is None and row.tokens is None
        if anything or facts.same_setting((table, row), (other, pruned)):
            yield _source(place(other, pruned), meant, dense, mine)


def _by_formula(facts: Facts, table: Table, row: Row, meant: Quantity) -> _Source | None:
    """The work of a printed schedule by the table's own convention, if no amounts are printed."""
    model, schedule = facts.model(row), row.schedule
    if model is None or schedule is None or table.convention is None or meant.base not in ("flops", "macs"):
        return None
    text, tokens = facts.text_count(table, row), schedule.tokens_by_layer(model)
    counted = [
        work(find(table.convention), model, by_layer, text)
        for by_layer in ([model.visual_tokens] * model.layers, tokens)
    ]
    prints = [Printed(number(one / 10**12), one, Fraction(0)) for one in counted]
    unit = quantity("flops_t")
    whole, part = ((unit, one) for one in prints)
    return _source(f"{table.name} by {table.convention}, in T", meant, whole, part)


def _source(where: str, meant: Quantity, dense: tuple[Quantity, Printed], own: tuple[Quantity, Printed]) -> _Source:
    (whole_unit, whole), (unit, part) = dense, own
    scale = whole_unit.scale / unit.scale
    factored = whole.text if scale == 1 else f"({whole.text} · {number(scale)})"
    ratio, value = (whole.allowed / part.allowed).times(scale), whole.value / part.value * scale
    if meant.form == "ratio":
        return _Source(where, f"{factored} / {part.text}", value, ratio)
    left, now = Interval(1 / ratio.high, 1 / ratio.low).times(100), 100 / value
    if meant.form == "share":
        return _Source(where, f"100 · {part.text} / {factored}", now, left)
    saved = Interval(100 - left.high, 100 - left.low)
    return _Source(where, f"100 · (1 - {part.text} / {factored})", 100 - now, saved)
