"""Check break-evens: the retention at which a printed time crosses the dense time, by linear interpolation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

from trio_profile.cost.printed import Interval, Printed
from trio_profile.inputs.claims.facts import Facts, Line
from trio_profile.kinds.audit.document import Finding, Subject, Verdict, number, share


def check(facts: Facts) -> Iterator[Finding]:
    """Check the claims about a break-even against the sweep over retention of their table and model."""
    for lines in facts.sweeps.values():
        for line in lines:
            if line.row.break_even is not None:
                yield _finding(line, lines, line.row.break_even)


def _sweep(lines: Sequence[Line], base: str) -> tuple[Printed, list[tuple[Printed, Printed, Line]]] | None:
    """The dense time, and each retention of the paper's method with its time and row; None without two of them."""
    times = [(line, figure.printed) for line in lines if (figure := line.figure(base))]
    dense = next((time for line, time in times if line.row.dense), None)
    points = [(Printed.of(line.row.retention), time, line) for line, time in times if line.own and line.row.retention]
    if dense is None or len(points) < 2:
        return None
    return dense, sorted(points, key=lambda point: point[0].value)


def _finding(claim: Line, lines: Sequence[Line], ends: tuple[str, str]) -> Finding:
    """Compare a claim with the crossing of the printed times: of the total ones, or else of the prefill."""
    subject = Subject("break-even", claim.place, "break_even", f"between {' and '.join(ends)}", "share")
    sweep = _sweep(lines, "total") or _sweep(lines, "prefill")
    if sweep is None:
        why = "No times at two retentions stand in its table beside a dense one; they would decide it."
        return subject.finding("underdetermined", why)
    dense, points = sweep
    crossings = [(a, b) for a, b in pairwise(points) if a[1].value < dense.value <= b[1].value]
    if len(crossings) != 1:
        times = ", ".join(f"{time.text} at {at.text}" for at, time, _ in points)
        why = f"The times {times} cross the dense one, {dense.text}, {len(crossings)} times."
        return subject.finding("underdetermined", why)
    (low, before, first_line), (high, after, last_line) = crossings[0]
    subject = replace(subject, where="; ".join([claim.place, first_line.place, last_line.place]))
    crossing = _crossing(low, high, before, after, dense)
    least, most = (Printed.of(end) for end in ends)
    inside = crossing.low <= most.allowed.high and least.allowed.low <= crossing.high
    verdict: Verdict = "supported" if inside else "understated" if crossing.value > most.value else "overstated"
    part = f"({dense.text} - {before.text}) / ({after.text} - {before.text})"
    why = (
        f"A straight line from {before.text} at {low.text} to {after.text} at {high.text} meets {dense.text} at "
        f"{low.text} + {number(high.value - low.value)} · {part} = {number(crossing.value)}. That is "
        f"{share(crossing.value)}, {'inside' if inside else 'outside'} what is said."
    )
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
