"""Parts and wholes of one row: a prefill lies inside the total, and what follows it does not shrink with more tokens."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from trio_profile.analysis.audits.facts import Facts
from trio_profile.analysis.audits.findings import Finding, Verdict, ends, listed, number, place
from trio_profile.analysis.claims import Row, Table
from trio_profile.analysis.printed import Interval, Printed
from trio_profile.analysis.quantities import Quantity

_NOISE = Fraction(11, 10)
"""Two runs of the same decoding are not taken to differ below this: clocks and batches do that by themselves."""
_LOCAL = ("forward", "proxy_loss", "backward", "selection")
"""Parts of a prefill that are printed a sample."""


def check(facts: Facts) -> Iterator[Finding]:
    """Prefill and decoding in the total, decoding over retentions, and parts printed a sample in the prefill."""
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
    head = {"check": "sum", "where": place(table, row), "unit": "s"}
    if decode is not None:
        sum_, rest = part + _base_units(decode), whole - part
        scaled = Interval(sum_.low / total[0].scale, sum_.high / total[0].scale)
        meets = total[1].allowed.meets(scaled)
        value = prefill[1].value * prefill[0].scale + decode[1].value * decode[0].scale
        verdict: Verdict = "supported" if meets else "not_comparable"
        why = f"{prefill[1].text} {prefill[0].unit} of prefill and {decode[1].text} {decode[0].unit} of decoding are "
        why += f"{number(value / total[0].scale)} {total[0].unit}, where {total[1].text} are printed."
        yield Finding(
            **{**head, "unit": total[0].unit}, quantity=total[0].name, printed=total[1].text, verdict=verdict, why=why,
            recomputed=float(value / total[0].scale), interval=ends(scaled),
        )  # fmt: skip
    elif part.low > whole.high:
        rest = whole - part
        why = f"{prefill[1].text} {prefill[0].unit} of prefill are more than the total of {total[1].text} {total[0].unit}."
        yield Finding(
            **head, quantity=prefill[0].name, printed=prefill[1].text, verdict="not_comparable", why=why,
            recomputed=float(total[1].value * total[0].scale), interval=ends(rest),
        )  # fmt: skip


def _after_prefill(facts: Facts, table: Table) -> Iterator[Finding]:
    """More kept tokens cannot make the decoding of the same answers cheaper."""
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
                f"What follows the prefill takes {sums}. With more kept tokens the same answers cannot be decoded in less "
                "time: the answers, or the runs, are not the same. Their lengths would decide it."
            )
            yield Finding(
                check="sum",
                where="; ".join(place(table, row) for _, row, _, _ in found),
                quantity="after_prefill_s",
                printed=" / ".join(dict.fromkeys(row.figures[_name(facts, row)] for _, row, _, _ in found)),
                recomputed=float(first[2].low / second[2].high),
                unit="largest / least",
                verdict="underdetermined",
                why=why,
            )


def _local(facts: Facts, table: Table, row: Row) -> Iterator[Finding]:
    """Parts of a prefill that are printed a sample, against the prefill over all samples."""
    prefill = facts.amount(row, "prefill")
    parts = [found for base in _LOCAL if (found := facts.amount(row, base)) is not None]
    if prefill is None or len(parts) < 2 or prefill[0].name.endswith("_ms"):
        return
    each = sum((_base_units(part) for part in parts), Interval.at(0))
    value = sum((part[1].value * part[0].scale for part in parts), Fraction(0))
    sum_ = " + ".join(f"{printed.text}" for _, printed in parts)
    head = {"check": "sum", "where": place(table, row), "quantity": prefill[0].name, "printed": prefill[1].text}
    whole = _base_units(prefill)
    if table.samples is None:
        most = int(whole.high / each.low)
        why = (
            f"A sample's parts take {sum_} = {number(1000 * value)} ms, if they are parts of its prefill and of one "
            f"sample: {prefill[1].text} {prefill[0].unit} are then at the most {most} samples. Their number would decide it."
        )
        yield Finding(**head, unit="samples", recomputed=most, verdict="underdetermined", why=why)
        return
    sum_all = each.times(table.samples)
    verdict: Verdict = "supported" if sum_all.low <= whole.high else "not_comparable"
    why = (
        f"{table.samples} samples of {sum_} = {number(1000 * value)} ms are {number(value * table.samples)} s, "
        f"{'within' if verdict == 'supported' else 'more than'} the {prefill[1].text} {prefill[0].unit} of prefill."
    )
    yield Finding(
        **head, unit="s", recomputed=float(value * table.samples), interval=ends(sum_all), verdict=verdict, why=why
    )


def _base_units(found: tuple[Quantity, Printed]) -> Interval:
    return found[1].allowed.times(found[0].scale)


def _name(facts: Facts, row: Row) -> str:
    found = facts.amount(row, "total")
    assert found is not None
    return found[0].name
