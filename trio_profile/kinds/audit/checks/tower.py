"""Check what a faster decoder makes of the time to first token: the vision tower stands before it and stays.

A paper may print the speed-up of the decoder's prefill alone. With the time of the tower it becomes the largest
speed-up of the time to first token that it can mean.
"""

from collections.abc import Iterator
from fractions import Fraction

from trio_profile.cost.printed import Interval, Printed
from trio_profile.inputs.claims.facts import Facts, Figure, Line
from trio_profile.kinds.audit.document import Finding, Subject, Verdict, number
from trio_profile.text import listed


def check(facts: Facts) -> Iterator[Finding]:
    """Check every speed-up of a decoder whose tower is known, and every printed share of a tower."""
    for line in facts.lines:
        if (printed := line.row.printed("prefill_speedup")) is not None:
            yield from _capped(line, printed)
            yield from _surrounded(line, printed)
    for dense, line in facts.pairs():
        before, after = (row.printed("vision_of_ttft_pct") for row in (dense.row, line.row))
        if before is not None and after is not None:
            yield _by_shares(line, before, after)


def _capped(line: Line, printed: Printed) -> Iterator[Finding]:
    """The end-to-end speed-up, if the tower takes as long as before and the selection takes no time."""
    dense, own, nearest = line.dense and line.dense.figure("prefill"), line.figure("prefill"), _tower(line)
    if dense is None or nearest is None:
        return
    place, tower = nearest
    scale = 1 / dense.quantity.scale
    front, whole = tower.amount.times(scale), dense.printed.allowed
    part = own.amount.times(scale) if own else whole / printed.allowed
    after = number(part.value) if own else f"{dense.printed.text} / {printed.text}"
    cap = (front + whole) / (front + part)
    sum_ = f"({number(front.value)} + {dense.printed.text}) / ({number(front.value)} + {after}) = {number(cap.value)}"
    why = (
        f"{printed.text}× is of the decoder alone. The tower takes {tower.text} ({place}). End to end it is at most "
        f"{sum_}. A printed time to first token would decide it."
    )
    subject = Subject("tower", line.place, "prefill_speedup", printed.text, "×")
    yield subject.finding("underdetermined", why, cap)


def _tower(line: Line) -> tuple[str, Figure] | None:
    """The place and the time of the tower of a row's model: of the same table, or else the shortest on the device."""
    towers = [
        (other.place, figure)
        for other in line.facts.lines
        if other.row.dense and other.row.model == line.row.model and (figure := other.figure("vision"))
        if other.table is line.table or other.device == line.device is not None
    ]
    own = [tower for tower in towers if line.dense and tower[0] == line.dense.place]
    return min(own or towers, key=lambda tower: tower[1].amount.value, default=None)


def _surrounded(line: Line, decoder: Printed) -> Iterator[Finding]:
    """The share of the dense time around the decoder, by which a decoder's speed-up becomes the end-to-end one."""
    whole = line.row.printed("ttft_speedup")
    if whole is None or not 1 < whole.value < decoder.value:
        return
    around = _around(whole.value, decoder.value)
    ends = (_around(whole.allowed.high, decoder.allowed.low), _around(whole.allowed.low, decoder.allowed.high))
    sum_ = f"(1 / {whole.text} - 1 / {decoder.text}) / (1 - 1 / {decoder.text}) = {number(around)}"
    why = (
        f"{decoder.text}× of the decoder is {whole.text}× end to end if the rest takes {sum_} of the dense time. Then "
        f"the whole is at most 1 / {number(around)} = {number(1 / around)} times as fast. The time of the tower would "
        "decide it."
    )
    subject = Subject("tower", line.place, "ttft_speedup", whole.text, "share")
    yield subject.finding("underdetermined", why, Interval(max(ends[0], Fraction(0)), ends[1], around))


def _around(whole: Fraction, decoder: Fraction) -> Fraction:
    """The share r of the dense time for which r + (1 - r) / decoder is 1 / whole."""
    return (1 / whole - 1 / decoder) / (1 - 1 / decoder)


def _by_shares(line: Line, dense: Printed, own: Printed) -> Finding:
    """The speed-up of the time to first token, from the tower's share of it before and after."""
    ratio = own.allowed / dense.allowed
    others = [
        (text, other.place)
        for other in line.facts.lines
        if (other.row.model, other.row.method) == (line.row.model, line.row.method)
        if (text := other.row.printed("ttft_speedup")) is not None
    ]
    why = (
        f"The tower takes {dense.text} % of the dense time to first token and {own.text} % of this one. If it takes as "
        f"long in both, the whole is {own.text} / {dense.text} = {number(ratio.value)} times as fast."
    )
    verdict: Verdict = "underdetermined"
    if others:
        agree = any(text.allowed.meets(ratio) for text, _ in others)
        verdict = "supported" if agree else "not_comparable"
        why += f" Printed are {listed([f'{text.text} in {place}' for text, place in others])}."
    subject = Subject("tower", line.place, "vision_of_ttft_pct", own.text, "×")
    return subject.finding(verdict, why, ratio)
