"""Check break-evens: the retention at which a printed time crosses the dense time, by linear interpolation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

from trio_profile.judge.audit.claims import Row, Table
from trio_profile.judge.audit.facts import Facts
from trio_profile.judge.audit.finding import Finding, Subject, Verdict, number, place, share
from trio_profile.judge.audit.printed import Interval, Printed

Point = tuple[Printed, Printed, Row]
"""A retention, the figure printed for it, and its place."""
_BASES = ("total", "prefill")


def check(facts: Facts) -> Iterator[Finding]:
    """Check every sweep over retention with a dense row, and the claims about its crossing."""
    for table in facts.claims.tables:
        for model in dict.fromkeys(row.model for row in table.rows):
            said = [row for row in table.rows if row.break_even and row.model == model]
            swept = False
            for base in _BASES:
                dense = facts.amount(table.dense(model), base)
                own = [row for row in table.rows if row.model == model and row.method == facts.claims.own]
                points = sorted(_points(facts, own, base), key=lambda point: point[0].value)
                if dense is None or len(points) < 2:
                    continue
                if not swept and said:
                    yield from (_finding(table, row, base, points, dense[1]) for row in said)
                elif points[0][1].value < dense[1].value <= points[-1][1].value:
                    yield _finding(table, None, base, points, dense[1])
                swept = True
            if not swept:
                yield from (_unseen(table, row) for row in said)


def _points(facts: Facts, rows: Sequence[Row], base: str) -> Iterator[Point]:
    for row in rows:
        if (found := facts.amount(row, base)) is not None and row.retention is not None:
            yield Printed.of(row.retention), found[1], row


def _finding(table: Table, row: Row | None, base: str, points: Sequence[Point], dense: Printed) -> Finding:
    lines = [(a, b) for a, b in pairwise(points) if a[1].value < dense.value <= b[1].value]
    first, last = points[0], points[-1]
    said = None if row is None else row.break_even
    printed = dense.text if said is None else _said(said)
    where = f"{table.name}, {base}" if row is None else place(table, row)
    subject = Subject("break-even", where, "break_even", printed, "share")
    if len(lines) != 1:
        what = "crosses the dense one more than once" if lines else "does not cross the dense one"
        ends = f"From {first[0].text} ({first[1].text}) to {last[0].text} ({last[1].text})"
        return subject.finding("underdetermined", f"{ends} the {base} time {what}, {dense.text}.")
    (low, before, first_row), (high, after, last_row) = lines[0]
    subject = replace(subject, where="; ".join([where, place(table, first_row), place(table, last_row)]))
    value = _crossing(low.value, high.value, before.value, after.value, dense.value)
    part = f"({dense.text} - {before.text}) / ({after.text} - {before.text})"
    why = (
        f"A straight line from {before.text} at {low.text} to {after.text} at {high.text} meets {dense.text} at "
        f"{low.text} + {number(high.value - low.value)} · {part} = {number(value)}."
    )
    interval = _interval(low, high, before, after, dense)
    verdict: Verdict = "supported"
    if said is not None:
        least, most = (Printed.of(end) for end in said)
        inside = interval.meets(Interval(least.allowed.low, most.allowed.high))
        if not inside:
            verdict = "understated" if value > most.value else "overstated"
        why += f" That is {share(value)}, {'inside' if inside else 'outside'} what is said."
    return subject.finding(verdict, why, value, interval)


def _said(break_even: tuple[str, str]) -> str:
    return f"between {' and '.join(break_even)}"


def _crossing(low: Fraction, high: Fraction, before: Fraction, after: Fraction, dense: Fraction) -> Fraction:
    return low + (high - low) * (dense - before) / (after - before)


def _interval(low: Printed, high: Printed, before: Printed, after: Printed, dense: Printed) -> Interval:
    """All crossings that the rounding of the five figures allows. The extremes are at the ends of the figures."""
    edges = [(p.allowed.low, p.allowed.high) for p in (low, high, before, after, dense)]
    found = [_crossing(*corner) for corner in product(*edges) if corner[3] > corner[2]]
    return Interval(max(min(found), low.allowed.low), min(max(found), high.allowed.high))


def _unseen(table: Table, row: Row) -> Finding:
    assert row.break_even is not None
    subject = Subject("break-even", place(table, row), "break_even", _said(row.break_even), "share")
    why = "No times at two retentions stand in its table beside a dense one; they would decide it."
    return subject.finding("underdetermined", why)
