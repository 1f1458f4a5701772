"""Work that is printed for a pruned prefill: what its average forces, and the γ that makes the total right.

By TRIO's equations a pruned prefill costs F_inf, the layers on the tokens that are left, and F_ov = γ · Σ f(V) over the
tokens that the stages look at. Everything is counted by the convention that prints the dense row beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from trio_profile.analysis.audits import dense_work, schedules
from trio_profile.analysis.audits.facts import Facts, layer_work, work
from trio_profile.analysis.audits.findings import Finding, Verdict, ends, judge, listed, number, place
from trio_profile.analysis.audits.schedules import Bounds, Schedule
from trio_profile.analysis.claims import Model, Row, Table
from trio_profile.analysis.conventions import Convention
from trio_profile.analysis.printed import Interval, Printed
from trio_profile.analysis.quantities import Quantity


@dataclass(frozen=True)
class _Case:
    """One pruned row with everything that its work follows from, in operations."""

    facts: Facts
    table: Table
    dense: Row
    row: Row
    model: Model
    meant: Quantity
    printed: Printed
    convention: Convention
    text: int
    average: Interval
    schedule: Schedule | None
    bounds: Bounds

    @property
    def figure(self) -> Interval:
        return self.printed.allowed.times(self.meant.scale)

    @property
    def own(self) -> bool:
        return self.row.method == self.facts.claims.own

    @property
    def nominal(self) -> bool:
        return self.facts.nominal(self.table, self.dense)

    def shown(self, value: Fraction) -> str:
        return f"{number(value / self.meant.scale)} {self.meant.unit}"


def check(facts: Facts) -> Iterator[Finding]:
    """Every pruned row with printed work; and whether one γ explains all of them."""
    gammas: list[tuple[_Case, Fraction, Interval]] = []
    for table, dense, row in facts.pairs():
        case = _case(facts, table, dense, row)
        if case is None:
            continue
        exact = case.schedule is not None and case.schedule.exact
        if not row.overhead or ((exact or not case.own) and case.figure.meets(_layers(case))):
            yield _without_choice(case)
        elif facts.claims.method.gamma is not None and case.own:
            yield _with_gamma(case, Printed.of(facts.claims.method.gamma))
        elif case.figure.high < _layers(case).low:
            yield _too_little(case)
        elif case.own and (exact or facts.claims.layers_of(row.model or "")):
            value, interval = _gamma(case)
            gammas.append((case, value, interval))
            yield _implied(case, value, interval)
        else:
            least, most = case.bounds.layers.low, case.bounds.layers.high
            why = f"{_whatever(case)}; what is above {case.shown(most)} would be the choice. Its budgets, and the work "
            yield _finding(
                case,
                recomputed=float(least / case.meant.scale),
                interval=_ends(case, case.bounds.layers),
                verdict="underdetermined",
                why=f"{why}of choosing, would decide it.",
            )
    if len(gammas) > 1 and max(i.low for _, _, i in gammas) > min(i.high for _, _, i in gammas):
        yield _no_one_gamma(gammas)


def _case(facts: Facts, table: Table, dense: Row, row: Row) -> _Case | None:
    model, base = facts.model(row), "flops" if facts.amount(row, "flops") else "macs"
    found, stated = facts.amount(row, base), facts.retention(row)
    convention = dense_work.convention(facts, table, dense, base)
    schedule = schedules.of_row(facts, row)
    if model is None or found is None or convention is None:
        return None
    if schedule is not None and schedule.exact:
        average = Interval.at(sum(schedule.tokens, Fraction(0)) / model.layers)
    elif stated is not None:
        average = stated.allowed.times(model.visual_tokens)
    elif row.tokens is not None:
        average = Printed.of(row.tokens).allowed
    else:
        return None
    layers = facts.claims.layers_of(row.model or "") if row.method == facts.claims.own else ()
    text = facts.text_count(table, row)
    bounds = schedules.bounds(model, layers or None, average, layer_work(convention, model, text))
    if bounds is None:
        return None
    bounds = Bounds(bounds.layers + _head(convention, model, text, average.high), bounds.stages)
    return _Case(facts, table, dense, row, model, *found, convention, text, average, schedule, bounds)


def _head(convention: Convention, model: Model, text: int, most: Fraction) -> Interval:
    """What a convention counts for the head: one row, or all of a last layer with at most the average's tokens."""
    row = Fraction(model.hidden * model.vocab * (2 if convention.unit == "flops" else 1))
    if convention.head == "all":
        return Interval(row * text, row * (text + most))
    return Interval.at(row if convention.head == "one" else 0)


