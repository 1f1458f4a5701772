"""Check caches: the number of tokens that entered, and the share that was kept, by the printed bytes."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from trio_profile.cost.printed import Interval, Printed
from trio_profile.inputs.claims.claims import quantity
from trio_profile.inputs.claims.facts import Facts, Figure, Line
from trio_profile.kinds.audit.document import Finding, Subject, judge, number, share

_NOMINAL = "nominal-visual-tokens"
"""The retention is a share of the nominal number of tokens, and not of those that entered."""


def check(facts: Facts) -> Iterator[Finding]:
    """Check every dense cache, every pruned cache, and every retention of tokens that did not enter."""
    printed = [(line, figure, line.held) for line in facts.lines if (figure := line.figure("kv"))]
    for line, figure, held in printed:
        if line.row.dense and held is not None:
            yield _dense(line, figure, held)
    for line, figure, held in printed:
        if not line.row.dense and line.dense and held is not None and line.retention is not None:
            yield _pruned(line.dense, line, figure, held, line.retention)
    for line in facts.lines:
        yield from _nominal(line)


def _dense(line: Line, figure: Figure, held: Interval) -> Finding:
    size, sum_ = _size(line, figure, held)
    subject = Subject.of(line, "cache", figure, unit="tokens", convention=size)
    visual = line.model.visual_tokens
    if line.nominal:
        decimal, flops = line.held_as("MB") or held, line.figure("flops")
        fewer = f" (in units of 10⁶ bytes and the like, {number(decimal.value)})" if decimal.value < held.value else ""
        counted = f" that its {flops.text} are counted for" if flops else ""
        why = (
            f"{sum_}{fewer}, text among them: fewer than the {visual} visual tokens{counted}. The cache is of what was "
            f"run, {visual} is the model's nominal count; the two describe different inputs."
        )
        return subject.finding("not_comparable", why, held)
    if line.row.text_tokens is not None:
        tokens = visual + line.row.text_tokens
        # The bytes of these tokens in the printed unit.
        expected = Interval.at(tokens * figure.printed.value / held.value)
        why = f"{sum_}. {visual} visual and {line.row.text_tokens} text tokens are {tokens}."
        verdict = judge(figure.printed, expected, larger_is_better=True)
        return subject.finding(verdict, why, replace(held, value=Fraction(tokens)))
    if held.high < visual:
        why = f"{sum_}, fewer than {visual} visual ones; in units of 2²⁰ bytes and the like they fit. The unit would "
        return subject.finding("underdetermined", f"{why}decide it.", held)
    why = f"{sum_}: the {visual} visual ones, and {number(held.value - visual)} that can be text."
    return subject.finding("supported", why, held)


def _pruned(dense: Line, line: Line, figure: Figure, held: Interval, stated: Printed) -> Finding:
    size, sum_ = _size(line, figure, held)
    subject = Subject("cache", line.place, "retention", line.row.retention or "", "share", size)
    kept, entered = line.kept, dense.entered
    if kept is None or line.text is None or entered is None:
        why = f"{sum_}. How many of them are text is not said; text_tokens, or the dense cache, would decide it."
        return subject.finding("underdetermined", why)
    text, source = line.text
    visual = held.value - text.value
    less = f"{number(held.value)} less {number(text.value)} of text{f' (by {source})' if source else ''}"
    why = f"{sum_}; {less} are {number(visual)}, {share(kept.value)} of the {number(entered.value)} that came in."
    if kept.meets(stated.allowed):
        return subject.finding("supported", why, kept)
    if not line.nominal:
        return subject.finding(judge(stated, kept, larger_is_better=False), why, kept)
    nominal = line.model.visual_tokens
    fits = stated.allowed.meets(kept.times(entered.value / nominal))
    ending = "as printed, of a count that did not come in" if fits else "which is not the print either"
    why += f" Of the nominal {nominal} they are {share(visual / nominal)}, {ending}."
    return subject.finding("not_comparable", why, kept)


def _nominal(line: Line) -> Iterator[Finding]:
    """Check a retention that an abstract or a passage states: as a share of the tokens that entered."""
    stated = line.retention
    if stated is None or not line.own or any(quantity(name).form == "amount" for name in line.row.figures):
        return
    same_model = (other for other in line.facts.lines if other.row.dense and other.row.model == line.row.model)
    entered = next((other.entered for other in same_model if other.nominal), None)
    if entered is None:
        return
    counted = stated.allowed.times(line.model.visual_tokens)
    kept = counted / entered
    why = (
        f"{share(stated.value)} of {line.model.visual_tokens} are {round(counted.value)} tokens, {share(kept.value)} "
        f"of the {number(entered.value)} visual ones that came in by the dense cache."
    )
    subject = Subject("cache", line.place, "retention", line.row.retention or "", "share", _NOMINAL)
    yield subject.finding("not_comparable", why, kept)


def _size(line: Line, figure: Figure, held: Interval) -> tuple[str, str]:
    """The unit and the number format of a cache, and the arithmetic from its bytes to its tokens."""
    unit, dtype = figure.quantity.unit, line.table.dtype
    if line.facts.reading == "MiB":
        unit = {"kB": "KiB", "MB": "MiB", "GB": "GiB"}.get(unit, unit)
    each = Fraction(line.token_bytes, 2**20)
    size = f"{number(each)} MiB" if each.denominator <= 64 else f"{line.token_bytes} bytes"
    return (
        f"{unit}, {dtype}",
        f"{figure.printed.text} {unit} at {size} a token ({dtype}) hold {number(held.value)} tokens",
    )
