"""The cell to deploy: the fastest cell that keeps the right answers, and how far this can be trusted.

Controls are simple rules for comparison. They are never recommended.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from trio_profile import units
from trio_profile.judge.doubts import TRANSPARENT, Doubt
from trio_profile.quantities.summary import CellSummary
from trio_profile.records.estimate import Difference, Ratio
from trio_profile.records.schema import Record

MOST_LOST = 0.02
"""A cell keeps the answers if it loses at most this share of the questions: two points."""
CONTROL = "control"
"""The remark of a method that others are compared with. [trio_core.methods.method.Reference.remark]."""
MATTERS = 1.05
"""If a study excludes a larger speed-up than this, pruning does not pay; otherwise that is open."""
POSSIBLE_LOSS = (0.05, 0.10)
"""If the interval allows a larger loss than the first, confidence is medium; than the second, it is low."""
_LEVELS: tuple[Literal["high", "medium", "low"], ...] = ("high", "medium", "low")
_Weak = tuple[int, str]
"""A reason for less confidence: the place of the level in `_LEVELS`, and the reason."""


class Pick(Record):
    """One cell that can be recommended.

    retention: the nominal retention. realised: the retention that it ran at.
    remark: what readers must know of the method wherever it is recommended.
    prefill_speedup, total_speedup, accuracy_difference: as in `CellSummary`.
    """

    method: str
    retention: float
    realised: float
    prefill_speedup: Ratio
    total_speedup: Ratio | None = None
    accuracy_difference: Difference | None = None
    remark: str = ""


class Confidence(Record):
    """How far a recommendation, or a part of it, can be trusted. reasons: why; the weightiest first."""

    level: Literal["high", "medium", "low"]
    reasons: tuple[str, ...]


class Recommendation(Record):
    """The conclusion from all cells of a study. Controls are left out; where answers are known, so are cells without.

    status: `use` if a cell pays and keeps the answers; `cost_alone` if no answers are known, so that only the speed is
        judged; `answers_lost` if every cell that pays loses more than two points of right answers; `slower` if no cell
        pays, and none may be faster by more than MATTERS; `undecided` if no cell is shown to pay, but one may;
        `unmeasured` if no method but controls is measured.
    pick: with `use` and `cost_alone` the cell to deploy; with `answers_lost` the one that loses least; with `slower`
        the one with the largest speed-up; with `undecided` the one whose interval allows the largest.
    ties: the best cells of other methods whose speed-up these measurements cannot tell from that of `pick`.
    floor: the lowest retention of the method that keeps the answers, above `below`.
    below: the next lower retention than `floor`, which loses more than two points; None if none was measured.
    confidence: in what the status says; None if nothing is measured.
    confidence_in_speed: in its speed alone; None if nothing is measured.
    confidence_in_answers: in what it says of the answers; None if it says nothing of them.
    """

    status: Literal["use", "cost_alone", "answers_lost", "slower", "undecided", "unmeasured"]
    pick: Pick | None = None
    ties: tuple[Pick, ...] = ()
    floor: float | None = None
    below: Pick | None = None
    confidence: Confidence | None = None
    confidence_in_speed: Confidence | None = None
    confidence_in_answers: Confidence | None = None


def recommend(cells: Sequence[CellSummary], doubts: Sequence[Doubt]) -> Recommendation:
    """Return what to deploy.

    cells: of all methods and retentions, also unfinished ones.
    doubts: about the study and its cells.
    """
    judged = judged_cells(cells)
    if not judged:
        return Recommendation(status="unmeasured")
    paying = [cell for cell in judged if pays(cell)]
    if not paying:
        return _without_gain(judged, doubts)
    kept = [cell for cell in paying if keeps_answers(cell)]
    if not kept:
        least = max(paying, key=_difference)
        confidences = _confidences(least, _weak_times(least, doubts), _weak_losses(paying))
        return Recommendation(status="answers_lost", pick=_pick(least), **confidences)
    best = _best(kept)
    others = [_best([cell for cell in kept if cell.method == name]) for name in dict.fromkeys(c.method for c in kept)]
    ties = [cell for cell in others if cell.method != best.method and _overlap(cell, best)]
    floor, below = _limits(best, [cell for cell in judged if cell.method == best.method])
    return Recommendation(
        status="cost_alone" if best.accuracy_difference is None else "use",
        pick=_pick(best),
        ties=tuple(_pick(cell) for cell in sorted(ties, key=lambda cell: cell.speed, reverse=True)),
        floor=floor.realised,
        below=None if below is None else _pick(below),
        **_confidences(best, _weak_times(best, doubts), _weak_answers(best)),
    )


def judged_cells(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells with times that are no controls; if any answers are known, only those with answers."""
    timed = [cell for cell in cells if cell.prefill_speedup is not None and cell.remark != CONTROL]
    answered = [cell for cell in timed if cell.accuracy_difference is not None]
    return answered or timed


