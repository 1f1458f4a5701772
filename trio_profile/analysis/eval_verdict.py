"""What an evaluation's averages say: which rows lose measurably, and which ones no other row beats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trio_profile.analysis.evaluation import EvaluatedCell
from trio_profile.analysis.pareto import front
from trio_profile.records.estimate import Interval

Outcome = Literal["better", "worse", "same", "unknown"]
"""What an interval says: `same` is not measurably different, `unknown` is without an interval."""


@dataclass(frozen=True)
class Verdict:
    """What the averages say.

    pick: the row that is fastest in prefill, of those that are measurably faster than dense and not measurably worse.
        If all rows lose, the one with the highest average. None if nothing can be said.
    best: the rows for which no other row is faster in prefill and has a higher average.
    """

    pick: EvaluatedCell | None
    best: tuple[EvaluatedCell, ...]


def outcome(bounds: Interval | None, level: float) -> Outcome:
    """Return what an interval says about a level: 1 for a share of dense, 0 for a difference."""
    if bounds is None:
        return "unknown"
    return "better" if bounds[0] > level else "worse" if bounds[1] < level else "same"


def average_outcome(row: EvaluatedCell) -> Outcome:
    """Return what the interval of a row's average says."""
    return outcome(row.average_ci95, 1.0)


def verdict(rows: Sequence[EvaluatedCell]) -> Verdict:
    """Return what the averages of the pruned rows say."""
    judged = [row for row in rows if average_outcome(row) != "unknown"]
    faster = [row for row in judged if row.prefill_speedup is not None and row.prefill_speedup.ci95[0] > 1]
    kept = [row for row in faster if average_outcome(row) != "worse"]
    pick = None
    if kept:
        pick = max(kept, key=_speedup)
    elif judged and all(average_outcome(row) == "worse" for row in judged):
        pick = max(judged, key=lambda row: row.average or 0.0)
    placed = [row for row in rows if row.average is not None and row.prefill_speedup is not None]
    on_front = front([(_speedup(row), -(row.average or 0.0)) for row in placed])
    return Verdict(pick, tuple(placed[index] for index in on_front))


def _speedup(row: EvaluatedCell) -> float:
    return row.prefill_speedup.value if row.prefill_speedup is not None else 0.0
