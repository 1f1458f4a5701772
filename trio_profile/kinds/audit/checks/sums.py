"""Check sums and means: parts make the whole, more tokens decode no faster, an average is the mean of its scores."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from trio_profile.cost.printed import Interval, Printed
from trio_profile.inputs.claims.facts import Facts, Line
from trio_profile.kinds.audit.document import HOW, Finding, Subject, Verdict, judge, number
from trio_profile.text import listed

_NOISE = Fraction(11, 10)
"""Two runs of the same decoding may differ by this share, because of clocks and batches."""
_LOCAL = ("forward", "proxy_loss", "backward", "selection")
"""Parts of a prefill whose times are printed for one sample."""


def check(facts: Facts) -> Iterator[Finding]:
    """Check prefill and decoding against the total, decoding over retentions, and parts against the prefill."""
    for line in facts.lines:
        yield from _parts(line)
        yield from _local(line)
    for lines in facts.sweeps.values():
        yield from _after_prefill(lines)
    yield from _averages(facts)


def _averages(facts: Facts) -> Iterator[Finding]:
    """Check every `accuracy_kept_pct` of a row with scores: the mean of each score divided by the dense score."""
    for dense, line in facts.pairs():
        printed = line.row.printed("accuracy_kept_pct")
        if printed is None or not line.row.scores or not dense.row.scores:
            continue
        own, whole = (map(Printed.of, row.scores) for row in (line.row, dense.row))
        scores = list(zip(own, whole, strict=True))
        shares = (own.allowed / whole.allowed for own, whole in scores)
        mean = sum(shares, Interval.at(0)).times(Fraction(100, len(scores)))
        terms = " + ".join(f"{own.text}/{whole.text}" for own, whole in scores)
        why = f"100 · ({terms}) / {len(scores)} = {number(mean.value)}"
        verdict = judge(printed, mean, larger_is_better=True)
        if verdict == "supported":
            why += f": {printed.text} {HOW[printed.how(mean.value)] or 'within the rounding of the scores'}"
        convention = "mean of the shares of the dense scores"
        subject = Subject("average", line.place, "accuracy_kept_pct", printed.text, "%", convention)
        yield subject.finding(verdict, f"{why}.", mean)


def _parts(line: Line) -> Iterator[Finding]:
    total, prefill, decode = (line.figure(base) for base in ("total", "prefill", "decode"))
    if total is None or prefill is None:
        return
    if decode is not None:
        parts = (prefill.amount + decode.amount).times(1 / total.quantity.scale)
        verdict: Verdict = "supported" if total.printed.allowed.meets(parts) else "not_comparable"
        sum_ = f"{number(parts.value)} {total.quantity.unit}"
        why = f"{prefill.text} of prefill and {decode.text} of decoding are {sum_}, and {total.text} are printed."
        yield Subject.of(line, "sum", total).finding(verdict, why, parts)
    elif prefill.amount.low > total.amount.high:
        why = f"{prefill.text} of prefill are more than the total of {total.text}, which they are a part of."
        yield Subject.of(line, "sum", prefill, unit="s").finding("not_comparable", why, total.amount)


def _after_prefill(lines: list[Line]) -> Iterator[Finding]:
    """Check that decoding the same answers does not become cheaper with more kept tokens."""
    rests: list[tuple[Fraction, Line, Interval, str]] = []
    for line in lines:
        total, prefill, row = line.figure("total"), line.figure("prefill"), line.row
        if not (row.dense or line.own) or total is None or prefill is None:
            continue
        share = Fraction(1) if row.dense else Printed.of(row.retention).value if row.retention else None
        if share is not None and total.quantity.scale == prefill.quantity.scale:
            value = number(total.printed.value - prefill.printed.value)
            text = f"{total.printed.text} - {prefill.printed.text} = {value} {total.quantity.unit} ({line.name})"
            rests.append((share, line, total.amount - prefill.amount, text))
    rests.sort(key=lambda rest: rest[0])
    falls = [
        less.low / more.high
        for (fewer, _, less, _), (share, _, more, _) in combinations(rests, 2)
        if fewer < share and more.low > 0 and less.low > more.high * _NOISE
    ]
    if falls:
        why = (
            f"What follows the prefill takes {listed([text for *_, text in rests])}. The same answers do not take less "
            "time with more kept tokens. Their lengths would decide it."
        )
        where = "; ".join(line.place for _, line, _, _ in rests)
        prints = " / ".join(dict.fromkeys(text.partition(" = ")[0] for *_, text in rests))
        subject = Subject("sum", where, "after_prefill", prints, "largest / least")
        yield subject.finding("underdetermined", why, max(falls))


def _local(line: Line) -> Iterator[Finding]:
    """Compare parts that are printed for one sample with the prefill over all samples."""
    prefill, samples = line.figure("prefill"), line.samples
    parts = [part for base in _LOCAL if (part := line.figure(base)) is not None]
    fewest = 2 if samples is None else 1
    if prefill is None or len(parts) < fewest or prefill.quantity.unit == "ms":
        return
    each = sum((part.amount for part in parts), Interval.at(0))
    sum_ = f"{' + '.join(part.printed.text for part in parts)} = {number(1000 * each.value)} ms"
    if samples is None:
        most = int(prefill.amount.high / each.low)
        why = (
            f"A sample's parts take {sum_}. If they are parts of its prefill, {prefill.text} are at the most {most} "
            "samples; their number would decide it."
        )
        yield Subject.of(line, "sum", prefill, unit="samples").finding("underdetermined", why, most)
        return
    whole, left = each.times(samples), prefill.amount.value / samples - each.value
    verdict: Verdict = "supported" if whole.low <= prefill.amount.high else "not_comparable"
    why = f"{samples} samples of {sum_} are {number(whole.value)} s, and {prefill.text} of prefill are printed."
    if line.table.samples is None:
        verdict, spent = "underdetermined", f"1000 · {prefill.printed.text} / {samples} - {number(1000 * each.value)}"
        why = f"{spent} = {number(1000 * left)} ms are left beside the parts of a sample, if {line.table.dataset} has "
        why += f"{samples} questions. The tower is in it, so it is positive and alike at all retentions."
    yield Subject.of(line, "sum", prefill, unit="s").finding(verdict, why, whole)
