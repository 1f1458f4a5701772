"""What to deploy: the fastest cell that keeps the right answers, and how far this can be trusted.

Controls are measured to be beaten, so they are never recommended.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Literal

from trio_profile import units
from trio_profile.analysis.cells import CellSummary
from trio_profile.analysis.doubt import Doubt
from trio_profile.records.estimate import Difference, Ratio
from trio_profile.records.schema import Cell, Record

MOST_LOST = 0.02
"""A cell keeps the answers if it loses at most this share of the questions: two points."""
CONTROL = "control"
"""The remark of a method that others are compared with. [trio_core.methods.method.Reference.remark]."""
_SERIOUS = ("samples", "busy", "machine", "cached", "strangers", "threads", "sessions", "clock")
"""The kinds of doubt under which a speed-up may be wrong by more than its interval."""
_POSSIBLE_LOSS = (0.05, 0.10)
"""If the interval allows a larger loss than the first, confidence is medium; than the second, it is low."""
_LEVELS: tuple[Literal["high", "medium", "low"], ...] = ("high", "medium", "low")


class Pick(Record):
    """One cell that can be recommended.

    retention: the nominal retention. realised: the retention that it ran at.
    prefill_speedup, total_speedup, accuracy_difference: as in `CellSummary`.
    """

    method: str
    retention: float
    realised: float
    prefill_speedup: Ratio
    total_speedup: Ratio | None = None
    accuracy_difference: Difference | None = None


class Confidence(Record):
    """How far a recommendation can be trusted. reasons: why; the weightiest first."""

    level: Literal["high", "medium", "low"]
    reasons: tuple[str, ...]


class Recommendation(Record):
    """What follows from all cells of a study.

    status: `use` if a cell is faster than dense and keeps the answers; `cost_alone` if no answers are known, so that
        only the speed is judged; `slower` if no cell is measurably faster; `answers_lost` if every faster cell loses
        more than two points of right answers; `unmeasured` if no method but controls is measured.
    pick: the fastest such cell; with `answers_lost` the faster cell that loses least; otherwise None.
    ties: the fastest such cells of other methods whose speed-up these measurements cannot tell from that of `pick`.
    below: the next lower retention of the method that loses more; None if none was measured.
    lowest: the lowest retention of the method that was measured.
    confidence: in `pick`; None without one.
    """

    status: Literal["use", "cost_alone", "slower", "answers_lost", "unmeasured"]
    pick: Pick | None = None
    ties: tuple[Pick, ...] = ()
    below: Pick | None = None
    lowest: float | None = None
    confidence: Confidence | None = None


def recommend(cells: Sequence[CellSummary], doubts: Sequence[Doubt]) -> Recommendation:
    """Return what to deploy.

    cells: of all methods and retentions, also unfinished ones.
    doubts: about the study and its cells.
    """
    judged = [cell for cell in cells if cell.prefill_speedup is not None and cell.remark != CONTROL]
    if not judged:
        return Recommendation(status="unmeasured")
    faster = [cell for cell in judged if is_faster(cell)]
    if not faster:
        return Recommendation(status="slower")
    best = fastest(judged)
    if best is None:
        least = max(faster, key=_difference)
        return Recommendation(status="answers_lost", pick=_pick(least), confidence=_confidence(least, doubts))
    others = (fastest([cell for cell in judged if cell.method == name]) for name in dict.fromkeys(_methods(judged)))
    ties = [cell for cell in others if cell is not None and cell.method != best.method and _overlap(cell, best)]
    same = [cell for cell in judged if cell.method == best.method]
    return Recommendation(
        status="cost_alone" if best.accuracy_difference is None else "use",
        pick=_pick(best),
        ties=tuple(_pick(cell) for cell in sorted(ties, key=_speedup, reverse=True)),
        below=_below(best, same),
        lowest=min(_realised(cell) for cell in same),
        confidence=_confidence(best, doubts),
    )


def fastest(cells: Sequence[CellSummary]) -> CellSummary | None:
    """Return the fastest cell that is measurably faster than dense and keeps the answers; None if there is none.

    Where no answers are known, speed alone decides.
    """
    found = [cell for cell in cells if is_faster(cell) and keeps_answers(cell)]
    return max(found, key=_speedup, default=None)


def is_faster(cell: CellSummary) -> bool:
    """Whether the whole interval of the prefill's speed-up lies above 1."""
    return cell.prefill_speedup is not None and cell.prefill_speedup.ci95[0] > 1


