"""The Pareto front: points that no other beats in one thing without losing in another."""

from collections.abc import Sequence


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points (gain, loss) that no other matches in both and beats in one, in the points' order.

    Equal points are all on the front, or none.
    """
    return [
        index
        for index, (gain, loss) in enumerate(points)
        if not any(g >= gain and l <= loss and (g > gain or l < loss) for g, l in points)  # noqa: E741
    ]
