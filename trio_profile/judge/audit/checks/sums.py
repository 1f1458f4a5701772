"""Check sums: a prefill is part of the total, and decoding does not become cheaper with more tokens."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from trio_profile.judge.audit.claims import Row, Table
from trio_profile.judge.audit.facts import Facts
from trio_profile.judge.audit.finding import Finding, Subject, Verdict, listed, number, place
from trio_profile.judge.audit.printed import Interval, Printed
from trio_profile.judge.audit.quantities import Quantity

_NOISE = Fraction(11, 10)
"""Two runs of the same decoding may differ by this share, because of clocks and batches."""
_LOCAL = ("forward", "proxy_loss", "backward", "selection")
"""Parts of a prefill whose times are printed for one sample."""


def check(facts: Facts) -> Iterator[Finding]:
    """Check prefill and decoding against the total, decoding over retentions, and parts against the prefill."""
    for table, row in facts.claims.rows():
        yield from _parts(facts, table, row)
        yield from _local(facts, table, row)
    for table in facts.claims.tables:
        yield from _after_prefill(facts, table)


def _parts(facts: Facts, table: Table, row: Row) -> Iterator[Finding]:
    total, prefill, decode = (facts.amount(row, base) for base in ("total", "prefill", "decode"))
    if total is None or prefill is None:
        return
    whole, part = _base_units(total), _base_units(prefill)
    if decode is not None:
        scaled = (part + _base_units(decode)).times(1 / total[0].scale)
        value = (prefill[1].value * prefill[0].scale + decode[1].value * decode[0].scale) / total[0].scale
        verdict: Verdict = "supported" if total[1].allowed.meets(scaled) else "not_comparable"
        why = (
            f"{_shown(prefill)} of prefill and {_shown(decode)} of decoding are {number(value)} {total[0].unit}, and "
            f"{_shown(total)} are printed."
        )
        subject = Subject("sum", place(table, row), total[0].name, total[1].text, total[0].unit)
        yield subject.finding(verdict, why, value, scaled)
    elif part.low > whole.high:
        why = f"{_shown(prefill)} of prefill are more than the total of {_shown(total)}, which they are a part of."
        subject = Subject("sum", place(table, row), prefill[0].name, prefill[1].text, "s")
        yield subject.finding("not_comparable", why, total[1].value * total[0].scale, whole)


def _after_prefill(facts: Facts, table: Table) -> Iterator[Finding]:
    """Check that decoding the same answers does not become cheaper with more kept tokens."""
    for model in dict.fromkeys(row.model for row in table.rows):
        found: list[tuple[Fraction, Row, Interval, str]] = []
        for row in table.rows:
            total, prefill = facts.amount(row, "total"), facts.amount(row, "prefill")
            own = row.method is None or row.method == facts.claims.own
            if row.model != model or not own or total is None or prefill is None:
                continue
            share = Fraction(1) if row.method is None else Printed.of(row.retention).value if row.retention else None
            if share is not None and total[0] != prefill[0] and total[0].scale == prefill[0].scale:
                rest = _base_units(total) - _base_units(prefill)
                value = total[1].value - prefill[1].value
                text = f"{total[1].text} - {prefill[1].text} = {number(value)} {total[0].unit} ({row.label})"
                found.append((share, row, rest, text))
        found.sort(key=lambda one: one[0])
        falls = [
            (less, more)
            for less, more in combinations(found, 2)
            if less[0] < more[0] and more[2].low > 0 and less[2].low > more[2].high * _NOISE
        ]
        if falls:
            first, second = max(falls, key=lambda pair: pair[0][2].low / pair[1][2].high)
            sums = listed(text for _, _, _, text in found)
            why = (
                f"What follows the prefill takes {sums}. With more kept tokens the same answers cannot be decoded in "
                "less time: the answers, or the runs, are not the same. Their lengths would decide it."
            )
            where = "; ".join(place(table, row) for _, row, _, _ in found)
            prints = " / ".join(dict.fromkeys(text.partition(" = ")[0] for _, _, _, text in found))
            spread = first[2].low / second[2].high
            yield Subject("sum", where, "after_prefill", prints, "largest / least").finding(
                "underdetermined", why, spread
            )


def _local(facts: Facts, table: Table, row: Row) -> Iterator[Finding]:
    """Compare parts that are printed for one sample with the prefill over all samples."""
    prefill = facts.amount(row, "prefill")
    parts = [found for base in _LOCAL if (found := facts.amount(row, base)) is not None]
    if prefill is None or len(parts) < 2 or prefill[0].name.endswith("_ms"):
        return
    each = sum((_base_units(part) for part in parts), Interval.at(0))
    value = sum((part[1].value * part[0].scale for part in parts), Fraction(0))
    sum_ = " + ".join(f"{printed.text}" for _, printed in parts)
    subject = Subject("sum", place(table, row), prefill[0].name, prefill[1].text, "samples")
    whole = _base_units(prefill)
    if table.samples is None:
        most = int(whole.high / each.low)
        why = (
            f"A sample's parts take {sum_} = {number(1000 * value)} ms. If they are parts of its prefill, "
            f"{_shown(prefill)} are at the most {most} samples; their number would decide it."
        )
        yield subject.finding("underdetermined", why, most)
        return
    all_samples = each.times(table.samples)
    fits = all_samples.low <= whole.high
    why = (
        f"{table.samples} samples of {sum_} = {number(1000 * value)} ms are {number(value * table.samples)} s, "
        f"{'within' if fits else 'more than'} the {_shown(prefill)} of prefill."
    )
    verdict: Verdict = "supported" if fits else "not_comparable"
    yield replace(subject, unit="s").finding(verdict, why, value * table.samples, all_samples)


def _base_units(found: tuple[Quantity, Printed]) -> Interval:
    return found[1].allowed.times(found[0].scale)


def _shown(found: tuple[Quantity, Printed]) -> str:
    return f"{found[1].text} {found[0].unit}"
