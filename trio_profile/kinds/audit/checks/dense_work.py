"""Check the printed work of a dense prefill: which convention gives it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from trio_profile.cost.conventions import Convention, Match, Prefill, explain, find, match, steps
from trio_profile.cost.printed import Printed
from trio_profile.inputs.claims.facts import Facts, Figure, Line, shape
from trio_profile.kinds.audit.document import HOW, Finding, Subject, Verdict, number
from trio_profile.text import listed


def check(facts: Facts) -> Iterator[Finding]:
    """Compare every figure of dense work with the table's convention, or with all conventions in use."""
    for line, figure in _dense_figures(facts, "flops", "macs"):
        yield _finding(line, figure)


@lru_cache(1000)
def conventions(dense: Line, base: str = "flops") -> list[Convention]:
    """The conventions that give a dense row's work, those that give the most rows first."""
    if dense.table.convention is not None:
        return [find(dense.table.convention)]
    figure = dense.figure(base)
    if figure is None:
        return []
    printing = [_exact(line, other) for line, other in _dense_figures(dense.facts, base)]
    # Sorting is stable, and the simplest conventions come first.
    return sorted(_exact(dense, figure), key=lambda own: sum(own in others for others in printing), reverse=True)


def described(dense: Line, figure: Figure) -> tuple[str, str]:
    """The code of the simplest convention of a dense row's work, and in words what else is known of it."""
    if known := conventions(dense, figure.quantity.base):
        lacking = [(name, macs / figure.quantity.scale) for name, macs in steps(known[0], _prefill(dense))]
        parts = [f"“{name}” ({float(work):+.3f})" for name, work in lacking if abs(work) >= figure.printed.last]
        return known[0].code, f", which lacks {listed(parts)}" if parts else ""
    for tried in _matches(dense, figure):
        if tried.text_tokens:
            return tried.code, f" with {_span(tried.text_tokens)} text tokens"
    return "no known convention", ""


def _exact(line: Line, figure: Figure) -> list[Convention]:
    return [tried.convention for tried in _matches(line, figure) if tried.printed != "no"]


def _dense_figures(facts: Facts, *bases: str) -> Iterator[tuple[Line, Figure]]:
    """The printed work of the rows that keep all tokens."""
    for line in facts.lines:
        if line.row.dense or (line.row.retention is not None and Printed.of(line.row.retention).value == 1):
            yield from ((line, figure) for base in bases if (figure := line.figure(base)) is not None)


def _prefill(line: Line) -> Prefill:
    """The prefill that is counted. Text is left out if its length is unknown."""
    return Prefill(shape(line.model, line.text_count), (line.model.visual_tokens,) * line.model.layers)


def _claimed(figure: Figure) -> Printed:
    """The printed figure in single operations, with its digits."""
    printed, scale = figure.printed, figure.quantity.scale
    return Printed(printed.text, printed.value * scale, printed.last * scale)


def _matches(line: Line, figure: Figure) -> list[Match]:
    # The tower's work is unknown here, so conventions with and without it are equal. The same holds for a head
    # without a vocabulary, and for text of unknown length.
    return [
        tried
        for tried in explain(_claimed(figure), _prefill(line))
        if not tried.convention.tower
        and (line.model.vocab or tried.convention.head == "none")
        and (line.text_count or tried.convention.tokens == "visual" or tried.text_tokens)
        and (figure.quantity.base == "flops" or tried.convention.unit == "macs")
    ]


def _finding(line: Line, figure: Figure) -> Finding:
    """Find the convention of a figure, or the nearest one. Only the table's own is tried, if it states one."""
    subject, scale, base = Subject.of(line, "work", figure), figure.quantity.scale, figure.quantity.base
    code, claimed = line.table.convention, _claimed(figure)
    matches = [match(claimed, find(code), _prefill(line))] if code else _matches(line, figure)
    if any(tried.printed != "no" for tried in matches):
        best = conventions(line, base)[0]
        fitting = next(tried for tried in matches if tried.convention == best)
        why = f"{_gives(line, figure, fitting)}, {figure.printed.text} {HOW[fitting.printed]}."
        if best.unit == "macs" and base == "flops":
            why += " They are multiply-adds; FLOPs are twice as many."
        if best.ffn == 2 and line.model.ffn_matrices == 3:
            why += " The FFN's gate is left out."
        if best.tokens == "visual":
            why += " No text is counted."
        return replace(subject, convention=fitting.code).finding("supported", why, float(fitting.value / scale))
    if not matches:
        why = "No convention in use comes near; how it was counted would decide it."
        return subject.finding("underdetermined", why)
    nearest, *others = matches
    gives, value = _gives(line, figure, nearest), float(nearest.value / scale)
    if code:
        verdict: Verdict = "overstated" if nearest.value < claimed.value else "understated"
        return replace(subject, convention=code).finding(verdict, f"By the table's convention ({gives}).", value)
    why = f"No convention in use prints it. The nearest is {gives}, off by {100 * nearest.off:+.2g} %."
    if others and (span := others[0].text_tokens):
        tokens = _span(span)
        why += f" {others[0].name} would print it with {tokens} text tokens; the length of the prompt would decide it."
    return subject.finding("underdetermined", why, value)


def _span(ends: tuple[int, int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _gives(line: Line, figure: Figure, tried: Match) -> str:
    """The name of a convention, its input, and the work that it gives."""
    text = "" if tried.convention.tokens == "visual" else f" + {line.text_count}"
    value = number(tried.value / figure.quantity.scale)
    return f"{tried.name}, n = {line.model.visual_tokens}{text}: {value} {figure.quantity.unit}"
