"""The line that the pytest plugin prints for each verdict."""

from trio_profile import units
from trio_profile.gate.verdict import Verdict


def sentence(verdict: Verdict) -> str:
    """A verdict as one line."""
    head = f"{verdict.verdict}: {verdict.quantity} of {verdict.where}"
    if isinstance(verdict.new, int):
        return f"{head} went from {units.exact(int(verdict.base or 0))} to {units.exact(verdict.new)}"
    if verdict.ratio is None or verdict.ci95 is None:
        return f"{head} is {units.milliseconds(verdict.new)} ({verdict.samples} samples); no base to compare with"
    note = f"; {verdict.note}" if verdict.note else ""
    return f"{head} is {units.times_within(verdict.ratio, verdict.ci95)} of the base's ({verdict.samples} pairs{note})"
