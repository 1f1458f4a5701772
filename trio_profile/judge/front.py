"""The cells that no other cell beats in speed and in what is kept. Controls are left out."""

from collections.abc import Sequence

from trio_profile.judge.deploy import TOLERATED
from trio_profile.quantities.summary import CellSummary

CONTROL = "control"
"""The remark of a method that others are compared with. [trio_core.methods.method.Reference.remark]"""


def licence(remark: str) -> str:
    """Return the warning about a method whose code restricts its use, in brackets; else empty."""
    return f" ({remark})" if "non-commercial" in remark else ""


def judged_cells(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells with times that are no controls; if any answers are known, only those with answers."""
    timed = [cell for cell in cells if cell.prefill_speedup is not None and cell.remark != CONTROL]
    answered = [cell for cell in timed if cell.accuracy_difference is not None]
    return answered or timed


def keeps_answers(cell: CellSummary) -> bool:
    """Return whether a cell loses at most two points of right answers, or whether no answers are known."""
    return cell.accuracy_difference is None or cell.accuracy_difference.value >= -TOLERATED - 1e-12


def loss(cell: CellSummary) -> float | None:
    """Return a cell's share of wrong answers, or its mean KL where no answers are known; None without either."""
    if cell.accuracy is not None:
        return 1 - cell.accuracy.value
    return None if cell.kl_nats_mean is None else cell.kl_nats_mean.value


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
