"""Whole numbers of tokens for several stages that cost a given total. Pure Python: nothing here imports torch.

A *ladder* is one budget for each stage, none larger than the one before. A *run* is the number of layers that see a
stage's tokens, so a ladder costs Σ run · budget.
"""

from math import gcd


def integer_budgets(total: int, runs: list[int], profile: list[float], most: int) -> tuple[int, ...]:
    """The ladder between `most` and 1, in proportion to `profile`, whose cost comes nearest to `total`.

    A stage whose share exceeds `most` drops nothing. It is made to drop only if the total cannot be met otherwise,
    because a stage that drops nothing costs no selection.

    total: the cost to meet, in tokens summed over layers.
    runs: layers after each stage.
    profile: the wanted proportion of the budgets, positive and not growing.
    most: tokens before the first stage.
    """
    wanted = _clamped_profile(total, runs, profile, most)
    full = sum(tokens == most for tokens in wanted)
    best: tuple[int, float, tuple[int, ...]] | None = None
    for first in range(min(full, len(runs) - 1), -1, -1):
        rest = total - most * sum(runs[:first])
        error, distance, ladder = _search(rest, runs[first:], wanted[first:], most)
        if best is None or error < best[0]:
            best = error, distance, (most,) * first + ladder
        if best[0] == 0:
            break
    assert best is not None
    return best[2]


def _search(total: int, runs: list[int], wanted: list[float], most: int) -> tuple[int, float, tuple[int, ...]]:
    """The best ladder: (error of the cost, distance from `wanted`, budgets).

    The search looks at integers near `wanted`. It doubles their range until the error cannot become smaller.
    """
    # Costs are multiples of the runs' common divisor, so no ladder has a smaller error than this one.
    step = gcd(*runs)
    least_error = min(total % step, -total % step)
    reach = 1
    best = _nearest(total, runs, wanted, most, reach, slack=sum(runs))
    while best[0] > least_error and reach <= max(runs):
        reach *= 2
        best = _nearest(total, runs, wanted, most, reach, slack=best[0])
    return best


def _clamped_profile(total: int, runs: list[int], profile: list[float], most: int) -> list[float]:
    """The real numbers clamp(x · profile, 1, most) whose cost is `total`, for the x that makes it so.

    The cost grows with x in straight pieces. A piece ends where a stage reaches or leaves one of its two limits.
    """

    def tokens_at(x: float) -> list[float]:
        return [min(float(most), max(1.0, x * share)) for share in profile]

    def cost_at(x: float) -> float:
        return sum(run * tokens for run, tokens in zip(runs, tokens_at(x), strict=True))

    unclamped = total / sum(run * share for run, share in zip(runs, profile, strict=True))
    if max(profile) * unclamped <= most and min(profile) * unclamped >= 1:
        return tokens_at(unclamped)
    bends = sorted(limit / share for share in profile for limit in (1, most))
    low, cost_low = bends[0], cost_at(bends[0])
    for high in bends[1:]:
        cost_high = cost_at(high)
        if cost_high >= total:
            part = (total - cost_low) / (cost_high - cost_low) if cost_high > cost_low else 0.0
            return tokens_at(low + (high - low) * part)
        low, cost_low = high, cost_high
    return tokens_at(low)


def _nearest(
    total: int, runs: list[int], wanted: list[float], most: int, reach: int, slack: int
) -> tuple[int, float, tuple[int, ...]]:
    """The ladder of integers within `reach` of `wanted` with the least (error of the cost, distance from `wanted`).

    It goes from stage to stage. For each (cost so far, last budget) it keeps only the ladder nearest to `wanted`, and
    it drops ladders that must end more than `slack` away from `total`. With a slack of Σ runs at least one ladder
    always stays: `wanted` rounded down.
    """
    ladders: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, most): (0.0, ())}
    runs_left = sum(runs)
    for run, share in zip(runs, wanted, strict=True):
        runs_left -= run
        longer: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {}
        least, greatest = max(1, int(share) - reach + 1), min(most, int(share) + reach)
        for (cost, last), (distance, ladder) in ladders.items():
            # Later budgets lie between 1 and this one, which bounds what this one may be.
            enough = -((slack + cost - total) // (run + runs_left))
            affordable = (total + slack - runs_left - cost) // run
            for budget in range(max(least, enough), min(greatest, last, affordable) + 1):
                key = cost + run * budget, budget
                entry = distance + (budget / share - 1) ** 2, (*ladder, budget)
                if key not in longer or entry < longer[key]:
                    longer[key] = entry
        ladders = longer
    return min((abs(cost - total), distance, ladder) for (cost, _), (distance, ladder) in ladders.items())
