"""Check the printed work of a pruned prefill: what its average allows, and the γ that gives the total.

By TRIO's equations a pruned prefill costs F_inf, the layers on the tokens that are left, and F_ov = γ · Σ f(V) over the
tokens that the stages look at. Everything is counted by the convention that prints the dense row beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from trio_profile.cost.conventions import Convention
from trio_profile.cost.printed import Interval, Printed
from trio_profile.inputs.claims.claims import Model
from trio_profile.inputs.claims.facts import Facts, Figure, Line, layer_work, work
from trio_profile.kinds.audit.checks import dense_work, schedules
from trio_profile.kinds.audit.checks.schedules import Bounds, Schedule
from trio_profile.kinds.audit.document import Finding, Subject, Verdict, judge, number
from trio_profile.text import listed


@dataclass(frozen=True)
class _Case:
    """One pruned row with everything that its work follows from, in operations.

    average: tokens in a layer. schedule: the row's, if one is known.
    bounds: of F_inf and of Σ f(V), whatever the schedule; a single value where the schedule is printed.
    """

    line: Line
    figure: Figure
    convention: Convention
    average: Interval
    schedule: Schedule | None
    bounds: Bounds

    @property
    def exact(self) -> bool:
        return self.schedule is not None and self.schedule.exact

    @property
    def text(self) -> str:
        return self.figure.printed.text

    @property
    def subject(self) -> Subject:
        return replace(Subject.of(self.line, "work", self.figure), convention=self.convention.code)

    @property
    def gamma(self) -> Interval:
        """γ at the schedule or at the least work, and the interval that rounding and unknown budgets allow."""
        return (self.figure.amount - self.bounds.layers) / self.bounds.stages

    def judged(self, why: str, work: Interval) -> Finding:
        """The finding that compares the print with the work. It has no direction if some tokens did not enter."""
        work = work.times(1 / self.figure.quantity.scale)
        verdict = judge(self.figure.printed, work, larger_is_better=False)
        if verdict != "supported" and self.line.nominal:
            verdict = "not_comparable"
        return self.subject.finding(verdict, why, work)

    def in_print(self, value: Fraction) -> str:
        """An amount in the unit of the printed figure."""
        return f"{number(value / self.figure.quantity.scale)} {self.figure.quantity.unit}"


def check(facts: Facts) -> Iterator[Finding]:
    """Check every pruned row with printed work, and whether one γ explains all of them."""
    judged: list[tuple[_Case, Finding]] = []
    for dense, line in facts.pairs():
        figure = line.figure("flops") or line.figure("macs")
        if figure is None:
            continue
        counted = (_case(line, figure, code) for code in dense_work.conventions(dense, figure.quantity.base))
        alternatives = [(case, _finding(case)) for case in counted if case is not None]
        if alternatives:
            # Several conventions may give the dense row. A pruned row needs to agree with one of them.
            judged.append(next((pair for pair in alternatives if pair[1].verdict == "supported"), alternatives[0]))
    yield from (finding for _, finding in judged)
    cases = [case for case, finding in judged if finding.quantity == "gamma"]
    if cases and max(case.gamma.low for case in cases) > min(case.gamma.high for case in cases):
        yield _no_one_gamma(cases)


def _finding(case: _Case) -> Finding:
    claims, row, layers = case.line.facts.claims, case.line.row, case.bounds.layers
    if case.line.own and row.overhead and claims.method.gamma is not None:
        return _with_gamma(case, Printed.of(claims.method.gamma))
    fits = (case.exact or not case.line.own) and case.figure.amount.meets(layers)
    if not row.overhead or fits or case.figure.amount.high < layers.low:
        return _without_selection(case)
    if case.line.own and case.bounds.stages.low > 0 and (case.exact or claims.layers_of(row)):
        return _implied(case)
    most = case.in_print(layers.high)
    why = f"{_range_of_work(case)}; what is above {most} would be the selection. The budgets and the selection's work "
    least = replace(layers, value=layers.low).times(1 / case.figure.quantity.scale)
    return case.subject.finding("underdetermined", f"{why}would decide it.", least)


def _case(line: Line, figure: Figure, convention: Convention) -> _Case | None:
    model, text = line.model, line.text_count
    layer, schedule = layer_work(convention, model, text), schedules.of_line(line)
    point = None
    if schedule is not None:
        looked_at = sum(map(layer, schedule.looked_at), Fraction(0))
        point = Bounds(Interval.at(work(convention, model, schedule.tokens, text)), Interval.at(looked_at))
        if schedule.exact:
            return _Case(line, figure, convention, Interval.at(schedule.average), schedule, point)
    if line.retention is not None:
        average = line.retention.allowed.times(model.visual_tokens)
    elif line.row.tokens is not None:
        average = Printed.of(line.row.tokens).allowed
    else:
        return None
    bounds = schedules.bounds(model, line.facts.claims.layers_of(line.row) or None, average, layer)
    if bounds is None:
        return None
    layers, stages = bounds.layers + _head(convention, model, text, average.high), bounds.stages
    if point is not None:
        layers, stages = replace(layers, value=point.layers.value), replace(stages, value=point.stages.value)
    return _Case(line, figure, convention, average, schedule, Bounds(layers, stages))


def _head(convention: Convention, model: Model, text: int, most: Fraction) -> Interval:
    """The work of the head by a convention: of one row, or of all rows of the last layer."""
    row = Fraction(model.hidden * model.vocab * (2 if convention.unit == "flops" else 1))
    if convention.head == "all":
        least = row * text if convention.tokens == "all" else Fraction(0)
        return Interval(least, least + row * most, least)
    return Interval.at(row if convention.head == "one" else 0)


def _without_selection(case: _Case) -> Finding:
    """Check a figure that should be F_inf alone."""
    layers, why = case.bounds.layers, f"{_range_of_work(case)}."
    if case.exact and case.schedule is not None:
        why = f"F_inf with {case.schedule.budgets}: {case.in_print(layers.value)}."
    if not case.figure.amount.meets(layers):
        side = "above" if case.figure.amount.low > layers.high else "below"
        why += f" {case.text} is {side} {'it' if case.exact else 'all of it'}."
        if case.line.nominal:
            stated, dense = case.line.row.retention or case.line.row.tokens, case.line.model.visual_tokens
            why += f" Either it is not at {stated}, or not of the {dense} tokens of the dense row."
    elif case.line.row.overhead:
        why += " The selection of tokens is not in it."
    return case.judged(why, layers)


def _with_gamma(case: _Case, gamma: Printed) -> Finding:
    """Check a figure that should be F_inf + γ · Σ f(V), with the printed γ."""
    layers, stages, spread = case.bounds.layers, case.bounds.stages, gamma.allowed
    total = layers + Interval(stages.low * spread.low, stages.high * spread.high, stages.value * gamma.value)
    if case.exact and case.schedule is not None:
        whole, part, selection = (case.in_print(value) for value in (total.value, layers.value, stages.value))
        sum_ = f"{part} + {gamma.text} · {selection} = {whole}"
        return case.judged(f"F_inf + γ · Σ f(V) with {case.schedule.budgets}: {sum_}.", total)
    range_ = f"{case.in_print(total.low)} to {case.in_print(total.high)}"
    why = f"{_range_of_work(case)}; with γ = {gamma.text}, {range_}."
    return case.judged(why, replace(total, value=(total.low + total.high) / 2))


def _implied(case: _Case) -> Finding:
    """The γ that makes F_inf + γ · Σ f(V) the printed total."""
    least, gamma = case.line.facts.claims.method.gamma_at_least, case.gamma
    layers, stages = case.bounds.layers.value, case.bounds.stages.value
    if case.schedule is None:
        why = f"{_range_of_work(case)}: γ is {_range(gamma)}."
    else:
        scale = case.figure.quantity.scale
        sum_ = f"({case.text} - {number(layers / scale)}) / {number(stages / scale)}"
        why = f"F_inf is {case.in_print(layers)} with {case.schedule.budgets}, Σ f(V) {case.in_print(stages)}: "
        why += f"γ = {sum_} = {number(gamma.value)}"
        why += "." if case.exact else f"; with whatever budgets {_range(gamma)}."
    verdict: Verdict = "underdetermined"
    if least is not None and gamma.high < Printed.of(least).value:
        verdict = "not_comparable" if case.line.nominal else "overstated"
        why += f" By the paper's own definition it is {least} at the least: the total is below its formula."
    else:
        why += " No γ is printed: that, and the budgets, would decide it."
    positive = replace(gamma, low=max(gamma.low, Fraction(0)))
    return replace(case.subject, quantity="gamma", unit="").finding(verdict, why, positive)


def _no_one_gamma(cases: list[_Case]) -> Finding:
    """Say that no one γ explains all tables. In the formula it is one number."""
    by_print = {case.figure.text: case.gamma for case in cases}
    needs = listed([f"{text} needs {number(gamma.value)} ({_range(gamma)})" for text, gamma in by_print.items()])
    values = [gamma.value for gamma in by_print.values()]
    where = "; ".join(dict.fromkeys(case.line.place for case in cases))
    prints = " / ".join(dict.fromkeys(case.text for case in cases))
    subject = Subject("work", where, "gamma", prints, "largest / least", cases[0].convention.code)
    spread = max(values) / min(values) if min(values) > 0 else None
    return subject.finding("not_comparable", f"No one γ explains these totals: {needs}.", spread)


def _range_of_work(case: _Case) -> str:
    """A sentence about the range of work that the average alone allows."""
    layers, average = case.bounds.layers, case.average
    tokens = _range(average) if average.low < average.high else number(average.low)
    known = "those" if case.line.facts.claims.layers_of(case.line.row) else "whatever"
    return (
        f"An average of {tokens} of {case.line.model.visual_tokens} tokens, pruned after {known} layers to whatever "
        f"budgets, costs {case.in_print(layers.low)} to {case.in_print(layers.high)} as the dense row is counted"
    )


def _range(interval: Interval) -> str:
    return f"{number(max(interval.low, Fraction(0)))} to {number(interval.high)}"