def _sums(case: _Case, schedule: Schedule) -> tuple[Fraction, Fraction]:
    """F_inf of a schedule, and Σ f(V) over what its stages look at."""
    layer = layer_work(case.convention, case.model, case.text)
    return work(case.convention, case.model, schedule.tokens, case.text), sum(map(layer, schedule.looked_at), Fraction(0))


def _layers(case: _Case) -> Interval:
    """F_inf: of the schedule if it is printed, else of whatever schedule of the average."""
    if case.schedule is not None and case.schedule.exact:
        return Interval.at(_sums(case, case.schedule)[0])
    return case.bounds.layers


def _gamma(case: _Case) -> tuple[Fraction, Interval]:
    """γ at the schedule, or midway; and all that rounding, and unknown budgets, allow."""
    if case.schedule is not None:
        layers, stages = _sums(case, case.schedule)
        value = (case.printed.value * case.meant.scale - layers) / stages
        if case.schedule.exact:
            return value, Interval((case.figure.low - layers) / stages, (case.figure.high - layers) / stages)
    else:
        value = (case.printed.value * case.meant.scale - case.bounds.layers.low) / case.bounds.stages.low
    over = case.figure - case.bounds.layers
    return value, over / case.bounds.stages


def _without_choice(case: _Case) -> Finding:
    """A figure that F_inf alone should be."""
    found = _layers(case)
    exact = case.schedule is not None and case.schedule.exact
    value = _sums(case, case.schedule)[0] if case.schedule is not None else found.low
    verdict: Verdict = judge(case.printed, Interval(found.low / case.meant.scale, found.high / case.meant.scale),
                             larger_is_better=False)  # fmt: skip
    why = f"{_inference(case, value)}." if exact else f"{_whatever(case)}."
    if not exact and case.schedule is not None:
        why += f" With {case.schedule.budgets} it is {case.shown(value)}."
    if verdict != "supported":
        low, high = (edge / case.meant.scale for edge in (found.low, found.high))
        why += f" {case.printed.text} is {'above' if case.printed.value > high else 'below'} all of it"
        if case.nominal:
            # The dense row counts tokens that did not come in: what the pruned one counts is not known.
            verdict = "not_comparable"
            why += f": either it is not at {_share(case)}, or not of the {case.model.visual_tokens} tokens of the dense row"
        why += "." if low <= high else ""
    elif case.row.overhead:
        why += " The choice of tokens is not in it."
    return _finding(case, recomputed=float(value / case.meant.scale), interval=_ends(case, found), verdict=verdict, why=why)


def _with_gamma(case: _Case, gamma: Printed) -> Finding:
    """A figure that F_inf + γ · Σ f(V) should be, with the γ that is printed."""
    stages = case.bounds.stages
    found = case.bounds.layers + Interval(stages.low * gamma.allowed.low, stages.high * gamma.allowed.high)
    value = (found.low + found.high) / 2
    why = f"{_whatever(case)}; with γ = {gamma.text} {case.shown(found.low)} to {case.shown(found.high)}."
    if case.schedule is not None:
        layers, looked = _sums(case, case.schedule)
        value = layers + gamma.value * looked
        if case.schedule.exact:
            found = Interval(layers + gamma.allowed.low * looked, layers + gamma.allowed.high * looked)
            sum_ = f"{case.shown(layers)} + {gamma.text} · {case.shown(looked)} = {case.shown(value)}"
            why = f"F_inf + γ · Σ f(V) with {case.schedule.budgets}: {sum_}."
    scaled = Interval(found.low / case.meant.scale, found.high / case.meant.scale)
    verdict: Verdict = judge(case.printed, scaled, larger_is_better=False)
    if verdict != "supported" and case.nominal:
        verdict = "not_comparable"
    return _finding(case, recomputed=float(value / case.meant.scale), interval=_ends(case, found), verdict=verdict, why=why)


