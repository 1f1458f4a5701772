"""Check printed averages over benchmarks: the mean of each score divided by the dense score."""

from collections.abc import Iterator
from fractions import Fraction

from trio_profile.judge.audit.facts import Facts
from trio_profile.judge.audit.finding import Finding, Subject, as_printed, judge, number, place
from trio_profile.judge.audit.printed import Interval, Printed

_MEAN = "mean of the shares of the dense scores"


def check(facts: Facts) -> Iterator[Finding]:
    """Check every `accuracy_kept_pct` of a row with scores, if the dense row has scores too."""
    for table, dense, row in facts.pairs():
        printed = row.printed("accuracy_kept_pct")
        if printed is None or not row.scores or not dense.scores:
            continue
        own, whole = ([Printed.of(score) for score in one.scores] for one in (row, dense))
        ratios = [mine.allowed / its.allowed for mine, its in zip(own, whole, strict=True)]
        found = sum(ratios, Interval.at(0)).times(Fraction(100, len(ratios)))
        shares = [mine.value / its.value for mine, its in zip(own, whole, strict=True)]
        value = 100 * sum(shares, Fraction(0)) / len(shares)
        how = as_printed(printed, value) or "within the rounding of the scores"
        verdict = judge(printed, found, larger_is_better=True)
        terms = " + ".join(f"{mine.text}/{its.text}" for mine, its in zip(own, whole, strict=True))
        why = f"100 · ({terms}) / {len(shares)} = {number(value)}"
        why = f"{why}: {printed.text} {how}." if verdict == "supported" else f"{why}."
        subject = Subject("average", place(table, row), "accuracy_kept_pct", printed.text, "%", _MEAN)
        yield subject.finding(verdict, why, value, found)
