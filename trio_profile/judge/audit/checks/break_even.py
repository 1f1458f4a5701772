"""Check break-evens: the retention at which a printed time crosses the dense time, by linear interpolation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

from trio_profile.judge.audit.facts import Facts, Line
from trio_profile.judge.audit.finding import Finding, Subject, Verdict, number, share
from trio_profile.judge.audit.printed import Interval, Printed

Point = tuple[Printed, Printed, Line]
"""A retention, the time printed for it, and its row."""


def check(facts: Facts) -> Iterator[Finding]:
    """Check every sweep over retention with a dense row, and the claims about its crossing."""
    for table in facts.claims.tables.values():
        for model in dict.fromkeys(row.model for row in table.rows.values()):
            lines = [line for line in facts.lines if line.table is table and line.row.model == model]
            yield from _of_model(lines)


def _of_model(lines: Sequence[Line]) -> Iterator[Finding]:
    stated = [line for line in lines if line.row.break_even]
    swept = False
    for base in ("total", "prefill"):
        dense = next((line.figure(base) for line in lines if line.row.dense), None)
        points = sorted(_points(lines, base), key=lambda point: point[0].value)
        if dense is None or len(points) < 2:
            continue
        if not swept and stated:
            yield from (_finding(_claim(line), base, points, dense.printed, line) for line in stated)
        elif points[0][1].value < dense.printed.value <= points[-1][1].value:
            subject = Subject(
                "break-even", f"{lines[0].table.label}, {base}", "break_even", dense.printed.text, "share"
            )
            yield _finding(subject, base, points, dense.printed)
        swept = True
    if not swept:
        why = "No times at two retentions stand in its table beside a dense one; they would decide it."
        yield from (_claim(line).finding("underdetermined", why) for line in stated)


def _points(lines: Sequence[Line], base: str) -> Iterator[Point]:
    for line in lines:
        own = line.row.method == line.facts.claims.own
        if own and line.row.retention is not None and (time := line.figure(base)) is not None:
            yield Printed.of(line.row.retention), time.printed, line


def _claim(line: Line) -> Subject:
    said = f"between {' and '.join(line.row.break_even or ())}"
    return Subject("break-even", line.place, "break_even", said, "share")


def _finding(
    subject: Subject, base: str, points: Sequence[Point], dense: Printed, claim: Line | None = None
) -> Finding:
    crossings = [(a, b) for a, b in pairwise(points) if a[1].value < dense.value <= b[1].value]
    first, last = points[0], points[-1]
    if len(crossings) != 1:
        what = "crosses the dense one more than once" if crossings else "does not cross the dense one"
        ends = f"From {first[0].text} ({first[1].text}) to {last[0].text} ({last[1].text})"
        return subject.finding("underdetermined", f"{ends} the {base} time {what}, {dense.text}.")
    (low, before, first_line), (high, after, last_line) = crossings[0]
    subject = replace(subject, where="; ".join([subject.where, first_line.place, last_line.place]))
    crossing = _crossing(low, high, before, after, dense)
    part = f"({dense.text} - {before.text}) / ({after.text} - {before.text})"
    why = (
        f"A straight line from {before.text} at {low.text} to {after.text} at {high.text} meets {dense.text} at "
        f"{low.text} + {number(high.value - low.value)} · {part} = {number(crossing.value)}."
    )
    verdict: Verdict = "supported"
    if claim is not None and claim.row.break_even is not None:
        least, most = (Printed.of(end) for end in claim.row.break_even)
        inside = crossing.low <= most.allowed.high and least.allowed.low <= crossing.high
        if not inside:
            verdict = "understated" if crossing.value > most.value else "overstated"
        why += f" That is {share(crossing.value)}, {'inside' if inside else 'outside'} what is said."
    return subject.finding(verdict, why, crossing)


def _crossing(low: Printed, high: Printed, before: Printed, after: Printed, dense: Printed) -> Interval:
    """Where the line crosses, and all crossings that the rounding of the five figures allows.

    The extremes are at the ends of the figures.
    """

    def at(low: Fraction, high: Fraction, before: Fraction, after: Fraction, dense: Fraction) -> Fraction:
        return low + (high - low) * (dense - before) / (after - before)

    prints = (low, high, before, after, dense)
    corners = product(*((p.allowed.low, p.allowed.high) for p in prints))
    crossings = [at(*corner) for corner in corners if corner[3] > corner[2]]
    least, most = max(min(crossings), low.allowed.low), min(max(crossings), high.allowed.high)
    return Interval(least, most, at(*(p.value for p in prints)))