def _too_little(case: _Case) -> Finding:
    low = _layers(case).low
    why = f"{_whatever(case)}: {case.printed.text} is below all of it, before anything is chosen."
    verdict: Verdict = "not_comparable" if case.nominal else "overstated"
    interval = _ends(case, _layers(case))
    return _finding(case, recomputed=float(low / case.meant.scale), interval=interval, verdict=verdict, why=why)


def _implied(case: _Case, value: Fraction, interval: Interval) -> Finding:
    """The γ that makes F_inf + γ · Σ f(V) the printed total."""
    least = case.facts.claims.method.gamma_at_least
    if case.schedule is not None:
        layers, looked = _sums(case, case.schedule)
        sum_ = f"({case.printed.text} - {number(layers / case.meant.scale)}) / {number(looked / case.meant.scale)}"
        why = f"F_inf is {case.shown(layers)} with {case.schedule.budgets}, Σ f(V) {case.shown(looked)}: "
        why += f"γ = {sum_} = {number(value)}"
        why += "." if case.schedule.exact else f"; with whatever budgets {_range(interval)}."
    else:
        why = f"{_whatever(case)}: γ is {_range(interval)}."
    verdict: Verdict = "underdetermined"
    if least is not None and interval.high < Printed.of(least).value:
        verdict = "not_comparable" if case.nominal else "overstated"
        why += f" By the paper's own definition it is {least} at the least: the total is below its formula."
    else:
        why += " No γ is printed: that, and the budgets, would decide it."
    return _finding(
        case, quantity="gamma", recomputed=float(value), interval=ends(interval), unit="", verdict=verdict, why=why
    )


def _no_one_gamma(gammas: list[tuple[_Case, Fraction, Interval]]) -> Finding:
    """γ is one number in the formula, and several in the tables."""
    by_print: dict[str, tuple[_Case, Fraction, Interval]] = {}
    for case, value, interval in gammas:
        by_print.setdefault(f"{case.printed.text} {case.meant.unit}", (case, value, interval))
    needs = listed(f"{text} needs {number(v)} ({_range(i)})" for text, (_, v, i) in by_print.items())
    values = [value for _, value, _ in by_print.values()]
    spread = max(values) / min(values) if min(values) > 0 else None
    case = gammas[0][0]
    return _finding(
        case,
        where="; ".join(dict.fromkeys(place(c.table, c.row) for c, _, _ in gammas)),
        quantity="gamma",
        printed=" / ".join(c.printed.text for c, _, _ in by_print.values()),
        recomputed=None if spread is None else float(spread),
        interval=None,
        unit="largest / least",
        verdict="not_comparable",
        why=f"No one γ explains these totals: {needs}.",
    )


def _finding(case: _Case, **fields: object) -> Finding:
    given: dict[str, object] = {
        "check": "work",
        "where": place(case.table, case.row),
        "quantity": case.meant.name,
        "printed": case.printed.text,
        "unit": case.meant.unit,
        "convention": case.convention.code,
    }
    return Finding.model_validate({**given, **fields})


def _inference(case: _Case, value: Fraction) -> str:
    assert case.schedule is not None
    return f"F_inf with {case.schedule.budgets}: {case.shown(value)}"


def _whatever(case: _Case) -> str:
    """What the average alone forces."""
    layers = case.bounds.layers
    tokens = number(case.average.low) if case.average.low == case.average.high else (
        f"{number(case.average.low)} to {number(case.average.high)}"
    )  # fmt: skip
    known = case.own and case.facts.claims.layers_of(case.row.model or "")
    stages = "those layers" if known else "whatever layers"
    return (
        f"An average of {tokens} of {case.model.visual_tokens} tokens, pruned after {stages} to whatever budgets, costs "
        f"{case.shown(layers.low)} to {case.shown(layers.high)} as the dense row is counted"
    )


def _share(case: _Case) -> str:
    return f"{case.row.retention or case.row.tokens}"


def _range(interval: Interval) -> str:
    return f"{number(max(interval.low, Fraction(0)))} to {number(interval.high)}"


def _ends(case: _Case, interval: Interval) -> tuple[float, float]:
    return ends(Interval(interval.low / case.meant.scale, interval.high / case.meant.scale))
