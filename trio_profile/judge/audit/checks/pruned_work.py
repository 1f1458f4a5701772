"""Check the printed work of a pruned prefill: what its average allows, and the γ that gives the total.

By TRIO's equations a pruned prefill costs F_inf, the layers on the tokens that are left, and F_ov = γ · Σ f(V) over the
tokens that the stages look at. Everything is counted by the convention that prints the dense row beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from trio_profile.judge.audit.checks import dense_work, schedules
from trio_profile.judge.audit.checks.schedules import Bounds, Cost, Schedule
from trio_profile.judge.audit.claims import Model, Row, Table
from trio_profile.judge.audit.facts import Facts, layer_work, work
from trio_profile.judge.audit.finding import Finding, Subject, Verdict, judge, listed, number, place, share
from trio_profile.judge.audit.printed import Interval, Printed
from trio_profile.judge.audit.quantities import Quantity
from trio_profile.cost.conventions import Convention


@dataclass(frozen=True)
class _Case:
    """One pruned row with everything that its work follows from, in operations.

    layer: what one costs by its tokens. inference, looked: F_inf and Σ f(V) of the schedule, if one is known.
    bounds: of both, whatever the schedule; the same where it is printed.
    """

    facts: Facts
    table: Table
    row: Row
    model: Model
    meant: Quantity
    printed: Printed
    convention: Convention
    layer: Cost
    average: Interval
    schedule: Schedule | None
    inference: Fraction
    looked: Fraction
    bounds: Bounds
    nominal: bool

    @property
    def figure(self) -> Interval:
        return self.printed.allowed.times(self.meant.scale)

    @property
    def own(self) -> bool:
        return self.row.method == self.facts.claims.own

    @property
    def exact(self) -> bool:
        return self.schedule is not None and self.schedule.exact

    @property
    def subject(self) -> Subject:
        where = place(self.table, self.row)
        return Subject("work", where, self.meant.name, self.printed.text, self.meant.unit, self.convention.code)

    def finding(self, verdict: Verdict, why: str, value: Fraction, found: Interval) -> Finding:
        """The amount in the unit of the printed figure."""
        each = 1 / self.meant.scale
        return self.subject.finding(verdict, why, value * each, found.times(each))

    def shown(self, value: Fraction) -> str:
        return f"{number(value / self.meant.scale)} {self.meant.unit}"


def check(facts: Facts) -> Iterator[Finding]:
    """Check every pruned row with printed work, and whether one γ explains all of them."""
    gammas: list[tuple[_Case, Fraction, Interval]] = []
    for table, dense, row in facts.pairs():
        base = "flops" if facts.amount(row, "flops") else "macs"
        cases = [
            case
            for convention in dense_work.conventions(facts, table, dense, base)
            if (case := _case(facts, table, dense, row, base, convention)) is not None
        ]
        if not cases:
            continue
        findings = [_finding(case) for case in cases]
        # Several conventions may give the dense row. A pruned row needs to agree with one of them.
        finding = next((one for one in findings if one.verdict == "supported"), findings[0])
        yield finding
        if finding.quantity == "gamma":
            gammas.append((cases[0], *_gamma(cases[0])))
    if len(gammas) > 1 and max(i.low for _, _, i in gammas) > min(i.high for _, _, i in gammas):
        yield _no_one_gamma(gammas)


def _finding(case: _Case) -> Finding:
    claims = case.facts.claims
    if case.own and case.row.overhead and claims.method.gamma is not None:
        return _with_gamma(case, Printed.of(claims.method.gamma))
    if not case.row.overhead or ((case.exact or not case.own) and case.figure.meets(case.bounds.layers)):
        return _without_selection(case)
    if case.figure.high < case.bounds.layers.low:
        return _too_little(case)
    if case.own and case.bounds.stages.low > 0 and (case.exact or claims.layers_of(case.row.model or "")):
        return _implied(case, *_gamma(case))
    return _unknown_selection(case)


def _case(facts: Facts, table: Table, dense: Row, row: Row, base: str, convention: Convention) -> _Case | None:
    model, found, stated = facts.model(row), facts.amount(row, base), facts.retention(row)
    if model is None or found is None:
        return None
    text = facts.text_count(table, row)
    layer, schedule = layer_work(convention, model, text), schedules.of_row(facts, row)
    inference = looked = Fraction(0)
    if schedule is not None:
        inference = work(convention, model, schedule.tokens, text)
        looked = sum(map(layer, schedule.looked_at), Fraction(0))
    if schedule is not None and schedule.exact:
        average = Interval.at(sum(schedule.tokens, Fraction(0)) / model.layers)
        bounds = Bounds(Interval.at(inference), Interval.at(looked))
    else:
        if stated is not None:
            average = stated.allowed.times(model.visual_tokens)
        elif row.tokens is not None:
            average = Printed.of(row.tokens).allowed
        else:
            return None
        layers = facts.claims.layers_of(row.model or "") if row.method == facts.claims.own else ()
        any_ = schedules.bounds(model, layers or None, average, layer)
        if any_ is None:
            return None
        bounds = Bounds(any_.layers + _head(convention, model, text, average.high), any_.stages)
    nominal = facts.nominal(table, dense)
    return _Case(
        facts, table, row, model, *found, convention, layer, average, schedule, inference, looked, bounds, nominal
    )  # fmt: skip


def _head(convention: Convention, model: Model, text: int, most: Fraction) -> Interval:
    """The work of the head by a convention: of one row, or of all rows of the last layer."""
    row = Fraction(model.hidden * model.vocab * (2 if convention.unit == "flops" else 1))
    if convention.head == "all":
        beside = text if convention.tokens == "all" else 0
        return Interval(row * beside, row * (beside + most))
    return Interval.at(row if convention.head == "one" else 0)


def _gamma(case: _Case) -> tuple[Fraction, Interval]:
    """γ at the schedule or at the least work, and the interval that rounding and unknown budgets allow."""
    figure, bounds = case.printed.value * case.meant.scale, case.bounds
    if case.schedule is None:
        value = (figure - bounds.layers.low) / bounds.stages.low
    else:
        value = (figure - case.inference) / case.looked
    return value, (case.figure - bounds.layers) / bounds.stages


def _without_selection(case: _Case) -> Finding:
    """Check a figure that should be F_inf alone."""
    value, found = case.bounds.layers.low, case.bounds.layers
    if case.exact and case.schedule is not None:
        value, why = case.inference, f"F_inf with {case.schedule.budgets}: {case.shown(case.inference)}."
    else:
        why = f"{_whatever(case)}."
        if case.schedule is not None:
            value = case.inference
            why += f" With {case.schedule.budgets} it is {case.shown(value)}."
    verdict = _judged(case, found)
    if verdict != "supported":
        above = case.figure.low > found.high
        why += f" {case.printed.text} is {'above' if above else 'below'} {'it' if case.exact else 'all of it'}"
        why += _two_inputs(case) if case.nominal else "."
        why += _implied_average(case)
    elif case.row.overhead:
        why += " The selection of tokens is not in it."
    return case.finding(verdict, why, value, found)


def _with_gamma(case: _Case, gamma: Printed) -> Finding:
    """Check a figure that should be F_inf + γ · Σ f(V), with the printed γ."""
    layers, stages = case.bounds.layers, case.bounds.stages
    found = layers + Interval(stages.low * gamma.allowed.low, stages.high * gamma.allowed.high)
    if case.exact and case.schedule is not None:
        value = case.inference + gamma.value * case.looked
        sum_ = f"{case.shown(case.inference)} + {gamma.text} · {case.shown(case.looked)} = {case.shown(value)}"
        return case.finding(
            _judged(case, found), f"F_inf + γ · Σ f(V) with {case.schedule.budgets}: {sum_}.", value, found
        )
    why = f"{_whatever(case)}; with γ = {gamma.text}, {case.shown(found.low)} to {case.shown(found.high)}."
    return case.finding(_judged(case, found), why, (found.low + found.high) / 2, found)


def _too_little(case: _Case) -> Finding:
    found = case.bounds.layers
    why = f"{_whatever(case)}: {case.printed.text} is below all of it, before any selection"
    return case.finding(_judged(case, found), why + (_two_inputs(case) if case.nominal else "."), found.low, found)


def _unknown_selection(case: _Case) -> Finding:
    most = case.shown(case.bounds.layers.high)
    why = f"{_whatever(case)}; what is above {most} would be the selection. The budgets and the selection's work would "
    return case.finding("underdetermined", f"{why}decide it.", case.bounds.layers.low, case.bounds.layers)


def _implied(case: _Case, value: Fraction, interval: Interval) -> Finding:
    """The γ that makes F_inf + γ · Σ f(V) the printed total."""
    least = case.facts.claims.method.gamma_at_least
    if case.schedule is None:
        why = f"{_whatever(case)}: γ is {_range(interval)}."
    else:
        shown = (number(one / case.meant.scale) for one in (case.inference, case.looked))
        sum_ = "({} - {}) / {}".format(case.printed.text, *shown)
        why = f"F_inf is {case.shown(case.inference)} with {case.schedule.budgets}, Σ f(V) {case.shown(case.looked)}: "
        why += f"γ = {sum_} = {number(value)}"
        why += "." if case.exact else f"; with whatever budgets {_range(interval)}."
    verdict: Verdict = "underdetermined"
    if least is not None and interval.high < Printed.of(least).value:
        verdict = "not_comparable" if case.nominal else "overstated"
        why += f" By the paper's own definition it is {least} at the least: the total is below its formula."
    else:
        why += " No γ is printed: that, and the budgets, would decide it."
    positive = Interval(max(interval.low, Fraction(0)), interval.high)
    return replace(case.subject, quantity="gamma", unit="").finding(verdict, why, value, positive)


def _no_one_gamma(gammas: list[tuple[_Case, Fraction, Interval]]) -> Finding:
    """Check whether one γ explains all tables. In the formula it is one number."""
    by_print = {f"{case.printed.text} {case.meant.unit}": (value, interval) for case, value, interval in gammas}
    needs = listed(f"{text} needs {number(value)} ({_range(span)})" for text, (value, span) in by_print.items())
    values = [value for value, _ in by_print.values()]
    subject = Subject(
        check="work",
        where="; ".join(dict.fromkeys(case.subject.where for case, _, _ in gammas)),
        quantity="gamma",
        printed=" / ".join(dict.fromkeys(case.printed.text for case, _, _ in gammas)),
        unit="largest / least",
        convention=gammas[0][0].convention.code,
    )
    spread = max(values) / min(values) if min(values) > 0 else None
    return subject.finding("not_comparable", f"No one γ explains these totals: {needs}.", spread)


def _judged(case: _Case, found: Interval) -> Verdict:
    """The verdict on a print. If the dense row counts tokens that did not enter, there is no better or worse."""
    verdict = judge(case.printed, found.times(1 / case.meant.scale), larger_is_better=False)
    return "not_comparable" if verdict != "supported" and case.nominal else verdict


def _two_inputs(case: _Case) -> str:
    stated = case.row.retention or case.row.tokens
    return f": either it is not at {stated}, or not of the {case.model.visual_tokens} tokens of the dense row."


def _implied_average(case: _Case) -> str:
    """The average at which a schedule of the same proportion gives the printed figure."""
    if case.schedule is None or case.exact or case.convention.head != "none":
        return ""
    average = schedules.implied(case.schedule, case.model, case.layer, case.printed.value * case.meant.scale)
    if average is None:
        return ""
    of = f"{share(average / case.model.visual_tokens)} of {case.model.visual_tokens}"
    return f" In that proportion it would be right for an average of {number(average)} tokens, {of}."


def _whatever(case: _Case) -> str:
    """A sentence about the range of work that the average alone allows."""
    layers, average = case.bounds.layers, case.average
    tokens = number(average.low)
    if average.low < average.high:
        tokens += f" to {number(average.high)}"
    known = case.own and case.facts.claims.layers_of(case.row.model or "")
    return (
        f"An average of {tokens} of {case.model.visual_tokens} tokens, pruned after {'those' if known else 'whatever'} "
        f"layers to whatever budgets, costs {case.shown(layers.low)} to {case.shown(layers.high)} as the dense row is "
        "counted"
    )


def _range(interval: Interval) -> str:
    return f"{number(max(interval.low, Fraction(0)))} to {number(interval.high)}"
