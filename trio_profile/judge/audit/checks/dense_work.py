"""Check the printed work of a dense prefill: which convention gives it."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from trio_profile.judge.audit.claims import Model, Row, Table
from trio_profile.judge.audit.facts import Facts, shape
from trio_profile.judge.audit.finding import Finding, Subject, Verdict, number, place
from trio_profile.judge.audit.printed import Printed
from trio_profile.judge.audit.quantities import Quantity
from trio_profile.cost.conventions import Convention, Match, Prefill, explain, find, match

Place = tuple[Table, Row]
_BASES = ("flops", "macs")


def check(facts: Facts) -> Iterator[Finding]:
    """Compare every figure of dense work with the table's convention, or with all conventions in use."""
    for table, row in facts.claims.rows():
        model = facts.model(row)
        if _is_dense(row) and model is not None:
            for base in _BASES:
                if (found := facts.amount(row, base)) is not None:
                    yield _finding(facts, table, row, model, *found)


def conventions(facts: Facts, table: Table, dense: Row, base: str = "flops") -> list[Convention]:
    """The conventions that give a dense row's work, those that give the most rows first."""
    key = table.name, dense.label, base
    if key not in facts.conventions:
        facts.conventions[key] = _conventions(facts, table, dense, base)
    return facts.conventions[key]


def _conventions(facts: Facts, table: Table, dense: Row, base: str) -> list[Convention]:
    if table.convention is not None:
        return [find(table.convention)]
    model, found = facts.model(dense), facts.amount(dense, base)
    if model is None or found is None:
        return []
    exact = [one.convention for one in _matches(facts, table, dense, model, *found) if one.printed != "no"]
    printing = [
        {one.code for one in _matches(facts, other, row, its_model, *its) if one.printed != "no"}
        for other, row in facts.claims.rows()
        if _is_dense(row) and (its_model := facts.model(row)) and (its := facts.amount(row, base))
    ]
    # Sorting is stable, and the simplest conventions come first.
    return sorted(exact, key=lambda one: sum(one.code in codes for codes in printing), reverse=True)


def _is_dense(row: Row) -> bool:
    return row.method is None or (row.retention is not None and Printed.of(row.retention).value == 1)


def _prefill(facts: Facts, table: Table, row: Row, model: Model) -> Prefill:
    """The prefill that is counted. Text is left out if its length is unknown."""
    return Prefill(shape(model, facts.text_count(table, row)), (model.visual_tokens,) * model.layers)


def _claimed(meant: Quantity, printed: Printed) -> Decimal:
    """The printed figure in single operations, with its digits."""
    return Decimal(printed.text).scaleb(len(str(int(meant.scale))) - 1)


def _matches(facts: Facts, table: Table, row: Row, model: Model, meant: Quantity, printed: Printed) -> list[Match]:
    prefill = _prefill(facts, table, row, model)
    found = explain(_claimed(meant, printed), prefill)
    # The tower's work is unknown here, so conventions with and without it are equal. The same holds for a head
    # without a vocabulary, and for text of unknown length.
    found = [
        one
        for one in found
        if not one.convention.tower
        and (model.vocab or one.convention.head == "none")
        and (prefill.shape.text_tokens or one.convention.tokens == "visual" or one.text_tokens)
    ]
    return [one for one in found if meant.base == "flops" or one.convention.unit == "macs"]


def _finding(facts: Facts, table: Table, row: Row, model: Model, meant: Quantity, printed: Printed) -> Finding:
    subject = Subject("work", place(table, row), meant.name, printed.text, meant.unit)
    prefill = _prefill(facts, table, row, model)

    def value(found: Match) -> float:
        return float(found.value / meant.scale)

    def says(found: Match) -> str:
        return f"{found.name}, {_input(found.convention, prefill)}: {number(found.value / meant.scale)} {meant.unit}"

    if table.convention is not None:
        held = match(_claimed(meant, printed), find(table.convention), prefill)
        why = f"By the table's convention ({says(held)})"
        if held.printed != "no":
            why = f"{why}: {printed.text} {_how(held)}."
            return replace(subject, convention=held.code).finding("supported", why, value(held))
        verdict: Verdict = "overstated" if held.value < _claimed(meant, printed) else "understated"
        return replace(subject, convention=held.code).finding(verdict, f"{why}.", value(held))
    matches = _matches(facts, table, row, model, meant, printed)
    if fitting := conventions(facts, table, row, meant.base):
        best = fitting[0]
        held = next(one for one in matches if one.convention == best)
        what = (
            "" if best.unit == "flops" or meant.base == "macs" else " They are multiply-adds; FLOPs are twice as many."
        )
        gate = " The FFN's gate is left out." if best.ffn == 2 and model.ffn_matrices == 3 else ""
        text = " No text is counted." if best.tokens == "visual" else ""
        why = f"{says(held)}, {printed.text} {_how(held)}.{what}{gate}{text}"
        return replace(subject, convention=held.code).finding("supported", why, value(held))
    if not matches:
        return subject.finding(
            "underdetermined", "No convention in use comes near; how it was counted would decide it."
        )
    nearest, *others = matches
    why = f"No convention in use prints it. The nearest is {says(nearest)}, off by {100 * nearest.off:+.2g} %."
    if others and (span := others[0].text_tokens):
        tokens = str(span[0]) if span[0] == span[1] else f"{span[0]} to {span[1]}"
        why += f" {others[0].name} would print it with {tokens} text tokens; the length of the prompt would decide it."
    return subject.finding("underdetermined", why, value(nearest))


def _how(found: Match) -> str:
    return "rounded" if found.printed == "rounded" else "cut off, not rounded"


def _input(convention: Convention, prefill: Prefill) -> str:
    visual = prefill.shape.visual_tokens
    if convention.tokens == "visual":
        return f"n = {visual}"
    return f"n = {visual} + {prefill.shape.text_tokens}"