def pays(cell: CellSummary) -> bool:
    """Whether the prefill is measurably faster than dense, and prefill and decoding together are not slower."""
    if cell.prefill_speedup is None or cell.prefill_speedup.ci95[0] <= 1:
        return False
    return cell.total_speedup is None or cell.total_speedup.ci95[1] >= 1


def keeps_answers(cell: CellSummary) -> bool:
    """Whether a cell loses at most two points of right answers, or whether no answers are known."""
    return cell.accuracy_difference is None or cell.accuracy_difference.value >= -MOST_LOST - 1e-12


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points on the Pareto front, in the points' order.

    Equal points are either all on the front or none of them is.

    points: pairs of a gain (higher is better) and a loss (lower is better).
    """
    return [
        index
        for index, (gain, loss) in enumerate(points)
        if not any(g >= gain and l <= loss and (g > gain or l < loss) for g, l in points)  # noqa: E741
    ]


def _without_gain(judged: Sequence[CellSummary], doubts: Sequence[Doubt]) -> Recommendation:
    """Return what follows if no cell is shown to pay."""
    best = max(judged, key=lambda cell: cell.speed)
    if all(_may_gain(cell) <= MATTERS for cell in judged):
        return Recommendation(status="slower", pick=_pick(best), **_confidences(best, _weak_times(best, doubts)))
    most = max(judged, key=_may_gain)
    wide: list[_Weak] = [(2, "the intervals hold both a gain and a loss")]
    return Recommendation(status="undecided", pick=_pick(most), **_confidences(most, wide))


def _may_gain(cell: CellSummary) -> float:
    """Return the largest speed-up that the intervals allow: of the prefill, or 1 if the total is surely slower."""
    if cell.total_speedup is not None and cell.total_speedup.ci95[1] < 1:
        return 1.0
    return cell.prefill_speedup.ci95[1] if cell.prefill_speedup is not None else 1.0


def _best(kept: Sequence[CellSummary]) -> CellSummary:
    """Return the fastest cell; of those whose intervals overlap with it, the one that loses least."""
    first = max(kept, key=lambda cell: cell.speed)
    alike = [cell for cell in kept if _overlap(cell, first)]
    return max(alike, key=lambda cell: (min(_difference(cell), 0.0), cell.speed))


def _limits(best: CellSummary, same: Sequence[CellSummary]) -> tuple[CellSummary, CellSummary | None]:
    """Return the cell at the lowest retention that keeps the answers, and the next lower one, which does not.

    Only retentions down to the first that loses too much count: below it, a cell may keep the answers by chance.

    same: the cells of the best one's method.
    """
    floor = best
    for cell in sorted(same, key=lambda cell: cell.realised, reverse=True):
        if cell.realised >= best.realised:
            continue
        if not keeps_answers(cell):
            return floor, cell
        floor = cell
    return floor, None


def loss(cell: CellSummary) -> float | None:
    """Return a cell's share of wrong answers, or its mean KL where no answers are known; None without either."""
    if cell.accuracy is not None:
        return 1 - cell.accuracy.value
    return None if cell.kl_nats_mean is None else cell.kl_nats_mean.value


# Confidence


