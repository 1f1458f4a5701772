"""What the pytest plugin prints: one sentence for each verdict, and the table of the self-test."""

from trio_profile import units
from trio_profile.gate.selftest import Rates
from trio_profile.gate.verdict import Verdict

_HEADS = (
    "false\nalarms",
    "left\nopen",
    "caught",
    "reached\n1 %",
    "caught\nof these",
    "pairs",
    "two means:\nfalse",
    "caught",
    "two jobs:\nfalse",
    "caught",
)
"""The columns of the self-test, as fields of `Rates` come in `selftest_row`."""


def sentence(verdict: Verdict) -> str:
    """A verdict as one line."""
    head = f"{verdict.verdict}: {verdict.quantity} of {verdict.where}"
    if isinstance(verdict.new, int):
        return f"{head} went from {units.exact(int(verdict.base or 0))} to {units.exact(verdict.new)}"
    if verdict.ratio is None or verdict.ci95 is None:
        return f"{head} is {units.milliseconds(verdict.new)} ({verdict.samples} samples); no base to compare with"
    note = f"; {verdict.note}" if verdict.note else ""
    return f"{head} is {units.times_within(verdict.ratio, verdict.ci95)} of the base's ({verdict.samples} pairs{note})"


def selftest_head(comparisons: int) -> str:
    """The title and the column heads of the self-test's table.

    comparisons: how many comparisons of each kind of noise.
    """
    lines = zip(*((["", *head.split("\n")])[-2:] for head in _HEADS), strict=True)
    table = "\n".join(f"{'':<16}" + "".join(f"{word:>10}" for word in line) for line in lines)
    return f"{comparisons} comparisons a model: nothing changed (false alarms, left open), 5 % slower (caught)\n{table}"


def selftest_row(rates: Rates) -> str:
    """The row of one kind of noise."""
    shares = (rates.false_alarms, rates.inconclusive, rates.caught, rates.reached, rates.caught_reached)
    naive = (rates.naive.false_alarms, rates.naive.caught, rates.naive_jobs.false_alarms, rates.naive_jobs.caught)
    words = [
        *(units.percent(share) for share in shares),
        units.exact(round(rates.pairs)),
        *(units.percent(share) for share in naive),
    ]
    return f"{rates.model:<16}" + "".join(f"{word:>10}" for word in words)