def keeps_answers(cell: CellSummary) -> bool:
    """Whether a cell loses at most two points of right answers, or whether no answers are known."""
    return cell.accuracy_difference is None or cell.accuracy_difference.value >= -MOST_LOST - 1e-12


def _below(best: CellSummary, same: Sequence[CellSummary]) -> Pick | None:
    """Return the highest retention below the best one at which the method loses more than two points."""
    lower = [cell for cell in same if _realised(cell) < _realised(best) and not keeps_answers(cell)]
    return _pick(max(lower, key=_realised)) if lower else None


def _confidence(cell: CellSummary, doubts: Sequence[Doubt]) -> Confidence:
    """Return how far a cell's numbers can be trusted, from the number of processes, the doubts and the answers."""
    found = sorted(
        chain(_weak_sessions(cell), _weak_doubts(cell, doubts), _weak_answers(cell)), key=lambda weak: -weak[0]
    )
    if found:
        return Confidence(level=_LEVELS[found[0][0]], reasons=tuple(dict.fromkeys(reason for _, reason in found)))
    assert cell.prefill_speedup is not None
    sure = [f"{cell.prefill_speedup.sessions} processes agree", "no doubt about this cell"]
    if cell.accuracy_difference is not None:
        sure.append(units.number_of(cell.accuracy_difference.samples, "question"))
    return Confidence(level="high", reasons=tuple(sure))


def _weak_sessions(cell: CellSummary) -> list[tuple[int, str]]:
    if cell.prefill_speedup is None or cell.prefill_speedup.sessions > 1:
        return []
    return [(2, "one process measured it, and another may differ by more than the interval")]


def _weak_doubts(cell: CellSummary, doubts: Sequence[Doubt]) -> list[tuple[int, str]]:
    name = Cell(method=cell.method, retention=cell.nominal_retention).id
    found: list[tuple[int, str]] = []
    for doubt in doubts:
        # That one process measured the study is said by `_weak_sessions`.
        if doubt.kind == "sessions" or (doubt.cell is not None and doubt.cell.id != name):
            continue
        about = "the study" if doubt.cell is None else "this cell"
        found.append((2 if doubt.kind in _SERIOUS else 1, f"{about} is doubted: {doubt.kind}"))
    return found


def _weak_answers(cell: CellSummary) -> list[tuple[int, str]]:
    lost = cell.accuracy_difference
    if lost is None:
        return []
    possible = -lost.ci95[0]
    level = sum(possible > limit for limit in _POSSIBLE_LOSS)
    asked = units.number_of(lost.samples, "question")
    return [(level, f"{asked} cannot exclude a loss of {units.score(100 * possible)} points")] if level else []


def _pick(cell: CellSummary) -> Pick:
    assert cell.prefill_speedup is not None
    return Pick(
        method=cell.method,
        retention=cell.nominal_retention,
        realised=_realised(cell),
        prefill_speedup=cell.prefill_speedup,
        total_speedup=cell.total_speedup,
        accuracy_difference=cell.accuracy_difference,
    )


def _overlap(one: CellSummary, other: CellSummary) -> bool:
    """Whether the intervals of two speed-ups share a value."""
    assert one.prefill_speedup is not None and other.prefill_speedup is not None
    (low, high), (least, most) = one.prefill_speedup.ci95, other.prefill_speedup.ci95
    return low <= most and least <= high


def _methods(cells: Sequence[CellSummary]) -> list[str]:
    return [cell.method for cell in cells]


def _speedup(cell: CellSummary) -> float:
    return cell.prefill_speedup.value if cell.prefill_speedup is not None else 0.0


def _difference(cell: CellSummary) -> float:
    return cell.accuracy_difference.value if cell.accuracy_difference is not None else 0.0


def _realised(cell: CellSummary) -> float:
    return cell.retention.realised if cell.retention is not None else cell.nominal_retention
