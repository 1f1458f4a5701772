"""How the speed of the machine drifted while it measured.

Neighbouring runs find the machine in nearly the same state. On shared cores a state lasts for seconds, as long as a
round. So the few dense runs of a round say too little of the moment at which a cell ran. All runs together say more:

    log time of a run = its cell + drift + noise,

where the drift is a random walk from run to run of a process. It is smoothed as by Kalman (1960), all runs at once.
Single slow runs and jumps count for less (Huber 1964).
"""

from collections.abc import Sequence
from typing import Any

STEP = 3.0
"""The variance of a step of the drift over that of the noise. It was chosen among 0.1 to 10 after nine sweeps of
`pocket` on two shared cores: their intervals were between 17 % wider and 50 % narrower than without any drift."""
_HUBER = 3.0
"""The limit beyond which a run counts for less, in standard deviations of what the drift leaves. The drift follows the
runs, so it leaves less than the noise. With 1.5 ordinary steps were limited too, and 95 % intervals held in 85 % of the
studies on machines that drift strongly (tests/benchmarks/test_coverage.py)."""
_ITERATIONS = 8
_SPREAD_OF_MEDIAN_DEVIATION = 1.4826


def drift_of(cells: Sequence[Sequence[str]], times: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return how long the dense model would take at the moment of each run of each process, as the other runs tell.

    Only its ratios between moments mean anything: a process that is slow for the dense model alone does not move it.

    cells: of the runs of each process, in the order of measurement; empty for the dense model.
    times: of the runs, more than 0.
    """
    import numpy as np  # a table of records needs neither
    from scipy.linalg import solveh_banded
    from scipy.sparse.linalg import LinearOperator, cg

    ends = np.cumsum([len(of_process) for of_process in times])
    names = [cell for of_process in cells for cell in of_process]
    logs = np.log([time for of_process in times for time in of_process])
    numbers = {cell: number for number, cell in enumerate(sorted({*names} - {""}))}
    count, of_run = len(numbers), np.array([numbers.get(cell, len(numbers)) for cell in names])
    within = np.ones(len(names) - 1)
    within[[end - 1 for end in ends if 0 < end < len(names)]] = 0  # no step from one process to the next
    noise, walk, effects = np.ones(len(names)), within / STEP, np.zeros(count)
    drift = rest = logs
    bands = np.zeros((2, len(names)))  # the normal equations of the drift: above the diagonal, and the diagonal

    def by_run(effects: Any) -> Any:
        """The effect of each run's cell; the dense model has none."""
        return np.append(effects, 0.0)[of_run]

    def by_cell(values: Any) -> Any:
        """The sums over the runs of each cell."""
        return np.bincount(of_run, values, minlength=count + 1)[:count]

    def without_drift(values: Any) -> Any:
        """The sums over each cell's runs of what the drift leaves of the values."""
        return by_cell(noise * (values - solveh_banded(bands, noise * values)))

    for _ in range(_ITERATIONS):
        bands[0, 1:] = -walk
        bands[1] = noise + np.pad(walk, (1, 0)) + np.pad(walk, (0, 1))
        equations = LinearOperator((count, count), lambda vector: without_drift(by_run(vector)))
        scale = 1 / by_cell(noise)
        condition = LinearOperator((count, count), lambda vector, scale=scale: scale * vector)
        effects, _ = cg(equations, without_drift(logs), effects, rtol=1e-12, maxiter=20 * count + 20, M=condition)
        drift = solveh_banded(bands, noise * (logs - by_run(effects)))
        rest = logs - drift - by_run(effects)
        limit = _HUBER * _SPREAD_OF_MEDIAN_DEVIATION * float(np.median(np.abs(rest)))
        if limit == 0:
            break
        noise = limit / np.maximum(np.abs(rest), limit)
        walk = within * limit / np.maximum(np.abs(np.diff(drift)) / STEP**0.5, limit) / STEP
    own = noise * _inverse_diagonal(bands)  # the share of a run in the drift at its place, which is taken out
    others = np.exp(drift - own / (1 - own) * rest)
    return [others[part].tolist() for part in np.split(np.arange(len(names)), ends[:-1])]


def _inverse_diagonal(bands: Any) -> list[float]:
    """Return the diagonal of the inverse of a symmetric tridiagonal matrix, from its pivots of both directions.

    bands: above the diagonal, the first one unused; and the diagonal.
    """
    squares, diagonal = (bands[0] ** 2).tolist(), bands[1].tolist()
    down, up = diagonal[:], diagonal[:]
    for row in range(1, len(diagonal)):
        down[row] -= squares[row] / down[row - 1]
    for row in range(len(diagonal) - 2, -1, -1):
        up[row] -= squares[row + 1] / up[row + 1]
    return [1 / (first + last - middle) for first, last, middle in zip(down, up, diagonal, strict=True)]
