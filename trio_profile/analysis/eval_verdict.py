"""What an evaluation's averages say: which rows lose measurably, and which ones no other row beats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trio_profile.analysis.evaluation import EvaluatedCell
from trio_profile.analysis.pareto import front
from trio_profile.analysis.recommendation import CONTROL, MOST_LOST
from trio_profile.records.estimate import Interval

Outcome = Literal["better", "worse", "same", "unknown"]
"""What an interval says: `same` is not measurably different, `unknown` is without an interval."""


@dataclass(frozen=True)
class Verdict:
    """What the averages say. Controls are never picked.

    pick: of the rows that are measurably faster than dense and keep the scores, the one with the fastest prefill. If no
        row keeps them, the one with the highest average. None if nothing can be said.
    keeps: whether `pick` keeps the scores: its average is at most two points (MOST_LOST) below dense.
    may_lose: the largest loss of `pick` that the interval of its average allows, as a share of dense.
    best: the rows for which no other row is faster in prefill and has a higher average.
    """

    pick: EvaluatedCell | None
    keeps: bool
    may_lose: float
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
    judged = [row for row in rows if row.average_ci95 is not None and row.remark != CONTROL]
    faster = [row for row in judged if row.prefill_speedup is not None and row.prefill_speedup.ci95[0] > 1]
    kept = [row for row in faster if _average(row) >= 1 - MOST_LOST]
    pick = max(kept, key=_speedup) if kept else max(faster, key=_average, default=None)
    may_lose = 0.0 if pick is None or pick.average_ci95 is None else max(0.0, 1 - pick.average_ci95[0])
    placed = [row for row in rows if row.average is not None and row.prefill_speedup is not None]
    on_front = front([(_speedup(row), -_average(row)) for row in placed])
    return Verdict(pick, bool(kept), may_lose, tuple(placed[index] for index in on_front))


def _average(row: EvaluatedCell) -> float:
    return row.average or 0.0


def _speedup(row: EvaluatedCell) -> float:
    return row.prefill_speedup.value if row.prefill_speedup is not None else 0.0