def _confidences(cell: CellSummary, times: Iterable[_Weak], answers: Iterable[_Weak] | None = None) -> dict[str, Any]:
    """Return the three confidences of a Recommendation.

    cell: of which it speaks.
    times, answers: what weakens its times and its answers; None if it says nothing of answers.
    """
    assert cell.prefill_speedup is not None
    weak_times, weak_answers, lost = list(times), list(answers or ()), cell.accuracy_difference
    fast = [f"{cell.prefill_speedup.sessions} processes agree", "no doubt about this cell"]
    right = [] if lost is None else [_excluded(lost)]
    return {
        "confidence": _confidence([*weak_times, *weak_answers], [*fast, *right]),
        "confidence_in_speed": _confidence(weak_times, fast),
        "confidence_in_answers": None if answers is None or lost is None else _confidence(weak_answers, right),
    }


def _confidence(weak: Sequence[_Weak], sure: Sequence[str]) -> Confidence:
    """Return the confidence that is left. sure: the reasons of a high one."""
    causes = sorted(weak, key=lambda cause: -cause[0])
    reasons = [reason for _, reason in causes] or sure
    return Confidence(level=_LEVELS[causes[0][0]] if causes else "high", reasons=tuple(dict.fromkeys(reasons)))


def _excluded(lost: Difference) -> str:
    """Return which loss the questions exclude."""
    larger = f" of more than {units.score(-100 * lost.ci95[0])} points" if lost.ci95[0] < 0 else ""
    return f"{units.number_of(lost.samples, 'question')} exclude a loss{larger}"


def _weak_times(cell: CellSummary, doubts: Sequence[Doubt]) -> Iterator[_Weak]:
    """Yield what weakens the times of a cell: that one process measured it, and the doubts.

    Under each of them a speed-up may be wrong by more than its interval.
    """
    if cell.prefill_speedup is None or cell.prefill_speedup.sessions == 1:
        yield 2, "one process measured it, and another may differ by more than the interval"
    others = ("sessions", TRANSPARENT)  # the first is said above, the second is no doubt about times
    study = dict.fromkeys(doubt.kind for doubt in doubts if doubt.cell is None and doubt.kind not in others)
    own = dict.fromkeys(doubt.kind for doubt in doubts if doubt.cell is not None and doubt.cell.id == cell.cell.id)
    for subject, kinds in (("the study", study), ("this cell", own)):
        if kinds:
            yield 2, f"{subject} is doubted: {', '.join(kinds)}"


def _weak_answers(cell: CellSummary) -> Iterator[_Weak]:
    """Yield what weakens the claim that a cell keeps the answers."""
    lost = cell.accuracy_difference
    if lost is None:
        yield 1, "no answers are known"
        return
    possible = -lost.ci95[0]
    if level := sum(possible > limit for limit in POSSIBLE_LOSS):
        questions = units.number_of(lost.samples, "question")
        yield level, f"{questions} cannot exclude a loss of {units.score(100 * possible)} points"


def _weak_losses(paying: Sequence[CellSummary]) -> Iterator[_Weak]:
    """Yield what weakens the claim that every cell that pays loses more than two points."""
    for cell in paying:
        lost = cell.accuracy_difference
        if lost is not None and lost.ci95[1] >= -MOST_LOST:
            questions = units.number_of(lost.samples, "question")
            where = units.percent(cell.realised)
            yield 1, f"{questions} do not show that {cell.method} at {where} loses more than 2 points"


def _pick(cell: CellSummary) -> Pick:
    fields = {name: getattr(cell, name) for name in Pick.model_fields if name != "retention"}
    return Pick(retention=cell.nominal_retention, **fields)


def _overlap(first: CellSummary, second: CellSummary) -> bool:
    """Whether the intervals of two speed-ups share a value."""
    assert first.prefill_speedup is not None and second.prefill_speedup is not None
    (low, high), (least, most) = first.prefill_speedup.ci95, second.prefill_speedup.ci95
    return low <= most and least <= high


def _difference(cell: CellSummary) -> float:
    return cell.accuracy_difference.value if cell.accuracy_difference is not None else 0.0
