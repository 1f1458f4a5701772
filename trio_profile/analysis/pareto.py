"""The Pareto front: the points for which no other point is better in one value and at least as good in the other."""

from collections.abc import Sequence


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
