"""Check caches: the number of tokens that entered, and the share that was kept, by the printed bytes."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from trio_profile.judge.audit.claims import Model, Row, Table
from trio_profile.judge.audit.facts import Facts
from trio_profile.judge.audit.finding import Finding, Subject, Verdict, judge, number, place, share
from trio_profile.judge.audit.printed import Interval, Printed
from trio_profile.judge.audit.quantities import quantity

_NOMINAL = "nominal-visual-tokens"
"""The retention is a share of the nominal number of tokens, and not of those that entered."""


def check(facts: Facts) -> Iterator[Finding]:
    """Check every dense cache, every pruned cache, and every retention of tokens that did not enter."""
    for table, row in facts.claims.rows():
        if row.method is None and facts.cached_tokens(table, row) is not None:
            yield _dense(facts, table, row)
    for table, dense, row in facts.pairs():
        if facts.cached_tokens(table, row) is not None and facts.retention(row) is not None:
            yield _pruned(facts, table, dense, row)
    yield from _nominal(facts)


def _dense(facts: Facts, table: Table, row: Row) -> Finding:
    model, (held, value) = _known(facts, table, row)
    subject, printed, sum_ = _subject(facts, table, row)
    visual = model.visual_tokens
    if facts.nominal(table, row):
        decimal = Facts(facts.claims, "MB").cached_tokens(table, row)
        assert decimal is not None
        other = f" (in units of 10⁶ bytes and the like, {number(decimal[1])})" if decimal[1] < value else ""
        flops = facts.amount(row, "flops")
        beside = f" that its {flops[1].text} {flops[0].unit} are counted for" if flops else ""
        why = (
            f"{sum_}{other}, text among them: fewer than the {visual} visual tokens{beside}. "
            f"The cache is of what was run, {visual} is the model's nominal count; the two describe different inputs."
        )
        return subject.finding("not_comparable", why, value, held)
    if row.text_tokens is not None:
        tokens = visual + row.text_tokens
        verdict = judge(printed, _as_printed(facts, table, row, tokens), larger_is_better=True)
        why = f"{sum_}. {visual} visual and {row.text_tokens} text tokens are {tokens}."
        return subject.finding(verdict, why, tokens, held)
    if held.high < visual:
        why = f"{sum_}, fewer than {visual} visual ones; in units of 2²⁰ bytes and the like they fit. The unit would "
        return subject.finding("underdetermined", f"{why}decide it.", value, held)
    left = value - visual
    why = f"{sum_}: the {visual} visual ones, and {number(left)} that can be text."
    return subject.finding("supported", why, value, held)


def _pruned(facts: Facts, table: Table, dense: Row, row: Row) -> Finding:
    model, (_, value) = _known(facts, table, row)
    subject, _, sum_ = _subject(facts, table, row)
    stated = facts.retention(row)
    assert stated is not None
    subject = replace(subject, quantity="retention", printed=row.retention or stated.text, unit="share")
    kept, text, entered = facts.kept(table, dense, row), facts.text(table, row), facts.entered(table, dense)
    if kept is None or text is None or entered is None:
        why = f"{sum_}. How many of them are text is not said; text_tokens, or the dense cache, would decide it."
        return subject.finding("underdetermined", why)
    whose = "" if text[2] == "stated" else f" (by {text[2]})"
    of = f"{number(value)} less {number(text[1])} of text{whose} are {number(value - text[1])}"
    whole = f"{number(entered[1])} that came in"
    why = f"{sum_}; {of}, {share(kept[1])} of the {whole}."
    if kept[0].meets(stated.allowed):
        return subject.finding("supported", why, kept[1], kept[0])
    verdict: Verdict = judge(stated, kept[0], larger_is_better=False)
    if facts.nominal(table, dense):
        verdict = "not_comparable"
        nominal = (value - text[1]) / model.visual_tokens
        fits = stated.allowed.meets((facts.kept(table, dense, row) or kept)[0].times(entered[1] / model.visual_tokens))
        ending = "as printed, of a count that did not come in" if fits else "which is not the print either"
        why += f" Of the nominal {model.visual_tokens} they are {share(nominal)}, {ending}."
    return subject.finding(verdict, why, kept[1], kept[0])


def _nominal(facts: Facts) -> Iterator[Finding]:
    """Check a retention that an abstract or a passage states: as a share of the tokens that entered."""
    for table, row in facts.claims.rows():
        stated, model = facts.retention(row), facts.model(row)
        said = not any(quantity(name).form == "amount" for name in row.figures)
        if stated is None or model is None or row.method != facts.claims.own or not said:
            continue
        real = _came_in(facts, row)
        if real is None:
            continue
        count = stated.value * model.visual_tokens
        value = count / real[1]
        why = (
            f"{share(stated.value)} of {model.visual_tokens} are {round(count)} tokens, {share(value)} of the "
            f"{number(real[1])} visual ones that came in by the dense cache."
        )
        subject = Subject("cache", place(table, row), "retention", row.retention or stated.text, "share", _NOMINAL)
        yield subject.finding("not_comparable", why, value, stated.allowed.times(model.visual_tokens) / real[0])


def _came_in(facts: Facts, row: Row) -> tuple[Interval, Fraction] | None:
    """The tokens that entered by the dense cache of this model, if they are fewer than its visual tokens."""
    for table, dense in facts.claims.rows():
        if dense.method is None and dense.model == row.model and facts.nominal(table, dense):
            return facts.entered(table, dense)
    return None


def _known(facts: Facts, table: Table, row: Row) -> tuple[Model, tuple[Interval, Fraction]]:
    model, cached = facts.model(row), facts.cached_tokens(table, row)
    assert model is not None and cached is not None
    return model, cached


def _subject(facts: Facts, table: Table, row: Row) -> tuple[Subject, Printed, str]:
    """The subject of a cache's findings, its printed figure, and the arithmetic from bytes to tokens."""
    found, model, cached = facts.amount(row, "kv"), facts.model(row), facts.cached_tokens(table, row)
    assert found is not None and model is not None and cached is not None
    meant, printed = found
    binary = {"kB": "KiB", "MB": "MiB", "GB": "GiB"} if facts.reading == "MiB" else {}
    unit = binary.get(meant.unit, meant.unit)
    each = Fraction(facts.token_bytes(table, model), 2**20)
    of = f"{number(each)} MiB" if each.denominator <= 64 else f"{facts.token_bytes(table, model)} bytes"
    subject = Subject("cache", place(table, row), meant.name, printed.text, "tokens", f"{unit}, {table.dtype}")
    return (
        subject,
        printed,
        f"{printed.text} {unit} at {of} a token ({table.dtype}) hold {number(cached[1])} tokens",
    )


def _as_printed(facts: Facts, table: Table, row: Row, tokens: int) -> Interval:
    """The bytes of some tokens in the unit of the printed figure."""
    found, model = facts.cache_bytes(row), facts.model(row)
    assert found is not None and model is not None
    printed, _, value = found
    return Interval.at(tokens * facts.token_bytes(table, model) / (value / printed.value))
